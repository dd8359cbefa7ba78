//! The `input` of a flow: a JSON Schema that the inputs of runs are checked against.

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use unstuck_core::model::flow::{CheckInput, Flow};

use crate::computed::pointed;
use crate::problem::Problems;
use crate::read::Spot;
use crate::tree::Content;

/// What JSON Schema calls the types of JSON.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// How many problems of one input are told.
const MAX_TOLD: usize = 20;
/// How long a problem may be: it can quote the input.
const MAX_CHARS: usize = 300;

/// Checks the input of a run against the schema of its flow, if it has one.
pub fn check_input(flow: &Flow, input: &Value) -> Result<(), Vec<String>> {
    flow.input.as_ref().map_or(Ok(()), |schema| schema.check(input))
}

/// A compiled schema.
pub(crate) struct InputSchema(Validator);

impl CheckInput for InputSchema {
    fn check(&self, input: &Value) -> Result<(), Vec<String>> {
        let problems: Vec<String> = self
            .0
            .iter_errors(input)
            .take(MAX_TOLD)
            .map(|error| format!("{}: {}", place(input, error.instance_path().as_str()), sentence(&error)))
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// Compiles a schema. Nothing is ever fetched for it, and patterns take linear time.
pub(crate) fn read(spot: &Spot<'_>, problems: &mut Problems<'_>) -> Option<InputSchema> {
    if !matches!(spot.node.content, Content::Map(_) | Content::Bool(_)) {
        spot.expected(problems, "a JSON Schema, which is a map");
        return None;
    }
    let schema = spot.node.value();
    let wrong: Vec<(String, String)> = jsonschema::draft202012::meta::validator()
        .iter_errors(&schema)
        .take(MAX_TOLD)
        .map(|error| (error.instance_path().as_str().to_owned(), sentence(&error)))
        .collect();
    if wrong.is_empty() {
        let options = jsonschema::draft202012::options().offline();
        match options.with_pattern_options(PatternOptions::regex()).build(&schema) {
            Ok(validator) => return Some(InputSchema(validator)),
            Err(error) => refuse(spot, error.instance_path().as_str(), &sentence(&error), problems),
        }
    }
    for (pointer, message) in wrong {
        let node = spot.node.at_pointer(&pointer);
        match node.text().filter(|_| pointer.ends_with("/type")) {
            Some(word) => {
                let hint = crate::suggest::hint(word, TYPES);
                let path = pointed(&spot.path, spot.node, &pointer);
                problems.error(node.at, path, format!("JSON has no type `{word}`")).maybe_hint(hint);
            }
            None => refuse(spot, &pointer, &message, problems),
        }
    }
    None
}

fn refuse(spot: &Spot<'_>, pointer: &str, message: &str, problems: &mut Problems<'_>) {
    let node = spot.node.at_pointer(pointer);
    let path = pointed(&spot.path, spot.node, pointer);
    let hint = if message.contains("://") {
        "nothing is fetched: put the schema under `$defs`"
    } else if message.contains("regex") {
        "patterns have no look-around and no back-references, and a bounded size"
    } else {
        "`input` is a JSON Schema of draft 2020-12"
    };
    problems.error(node.at, path, format!("not a JSON Schema: {message}")).hint(hint);
}

fn sentence(error: &ValidationError<'_>) -> String {
    let text = error.to_string();
    let text = text.split(" and retrieving it failed").next().unwrap_or_default();
    let short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() { format!("{short}...") } else { short }
}

/// `/items/0/name` as `input.items[0].name`.
fn place(input: &Value, pointer: &str) -> String {
    let mut path = String::from("input");
    let mut value = Some(input);
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Array(items)) = value {
            path = format!("{path}[{key}]");
            value = key.parse::<usize>().ok().and_then(|place| items.get(place));
        } else {
            path = format!("{path}.{key}");
            value = value.and_then(|value| value.get(&key));
        }
    }
    path
}
