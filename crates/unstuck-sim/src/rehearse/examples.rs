//! Which steps need an example of their output before a flow can be rehearsed, and a first guess at each.

mod shape;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::error::{EXPRESSION_ACTION, Error};
use unstuck_core::model::expression::{Expression, Template};
use unstuck_core::model::flow::{Flow, Kind, Step, StepIndex, WaitFor};
use unstuck_flow::plan::outputs::takes_example;
use unstuck_flow::plan::{BehaviourOrder, Example, Pattern, Plan, Rule, Target};

use super::auto::StepLocation;
use super::report::{EndKind, report_each};
use super::{ExecutedPlan, Keep, Rehearsal, RehearsalError, execute_plan};

/// Where an example of an output was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExampleFrom {
    /// The step, as the example names it.
    pub step: String,
    /// The file, or the run of a store.
    pub from: String,
}

/// Every example that is given, in the order in which they are asked; those of items with their step.
pub(super) fn given(plan: &Plan) -> Vec<ExampleFrom> {
    let mut all: Vec<ExampleFrom> = Vec::new();
    for example in &plan.outputs {
        let target = match &example.target {
            Target::Step { flow, step, .. } => {
                Target::Step { flow: flow.clone(), step: step.clone(), item: None }
            }
            Target::Action(_) | Target::ActionType(_) => example.target.clone(),
        };
        let from = ExampleFrom { step: target.to_string(), from: example.from.to_string() };
        if !all.contains(&from) {
            all.push(from);
        }
    }
    all
}

/// What is missing before a flow can be rehearsed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// The steps without an example.
    pub steps: Vec<MissingExample>,
    /// The examples that do not fit what reads them.
    pub unfit: Vec<Unfit>,
    /// Whether a run without any fault is completed with the examples that are suggested.
    #[serde(rename = "enough")]
    pub is_enough: bool,
}

/// A step whose output is read, and that has no example of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingExample {
    pub step: String,
    /// What reads it: a step, or the output of a flow.
    pub read_by: String,
    /// An example that has what is read, as far as that can be told from how it is read.
    pub example: Value,
}

/// An example that does not fit what reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unfit {
    pub step: String,
    /// Where its example was found.
    pub from: String,
    /// What reads it.
    pub read_by: String,
    /// What is wrong.
    pub why: String,
}

/// After so many events a run goes in circles, and shows no more of what it reads.
const MOST_EVENTS: u64 = 20_000;

/// Finds out which steps need an example, where a run without any fault fails because something reads their outputs.
pub(super) fn missing(rehearsal: &Rehearsal) -> Result<Option<Missing>, RehearsalError> {
    let mut tried = Rehearsal { runs: 1, max_events: MOST_EVENTS, keep: Keep::All, ..rehearsal.clone() };
    let mut steps: Vec<MissingExample> = Vec::new();
    let mut unfit: Vec<Unfit> = Vec::new();
    let mut is_enough = false;
    // Each time, one more step has an example at least.
    for _ in 0..=rehearsal.flows.iter().map(|flow| flow.steps.len()).sum() {
        let played = execute_plan(&tried)?;
        if report_each(&played).first().is_some_and(|end| end.end == EndKind::Completed) {
            is_enough = true;
            break;
        }
        let before = steps.len();
        for failed in failed_expressions(&played) {
            for (flow, step) in made_up(&tried.flows, &failed) {
                let location = location(rehearsal, flow, step);
                let Some(known) = known(&tried.plan, flow, step) else {
                    let example = shape::guess(&rehearsal.flows, flow, step);
                    tried.plan.outputs.push(Example {
                        target: target(flow, step),
                        output: Json::of(&example),
                        from: "".into(),
                    });
                    let read_by = failed.reader(rehearsal);
                    steps.push(MissingExample { step: location.to_string(), read_by, example });
                    continue;
                };
                let is_new = !steps.iter().any(|missing| missing.step == location.to_string())
                    && !unfit.iter().any(|unfit| unfit.step == location.to_string());
                if let (Known::Example(from), true) = (known, is_new) {
                    let (read_by, why) = (failed.reader(rehearsal), failed.cause.clone());
                    unfit.push(Unfit { step: location.to_string(), from, read_by, why });
                }
            }
        }
        if steps.len() == before {
            break;
        }
    }
    let is_about_examples = !steps.is_empty() || !unfit.is_empty();
    Ok(is_about_examples.then_some(Missing { steps, unfit, is_enough }))
}

/// An expression that could not be evaluated.
struct FailedExpression {
    flow: Arc<Flow>,
    /// Whose it is; the flow's `output` if none.
    step: Option<StepIndex>,
    cause: String,
}

impl FailedExpression {
    fn reader(&self, rehearsal: &Rehearsal) -> String {
        match self.step {
            Some(step) => format!("`{}`", location(rehearsal, &self.flow, self.flow.step(step))),
            None => format!("the `output` of flow `{}`", self.flow.name),
        }
    }
}

/// What could not be evaluated, in the order in which it happened.
fn failed_expressions(played: &ExecutedPlan) -> Vec<FailedExpression> {
    let mut found: Vec<(u64, FailedExpression)> = Vec::new();
    for (run, history) in &played.histories {
        let Some(flow) = played.ledger.flow_of.get(run).and_then(|flow| played.flows.get(flow)) else {
            continue;
        };
        for (number, event) in history {
            for fact in &event.facts {
                if let Some((step, error)) = failed(fact)
                    && error.found_by.as_deref() == Some(EXPRESSION_ACTION)
                {
                    let cause = error.cause.to_string();
                    found.push((*number, FailedExpression { flow: flow.clone(), step, cause }));
                }
            }
        }
    }
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, failed)| failed).collect()
}

