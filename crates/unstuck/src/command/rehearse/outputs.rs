//! Examples of outputs: from files, from the runs of a store, and which ones are missing.

use std::sync::Arc;

use serde_json::Value;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Step};
use unstuck_flow::plan::outputs::{self, takes_example};
use unstuck_flow::plan::{Example, Pattern, Target};
use unstuck_sim::rehearse::{ExampleFrom, Missing};

use super::gather::{refused, tell};
use super::{Arguments, show};
use crate::access::location::StoreLocation;
use crate::error::CommandError;
use crate::input::source::Source;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::request::{Query, RunsQuery};
use unstuck_api::runs::{RunView, RunsView};

/// So many of the last runs of a flow are looked at.
const LAST_RUNS: usize = 20;
/// So many items of a step have an output of their own.
const MOST_ITEMS: usize = 1_000;
/// The file that is suggested for examples.
const FILE: &str = "outputs.yaml";

/// All examples, in the order in which they are asked: of files, of the plan, of the store.
pub(super) fn gather(
    arguments: &Arguments,
    planned: Vec<Example>,
    flows: &[Flow],
) -> Result<Vec<Example>, CommandError> {
    let mut examples = Vec::new();
    for file in &arguments.outputs {
        let source = Source::read(file)?;
        let (found, warnings) = outputs::load(&source.text, &source.file, flows)
            .map_err(|problems| refused(&source, problems))?;
        tell(&source, &warnings);
        examples.extend(found);
    }
    examples.extend(planned);
    if arguments.outputs_from_store {
        let place = arguments.store.place()?;
        if !place.has_store() {
            return Err(place.no_store());
        }
        let mut kept = of_store(&place, flows)?;
        outputs::sort(&mut kept);
        examples.extend(kept);
    }
    Ok(examples)
}

/// What each step last put out, by the newest run in which it was completed.
fn of_store(place: &StoreLocation, flows: &[Flow]) -> Result<Vec<Example>, CommandError> {
    let mut examples = Vec::new();
    for flow in flows {
        let mut wanted: Vec<&Step> = flow.steps.iter().filter(|step| takes_example(step)).collect();
        let runs = RunsQuery {
            flow: Some(flow.name.to_string()),
            all: true,
            limit: LAST_RUNS,
            ..RunsQuery::default()
        };
        let page: RunsView = place.read(Query::Runs(runs))?.read()?;
        for run in page.runs {
            if wanted.is_empty() {
                break;
            }
            let shown: RunView = place.read(Query::Show { run: run.id.clone() })?.read()?;
            let document: Value = serde_json::from_str(shown.run.get()).unwrap_or_default();
            wanted.retain(|step| match recorded(&document, step) {
                None => true,
                Some(output) => {
                    examples.extend(of_step(flow, step, output, &run.id));
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

/// What a step has put out in a run, if it was completed there.
fn recorded<'a>(document: &'a Value, step: &Step) -> Option<&'a Value> {
    let steps = document["steps"].as_array()?;
    let found = steps.iter().find(|found| found["id"] == *step.id)?;
    (found["state"] == "completed").then(|| &found["output"])
}

/// The items of a fan-out have put out one value each, and further ones what the first did.
fn of_step(flow: &Flow, step: &Step, output: &Value, run: &str) -> Vec<Example> {
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

/// Tells where the examples were found.
pub(super) fn found(outputs: &[ExampleFrom], stdout: &mut Output) {
    let lines: Vec<String> =
        outputs.iter().map(|example| format!("`{}` from {}", example.step, example.from)).collect();
    show::list("EXAMPLE OUTPUTS", &lines, anstyle::Style::new(), stdout);
}

/// Tells which examples are missing, and how to give them.
pub(super) fn missing(missing: &Missing, arguments: &Arguments, stdout: &mut Output) {
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
    show::list("EXAMPLES NEEDED", &lines, style::BAD, stdout);
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
    stdout.line(&again(arguments.outputs.is_empty()));
}

/// The command as it was typed, with the file of examples.
fn again(with_file: bool) -> String {
    let typed = std::env::args_os().skip(1).map(|word| text::shell_word(&word.to_string_lossy()));
    let more = if with_file { vec!["--outputs".to_owned(), FILE.to_owned()] } else { Vec::new() };
    let words: Vec<String> = std::iter::once("unstuck".to_owned()).chain(typed).chain(more).collect();
    words.join(" ")
}
