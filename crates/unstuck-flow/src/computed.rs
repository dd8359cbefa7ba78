//! Values with expressions: compiles them, and checks that they read only steps that are done by then.

use std::collections::HashMap;

use unstuck_core::model::expression::{Expression, Reads, Template};
use unstuck_core::model::flow::StepIndex;

use crate::expression::{ExpressionError, Names};
use crate::graph::Ancestors;
use crate::parse::join;
use crate::problem::Problems;
use crate::read::LocatedNode;
use crate::template;
use crate::tree::{Content, Node};

/// What an expression may refer to at its position in a flow.
pub(crate) struct Scope<'a> {
    /// The steps of the flow.
    pub(crate) steps: &'a HashMap<&'a str, StepIndex>,
    /// Their ids, in order.
    pub(crate) ids: &'a [&'a str],
    /// Which of them are done by then.
    pub(crate) done: Done<'a>,
    /// Whether there is an `item`.
    pub(crate) item: bool,
    /// Whether a value may refer to secrets.
    pub(crate) secrets: bool,
}

/// Which steps are done when an expression is evaluated.
#[derive(Clone, Copy)]
pub(crate) enum Done<'a> {
    /// None: nothing has run yet.
    Nothing,
    /// All: the run is complete.
    Everything,
    /// Those that the step needs, and what these need.
    Before(StepIndex, &'a Ancestors),
}

/// Compiles a value that may contain expressions, and checks what they read.
pub(crate) fn compile_template(
    spot: &LocatedNode<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> Option<Template> {
    let lookup = |id: &str| scope.steps.get(id).copied();
    let names = Names { steps: &lookup, step_ids: scope.ids, item: scope.item, secrets: scope.secrets };
    match template::compile(&spot.node.value(), &names) {
        Ok(template) => {
            let possible = template.reads().is_none_or(|reads| check_reads(reads, spot, scope, problems));
            possible.then_some(template)
        }
        Err(errors) => {
            for wrong in errors {
                let node = spot.node.at_pointer(&wrong.pointer);
                let path = path_of_pointer(&spot.path, spot.node, &wrong.pointer);
                refuse(node, path, wrong.error, problems);
            }
            None
        }
    }
}

/// Compiles a text that is one expression, and checks what it reads.
pub(crate) fn compile_expression(
    spot: &LocatedNode<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> Option<Expression> {
    let text = spot.read_text(problems)?;
    let lookup = |id: &str| scope.steps.get(id).copied();
    let names = Names { steps: &lookup, step_ids: scope.ids, item: scope.item, secrets: false };
    match template::compile_expression(text, &names) {
        Ok(expression) => check_reads(&expression.reads, spot, scope, problems).then_some(expression),
        Err(error) => {
            refuse(spot.node, spot.path.clone(), error, problems);
            None
        }
    }
}

/// Refuses a value that contains an expression where none is evaluated. Returns whether the value is fine.
pub(crate) fn refuse_expressions(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> bool {
    let mut computed = None;
    for_each_text(spot.node, &mut |node, text| {
        if let Some(offset) = text.find("${") {
            computed.get_or_insert((node.clone(), offset));
        }
    });
    let Some((node, offset)) = computed else { return true };
    problems
        .error_inside(&node, offset, &spot.path, "expressions are not allowed here")
        .hint("put the value in `with`: an emulated step outputs it by default");
    false
}

/// Reports an error of an expression at its position inside the text.
fn refuse(node: &Node, path: String, error: ExpressionError, problems: &mut Problems<'_>) {
    problems.error_inside(node, error.offset, path, error.message).maybe_hint(error.hint);
}

/// Checks that every step that is read is done by then, and reports those that are not.
fn check_reads(
    reads: &Reads,
    spot: &LocatedNode<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems<'_>,
) -> bool {
    let mut possible = true;
    for read in &reads.steps {
        let id = scope.ids.get(usize::from(read.0)).copied().unwrap_or_default();
        let (message, hint) = match scope.done {
            Done::Everything => continue,
            Done::Before(step, ancestors) if ancestors.contains(step, *read) => continue,
            Done::Nothing => (
                format!("reads step `{id}`, but is evaluated before any step runs"),
                Some("only `input` and `run` are known here".to_owned()),
            ),
            Done::Before(step, _) if step == *read => {
                (format!("step `{id}` reads its own output, which does not exist yet"), None)
            }
            Done::Before(step, ancestors) => {
                let own = scope.ids.get(usize::from(step.0)).copied().unwrap_or_default();
                let hint = if ancestors.contains(*read, step) {
                    format!("`{id}` needs `{own}`, so it runs later")
                } else {
                    format!("add `{id}` to the `needs` of `{own}`")
                };
                (format!("reads step `{id}`, which may not have run yet"), Some(hint))
            }
        };
        possible = false;
        let (node, offset) = find_step_mention(spot.node, id);
        problems.error_inside(node, offset, &spot.path, message).maybe_hint(hint);
    }
    possible
}

/// Finds where a value mentions a step: the text node, and the offset in it.
fn find_step_mention<'a>(node: &'a Node, id: &str) -> (&'a Node, usize) {
    let ways = [format!("steps.{id}"), format!("steps['{id}']"), format!("steps[\"{id}\"]")];
    let mut found = None;
    for_each_text(node, &mut |node, text| {
        let whole = |(place, way): (usize, &String)| {
            let rest = &text[place + way.len()..];
            let goes_on =
                rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && !way.ends_with(']');
            (!goes_on).then_some(place)
        };
        let places =
            ways.iter().flat_map(|way| text.match_indices(way.as_str()).map(move |(place, _)| (place, way)));
        if let Some(place) = places.filter_map(whole).min() {
            found.get_or_insert((node, place));
        }
    });
    found.unwrap_or((node, 0))
}

/// Visits every text in a value.
fn for_each_text<'a>(node: &'a Node, visit: &mut dyn FnMut(&'a Node, &'a str)) {
    match &node.content {
        Content::Text(text) => visit(node, text),
        Content::List(nodes) => nodes.iter().for_each(|node| for_each_text(node, visit)),
        Content::Map(entries) => entries.iter().for_each(|entry| for_each_text(&entry.node, visit)),
        Content::Null | Content::Bool(_) | Content::Number(_) => {}
    }
}

/// Converts a JSON pointer inside a value into the path of the field.
pub(crate) fn path_of_pointer(path: &str, node: &Node, pointer: &str) -> String {
    let mut path = path.to_owned();
    let mut node = node;
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        path = match &node.content {
            Content::List(_) => format!("{path}[{key}]"),
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) | Content::Map(_) => {
                join(&path, &key)
            }
        };
        node = node.at_pointer(&format!("/{part}"));
    }
    path
}
