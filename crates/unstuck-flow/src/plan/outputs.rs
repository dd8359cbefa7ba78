//! Examples of outputs: what a step puts out in a rehearsal, which executes nothing. Steps that read it need one.

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

/// Whether a rehearsal has to make up what this step puts out.
pub fn takes_example(step: &Step) -> bool {
    is_executed(step) || matches!(step.kind, Kind::Signal(_))
}

/// Puts examples into the order in which they are asked: the more exact first, then as they were given.
pub fn sort(examples: &mut [Example]) {
    examples.sort_by_key(|example| example.target.rank());
}

/// Loads a file with nothing but examples: `{fetch: {rows: [1, 2]}}`, as `outputs` of a plan has them. With what is only
/// suspicious.
pub fn load(text: &str, file: &str, flows: &[Flow]) -> Result<(Vec<Example>, Vec<Problem>), Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::new(file, text);
    let Some(documents) = parse::documents(&mut problems) else { return Err(problems.into_sorted()) };
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
    let examples =
        documents.first().and_then(|document| read(&LocatedNode::root(document), file, flows, &mut problems));
    match examples {
        Some(examples) if !problems.any_error() => Ok((examples, problems.into_sorted())),
        Some(_) | None => Err(problems.into_sorted()),
    }
}

/// Reads a map of steps to their outputs.
pub(super) fn read(
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
        match pattern::read(&named, Section::Outputs, flows, problems) {
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
