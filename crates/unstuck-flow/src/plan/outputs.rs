//! Example outputs: what steps put out in a rehearsal, which executes nothing. A step whose output is read needs one.

use std::sync::Arc;

use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Kind, Step};

use super::is_executed;
use super::pattern::{self, Named, Section, Target};
use crate::parse::{self, join};
use crate::problem::{Problem, Problems};
use crate::read::LocatedNode;
use crate::tree::{Content, Position};

/// What a step puts out where nothing else says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Which step, or which item of it.
    pub target: Target,
    /// What it puts out; for a step that waits for a signal, what the signal carries.
    pub output: Json,
    /// Where this was found, for people.
    pub from: Arc<str>,
}

/// Returns whether a rehearsal needs an example for the output of this step.
pub fn takes_example(step: &Step) -> bool {
    is_executed(step) || matches!(step.kind, Kind::Signal(_))
}

/// Sorts examples by how specific their targets are, then as given.
pub fn sort(examples: &mut [Example]) {
    examples.sort_by_key(|example| example.target.rank());
}

/// Loads a file that contains only examples, such as `{fetch: {rows: [1, 2]}}`, and returns them with the warnings.
pub fn load(text: &str, file: &str, flows: &[Flow]) -> Result<(Vec<Example>, Vec<Problem>), Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::new(file, text);
    let Some(documents) = parse::parse_documents(&mut problems) else { return Err(problems.into_sorted()) };
    match documents.as_slice() {
        [] => {
            problems
                .error(Position::START, "", "the file contains no outputs")
                .hint("write the id of a step and its output, for example `fetch: {rows: [1, 2]}`");
        }
        [_] => {}
        [_, second, ..] => {
            problems
                .error(second.at, "", "a file can contain only one map of outputs; this is the second")
                .hint("put all outputs into one map");
        }
    }
    let examples = documents
        .first()
        .and_then(|document| read_outputs(&LocatedNode::root(document), file, flows, &mut problems));
    match examples {
        Some(examples) if !problems.any_error() => Ok((examples, problems.into_sorted())),
        Some(_) | None => Err(problems.into_sorted()),
    }
}

/// Reads a map of step ids to outputs.
pub(super) fn read_outputs(
    spot: &LocatedNode<'_>,
    from: &str,
    flows: &[Flow],
    problems: &mut Problems<'_>,
) -> Option<Vec<Example>> {
    let Content::Map(entries) = &spot.node.content else {
        spot.expected(problems, "a map of step ids to outputs, such as `{fetch: {rows: [1, 2]}}`");
        return None;
    };
    let from: Arc<str> = from.into();
    let mut examples = Vec::new();
    let mut is_right = true;
    for entry in entries {
        let named = Named { text: &entry.key, at: entry.at, path: join(&spot.path, &entry.key) };
        match pattern::read_target(&named, Section::Outputs, flows, problems) {
            Some(target) => {
                let output = Json::of(&entry.node.value());
                examples.push(Example { target, output, from: from.clone() });
            }
            None => is_right = false,
        }
    }
    sort(&mut examples);
    is_right.then_some(examples)
}