/// The error of a step, or of the run itself.
fn failed(fact: &Fact) -> Option<(Option<StepIndex>, &Error)> {
    match fact {
        Fact::Unit { unit, fact: UnitFact::Ended { outcome: Outcome::Failed(error), .. } } => {
            Some((Some(unit.step), error))
        }
        Fact::Failing { error, .. } if error.unit.is_none() => Some((None, &error.error)),
        _ => None,
    }
}

/// The steps whose outputs are made up, and that the expression reads, directly or through what the engine computes.
fn made_up<'a>(flows: &'a [Flow], failed: &FailedExpression) -> Vec<(&'a Flow, &'a Step)> {
    let Some(flow) = flows.iter().find(|flow| flow.name == failed.flow.name) else { return Vec::new() };
    let all: Vec<&Expression> = match failed.step {
        Some(step) => expressions(flow.step(step)),
        None => flow.output.as_ref().and_then(computed).into_iter().collect(),
    };
    let named: Vec<&Expression> =
        all.iter().copied().filter(|expression| failed.cause.contains(&*expression.source)).collect();
    let reads = if named.is_empty() { all } else { named };
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for step in reads.iter().flat_map(|expression| &expression.reads.steps) {
        follow(flows, flow, *step, &mut seen, &mut found);
    }
    found
}

fn follow<'a>(
    flows: &'a [Flow],
    flow: &'a Flow,
    ix: StepIndex,
    seen: &mut BTreeSet<(Arc<str>, StepIndex)>,
    found: &mut Vec<(&'a Flow, &'a Step)>,
) {
    if !seen.insert((flow.name.clone(), ix)) {
        return;
    }
    let step = flow.step(ix);
    if takes_example(step) {
        found.push((flow, step));
        return;
    }
    match &step.kind {
        Kind::Set(value) => {
            for read in value.reads().into_iter().flat_map(|reads| &reads.steps) {
                follow(flows, flow, *read, seen, found);
            }
        }
        Kind::Child(name) => {
            let Some(child) = flows.iter().find(|flow| flow.name == *name) else { return };
            let reads: Vec<StepIndex> = match &child.output {
                Some(output) => output.reads().into_iter().flat_map(|reads| &reads.steps).copied().collect(),
                None => last_steps(child),
            };
            for read in reads {
                follow(flows, child, read, seen, found);
            }
        }
        Kind::Action(_)
        | Kind::Process(_)
        | Kind::Http(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Emulate(_) => {}
    }
}

/// The steps that no other needs: what a flow without an `output` puts out.
fn last_steps(flow: &Flow) -> Vec<StepIndex> {
    let is_needed = |ix: &StepIndex| flow.steps.iter().any(|step| step.node.needs.contains(ix));
    (0..).map(StepIndex).take(flow.steps.len()).filter(|ix| !is_needed(ix)).collect()
}

/// Where it is said what a step puts out.
enum Known {
    /// In an example, which was found there.
    Example(String),
    /// In an example that was guessed here, in the plan of the step's attempts, or in the flow itself.
    Otherwise,
}

fn known(plan: &Plan, flow: &Flow, step: &Step) -> Option<Known> {
    if let Some(example) = plan.example(&flow.name, step, None) {
        let is_guessed = example.from.is_empty();
        return Some(if is_guessed { Known::Otherwise } else { Known::Example(example.from.to_string()) });
    }
    let says = |rule: &Rule| {
        let acts = match &rule.order {
            BehaviourOrder::Sequence(acts) => acts.as_slice(),
            BehaviourOrder::Odds(_) => &[],
        };
        rule.shared.output.is_some() || acts.iter().any(|act| act.output.is_some())
    };
    let is_emulated = matches!(&step.kind, Kind::Emulate(emulation) if emulation.output.is_some());
    let is_said = plan.rule(&flow.name, step, None).is_some_and(says);
    (is_emulated || is_said).then_some(Known::Otherwise)
}

fn target(flow: &Flow, step: &Step) -> Target {
    Target::Step { flow: Some(Pattern::new(&flow.name)), step: Pattern::new(&step.id), item: None }
}

fn location(rehearsal: &Rehearsal, flow: &Flow, step: &Step) -> StepLocation {
    let of = (flow.name != rehearsal.flow).then(|| flow.name.clone());
    StepLocation { flow: of, step: step.id.clone() }
}

/// What a step computes.
fn expressions(step: &Step) -> Vec<&Expression> {
    let of_kind = match &step.kind {
        Kind::Set(value) => computed(value),
        Kind::Wait(WaitFor::Computed(expression)) => Some(expression),
        Kind::Action(_)
        | Kind::Process(_)
        | Kind::Http(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Emulate(_) => None,
    };
    let with = step.node.with.as_ref().and_then(computed);
    let items = step.node.for_each.as_ref().and_then(|each| computed(&each.items));
    [with, items, step.node.when.as_ref(), of_kind].into_iter().flatten().collect()
}

fn computed(template: &Template) -> Option<&Expression> {
    match template {
        Template::Fixed(_) => None,
        Template::Computed(expression) => Some(expression),
    }
}
