//! The `input` of a flow: a JSON Schema that the inputs of runs are checked against.

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use unstuck_core::model::flow::{CheckInput, Flow};

use crate::computed::path_of_pointer;
use crate::problem::Problems;
use crate::read::LocatedNode;
use crate::schema_cost::{MAX_STEPS, MAX_SUBSCHEMAS, MAX_TOLD_STEPS, SchemaGraph, TooMuch};
use crate::tree::Content;

/// What JSON Schema calls the types of JSON.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// How many problems of one input are reported.
const MAX_TOLD: usize = 20;
/// How long a problem may be: it can quote the input.
const MAX_CHARS: usize = 300;

/// How large a compiled pattern may be.
const PATTERN_BYTES: usize = 2 * 1024 * 1024;
/// The stack of the schema compiler. Memory is committed only as far as it is used.
const STACK_BYTES: usize = 512 * 1024 * 1024;
/// The message where finding the reason would take too long.
const UNEXPLAINED: &str = "input: does not match the flow's schema. The part that is wrong cannot be named: the schema has too many alternatives for an input of this size";

/// Checks the input of a run against the schema of its flow, if it has one.
pub fn check_input(flow: &Flow, input: &Value) -> Result<(), Vec<String>> {
    flow.input.as_ref().map_or(Ok(()), |schema| schema.check(input))
}

/// A compiled schema, and what it would cost to use it.
pub(crate) struct InputSchema {
    validator: Validator,
    graph: SchemaGraph,
}

impl CheckInput for InputSchema {
    /// Checks an input. Estimates the cost first, so that no check starts that could take unbounded time or memory.
    fn check(&self, input: &Value) -> Result<(), Vec<String>> {
        let cost = self.graph.cost(input).map_err(|too_much| vec![describe_too_much(too_much)])?;
        if self.validator.is_valid(input) {
            return Ok(());
        }
        // The validator collects the problems of every alternative, nested ones included.
        if cost.repeated > MAX_TOLD_STEPS {
            return Err(vec![UNEXPLAINED.to_owned()]);
        }
        let problem = |error: ValidationError<'_>| {
            format!(
                "{}: {}",
                input_path(input, error.instance_path().as_str()),
                describe_schema_error(&error)
            )
        };
        Err(self.validator.iter_errors(input).take(MAX_TOLD).map(problem).collect())
    }
}

/// Describes why an input cannot be checked within the limits.
fn describe_too_much(too_much: TooMuch) -> String {
    let why = match too_much {
        TooMuch::Steps => format!("the check would take more than {MAX_STEPS} steps"),
        TooMuch::Depth => "its subschemas are nested too deeply".to_owned(),
    };
    format!(
        "input: cannot be checked against the flow's schema: {why}. Send less data, or simplify the schema"
    )
}

/// Reads and compiles a schema. Nothing is ever downloaded for it, and patterns take linear time.
pub(crate) fn read_input_schema(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<InputSchema> {
    if !matches!(spot.node.content, Content::Map(_) | Content::Bool(_)) {
        spot.expected(problems, "a JSON Schema (a map)");
        return None;
    }
    let schema = spot.node.value();
    let Some(graph) = SchemaGraph::read(&schema) else {
        let message = format!("the schema has more than {MAX_SUBSCHEMAS} subschemas");
        problems.error(spot.node.at, spot.path.clone(), message).hint("simplify it");
        return None;
    };
    let wrong = match run_on_large_stack(|| compile_schema(&schema)) {
        Ok(validator) => return Some(InputSchema { validator, graph }),
        Err(wrong) => wrong,
    };
    for (pointer, message) in wrong {
        let node = spot.node.at_pointer(&pointer);
        match node.text().filter(|_| pointer.ends_with("/type")) {
            Some(word) => {
                let hint = crate::suggest::hint(word, TYPES);
                let path = path_of_pointer(&spot.path, spot.node, &pointer);
                problems.error(node.at, path, format!("JSON has no type `{word}`")).maybe_hint(hint);
            }
            None => refuse(spot, &pointer, &message, problems),
        }
    }
    None
}

/// Compiles a schema, or returns its problems as pairs of JSON pointer and message.
fn compile_schema(schema: &Value) -> Result<Validator, Vec<(String, String)>> {
    let problem = |error: &ValidationError<'_>| {
        (error.instance_path().as_str().to_owned(), describe_schema_error(error))
    };
    let meta = jsonschema::draft202012::meta::validator();
    if !meta.is_valid(schema) {
        return Err(meta.iter_errors(schema).take(MAX_TOLD).map(|error| problem(&error)).collect());
    }
    let options = jsonschema::draft202012::options().offline();
    options
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
        .build(schema)
        .map_err(|error| vec![problem(&error)])
}

/// Runs `work` on a thread with a large stack: the compiler follows references by recursion.
fn run_on_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, Vec<(String, String)>> + Send,
) -> Result<T, Vec<(String, String)>> {
    let failed = |what: &str| vec![(String::new(), format!("it cannot be compiled: {what}"))];
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("schema-compiler".to_owned()).stack_size(STACK_BYTES);
        let compiling = thread.spawn_scoped(scope, work).map_err(|error| failed(&error.to_string()))?;
        compiling.join().unwrap_or_else(|_| Err(failed("the compiler failed")))
    })
}

/// Reports a problem of the schema at the position of its pointer, with a hint for known causes.
fn refuse(spot: &LocatedNode<'_>, pointer: &str, message: &str, problems: &mut Problems<'_>) {
    let node = spot.node.at_pointer(pointer);
    let path = path_of_pointer(&spot.path, spot.node, pointer);
    let hint = if message.contains("://") {
        "schemas are not downloaded: put this one under `$defs`"
    } else if message.contains("regex") {
        "patterns cannot use look-around or back-references, and their size is limited"
    } else {
        "`input` must be a JSON Schema of draft 2020-12"
    };
    problems.error(node.at, path, format!("not a JSON Schema: {message}")).hint(hint);
}

/// Shortens the validator's message, which may quote the input.
fn describe_schema_error(error: &ValidationError<'_>) -> String {
    let text = error.to_string();
    let text = text.split(" and retrieving it failed").next().unwrap_or_default();
    let short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() { format!("{short}...") } else { short }
}

/// Converts `/items/0/name` to `input.items[0].name`.
fn input_path(input: &Value, pointer: &str) -> String {
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
