//! Finds which fields of a step's output the flow reads.

use std::collections::BTreeSet;

use crate::model::expression::{Expression, Template};
use crate::model::flow::{Flow, Kind, Step, StepIndex, WaitFor};

/// Lists the fields of a step's output that expressions of the flow read by a literal path (`steps.a.output.field`).
pub(super) fn output_fields_read(flow: &Flow, step: StepIndex) -> BTreeSet<String> {
    let id = &flow.step(step).id;
    let starts =
        [format!("steps.{id}.output."), format!("steps[\"{id}\"].output."), format!("steps['{id}'].output.")];
    let output = flow.output.as_ref().and_then(computed_expression);
    let expressions = flow.steps.iter().flat_map(expressions_of_step).chain(output);
    let mut fields = BTreeSet::new();
    for expression in expressions.filter(|expression| expression.reads.steps.contains(&step)) {
        for start in &starts {
            for rest in expression.source.split(start.as_str()).skip(1) {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                fields.extend((end > 0).then(|| rest[..end].to_owned()));
            }
        }
    }
    fields
}

/// Lists all expressions of a step.
fn expressions_of_step(step: &Step) -> Vec<&Expression> {
    let of_kind = match &step.kind {
        Kind::Set(value) => computed_expression(value),
        Kind::Wait(WaitFor::Computed(expression)) => Some(expression),
        Kind::Action(_)
        | Kind::Process(_)
        | Kind::Http(_)
        | Kind::Child(_)
        | Kind::Wait(WaitFor::Span(_) | WaitFor::Until(_) | WaitFor::Next(_))
        | Kind::Signal(_)
        | Kind::Emulate(_) => None,
    };
    let with = step.node.with.as_ref().and_then(computed_expression);
    let items = step.node.for_each.as_ref().and_then(|each| computed_expression(&each.items));
    [with, items, step.node.when.as_ref(), of_kind].into_iter().flatten().collect()
}

fn computed_expression(template: &Template) -> Option<&Expression> {
    match template {
        Template::Fixed(_) => None,
        Template::Computed(expression) => Some(expression),
    }
}
