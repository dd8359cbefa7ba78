//! Example outputs: gathers them from files and from the runs of a store, and shows which are missing.

use std::sync::Arc;

use serde_json::Value;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Step};
use unstuck_flow::plan::outputs::{self, takes_example};
use unstuck_flow::plan::{Example, Pattern, Target};
use unstuck_sim::rehearse::{ExampleFrom, Missing};

use super::gather::{refused_error, show_warnings};
use super::{Arguments, show};
use crate::access::location::StoreLocation;
use crate::error::CommandError;
use crate::input::source::Source;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::request::{Query, RunsQuery};
use unstuck_api::runs::{RunView, RunsView};

/// How many of the last runs of a flow are searched.
const LAST_RUNS: usize = 20;
/// How many items of a step get an example of their own.
const MOST_ITEMS: usize = 1_000;
/// The file that is suggested for examples.
const FILE: &str = "outputs.yaml";

/// Gathers all examples in the order in which they apply: from files, the plan, the store.
pub(super) fn gather_examples(
    arguments: &Arguments,
    planned: Vec<Example>,
    flows: &[Flow],
) -> Result<Vec<Example>, CommandError> {
    let mut examples = Vec::new();
    for file in &arguments.outputs {
        let source = Source::read(file)?;
        let (found, warnings) = outputs::load(&source.text, &source.file, flows)
            .map_err(|problems| refused_error(&source, problems))?;
        show_warnings(&source, &warnings);
        examples.extend(found);
    }
    examples.extend(planned);
    if arguments.outputs_from_store {
        let place = arguments.store.place()?;
        if !place.has_store() {
            return Err(place.no_store());
        }
        let mut kept = examples_of_store(&place, flows)?;
        outputs::sort(&mut kept);
        examples.extend(kept);
    }
    Ok(examples)
}

/// Finds the last output of each step, from the newest run in which it completed.
fn examples_of_store(place: &StoreLocation, flows: &[Flow]) -> Result<Vec<Example>, CommandError> {
    let mut examples = Vec::new();
    for flow in flows {
        let mut wanted: Vec<&Step> = flow.steps.iter().filter(|step| takes_example(step)).collect();
        let runs = RunsQuery {
            flow: Some(flow.name.to_string()),
            all: true,
            limit: LAST_RUNS,
            ..RunsQuery::default()
        };
        let page: RunsView = place.read(Query::Runs(Box::new(runs)))?.read()?;
        for run in page.runs {
            if wanted.is_empty() {
                break;
            }
            let shown: RunView = place.read(Query::show(&run.id))?.read()?;
            let document: Value = serde_json::from_str(shown.run.get()).unwrap_or_default();
            wanted.retain(|step| match recorded_output(&document, step) {
                None => true,
                Some(output) => {
                    examples.extend(examples_of_step(flow, step, output, &run.id));
                    false
                }
            });
        }
    }
    let could_have = flows.iter().flat_map(|flow| &flow.steps).any(takes_example);
    if examples.is_empty() && could_have {
        let names: Vec<String> = flows.iter().map(|flow| format!("`{}`", flow.name)).collect();
        return Err(CommandError::new(format!(
            "--outputs-from-store: no step of {} has an output in the last {LAST_RUNS} runs of the store at {}. Run the flow first, or give examples with --outputs FILE",
            names.join(", "),
            place.directory.display()
        )));
    }
    Ok(examples)
}

/// Returns the output of a step in a run document, if it completed there.
fn recorded_output<'a>(document: &'a Value, step: &Step) -> Option<&'a Value> {
    let steps = document["steps"].as_array()?;
    let found = steps.iter().find(|found| found["id"] == *step.id)?;
    (found["state"] == "completed").then(|| &found["output"])
}

/// Builds the examples of a step. Each item of a fan-out gets its own; further items get that of the first.
fn examples_of_step(flow: &Flow, step: &Step, output: &Value, run: &str) -> Vec<Example> {
    let from: Arc<str> = run.into();
    let example = |item: Option<u32>, output: &Value| Example {
        target: Target::Step { flow: Some(Pattern::new(&flow.name)), step: Pattern::new(&step.id), item },
        output: Json::of(output),
        from: from.clone(),
    };
    match (&step.node.for_each, output) {
        (Some(_), Value::Array(outputs)) => {
            let items = (0..).map(Some).zip(outputs.iter().take(MOST_ITEMS));
            let rest = outputs.first().map(|first| (None, first));
            items.chain(rest).map(|(item, output)| example(item, output)).collect()
        }
        (_, output) => vec![example(None, output)],
    }
}

/// Shows where the examples were found.
pub(super) fn show_found_examples(outputs: &[ExampleFrom], stdout: &mut Output) {
    let lines: Vec<String> =
        outputs.iter().map(|example| format!("`{}` from {}", example.step, example.from)).collect();
    show::show_list("EXAMPLE OUTPUTS", &lines, anstyle::Style::new(), stdout);
}

/// Shows which examples are missing or do not fit, and how to provide them.
pub(super) fn show_missing_examples(missing: &Missing, arguments: &Arguments, stdout: &mut Output) {
    let unfit = missing.unfit.iter().map(|unfit| {
        format!(
            "{} reads the output of `{}`, but the example from {} does not fit: {}",
            unfit.read_by, unfit.step, unfit.from, unfit.why
        )
    });
    let needed = missing.steps.iter().map(|needed| {
        format!("{} reads the output of `{}`, so the rehearsal needs an example", needed.read_by, needed.step)
    });
    let lines: Vec<String> = unfit.chain(needed).collect();
    show::show_list("EXAMPLES NEEDED", &lines, style::BAD, stdout);
    if missing.steps.is_empty() {
        return;
    }
    let enough = if missing.is_enough {
        "With these examples the run completes. Replace them with real outputs:"
    } else {
        "These examples have every field that is read, but the run does not complete with them yet. Replace them with real outputs:"
    };
    stdout.line("");
    stdout.line(enough);
    stdout.line("");
    let file = arguments.outputs.last().map_or(FILE, String::as_str);
    stdout.line(&format!("cat >> {} <<'END'", text::shell_word(file)));
    for needed in &missing.steps {
        stdout.line(&format!("{}: {}", needed.step, needed.example));
    }
    stdout.line("END");
    stdout.line(&command_with_examples(arguments.outputs.is_empty()));
}

/// Returns the command as it was typed, with the file of examples if `with_file`.
fn command_with_examples(with_file: bool) -> String {
    let typed = std::env::args_os().skip(1).map(|word| text::shell_word(&word.to_string_lossy()));
    let more = if with_file { vec!["--outputs".to_owned(), FILE.to_owned()] } else { Vec::new() };
    let words: Vec<String> = std::iter::once("unstuck".to_owned()).chain(typed).chain(more).collect();
    words.join(" ")
}
