//! `unstuck show`: one run, with its steps and what was decided.

use std::process::ExitCode;
use unstuck_service::local_time;
use unstuck_service::owner::state_phrase;

use serde_json::value::RawValue;
use unstuck_api as api;
use unstuck_core::time::Time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::CommandError;
use crate::view::changed::show_continue_command;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::style::style_of_word;
use crate::view::table::{Cell, Table};
use crate::view::text;
use unstuck_api::request::{DocumentOptions, Query};
use unstuck_api::runs::RunView;
use unstuck_service::owner::shown_state;

/// Show one run: its input and output, its steps with their attempts, and the decisions.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Show a generation before this one, as it ended.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    generation: Option<u32>,

    /// At most this many items of each `forEach`; `unstuck items` lists them page by page. [default: all]
    #[arg(long, value_name = "N")]
    items: Option<u32>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck show @latest
  unstuck show @latest --generation 1
  unstuck show run_0s86mke080000 -o json | jq .output";

/// How much of a value is shown in text.
const LONGEST_VALUE: usize = 400;
/// How many decisions are shown in text: the last ones.
const DECISIONS: usize = 20;
/// How many steps and items are shown in text.
const STEPS: usize = 200;

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let options =
            DocumentOptions { generation: self.generation, items: self.items, ..DocumentOptions::default() };
        let shown: RunView = place.read(Query::Show { run: self.run, options })?.read()?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&json_text::pretty(shown.run.get())),
            Format::Text => {
                let run: api::Run = serde_json::from_str(shown.run.get())
                    .map_err(|error| CommandError::internal(error.to_string()))?;
                show_head(&run, &mut stdout);
                show_steps(&run, &mut stdout);
                show_decisions(&run, &mut stdout);
                stdout.line("");
                if let Some(aside) = &run.set_aside {
                    let since = aside.since.map_or(String::new(), |since| {
                        format!(" since {}", local_time::format_full_and_relative(since))
                    });
                    stdout.line(&format!("Set aside{since}: {}.", text::visible(&aside.why)));
                    stdout.line(&format!("To cancel it: unstuck cancel {}{}", run.id, place.option));
                }
                match &shown.go_on {
                    Some(go_on) => show_continue_command(&mut stdout, go_on),
                    None => stdout.line(&format!(
                        "Why, and what comes next: unstuck explain {}{}",
                        run.id, place.option
                    )),
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows the state of a run, its times, inputs, output and error.
fn show_head(run: &api::Run, stdout: &mut Output) {
    let look = stdout.look;
    let state = shown_state(&run.state, run.idle);
    let state = look.paint(style_of_word(state).bold(), state_phrase(state));
    stdout.line(&format!(
        "{} of flow `{}` is {state}",
        look.paint(style::BOLD, &run.id),
        text::visible(&run.flow)
    ));
    let mut fields = vec![("version", run.version.clone()), ("generation", run.generation.to_string())];
    fields.extend(run.key.clone().map(|key| ("key", key)));
    fields.extend((!run.labels.is_empty()).then(|| ("labels", text::labels(&run.labels))));
    fields.extend(run.parent.clone().map(|parent| ("parent", parent)));
    fields.extend((run.priority != 0).then(|| ("priority", run.priority.to_string())));
    fields.extend(run.deadline.map(|at| ("deadline", local_time::format_full_and_relative(at))));
    fields.push(("created", local_time::format_full_and_relative(run.created_at)));
    fields.push(("updated", local_time::format_full_and_relative(run.updated_at)));
    fields.push(("input", one_line_value(&run.input)));
    fields.extend(run.output.as_ref().map(|output| ("output", one_line_value(output))));
    fields.extend(run.error.as_ref().map(|error| {
        let whose = error.step.as_ref().map_or(String::new(), |step| format!("{step}: "));
        ("error", format!("{whose}{}", error.cause))
    }));
    fields.extend(run.failing.then(|| ("failing", describe_failing(run.handler.as_ref()))));
    fields.extend(
        run.handler.as_ref().filter(|_| !run.failing).map(|handler| ("handler", describe_handler(handler))),
    );
    fields.extend(run.next_auto_resume.as_ref().map(|at| {
        let policy = run.next_auto_resume_reason.as_ref();
        let by = policy.map_or_else(String::new, |policy| format!(", by policy `{policy}`"));
        let is_due = Time(at.as_millisecond()) <= unstuck_service::service::now();
        let waits = match (run.policies_paused.is_some(), is_due) {
            (true, true) => "; due, but automatic resumes are paused",
            (true, false) => "; only if automatic resumes are unpaused by then",
            (false, true) if run.idle => "; due, but no process is executing the run",
            (false, _) => "",
        };
        ("resumes", format!("{}{by}{waits}", local_time::format_full_and_relative(*at)))
    }));
    fields.extend(
        run.policies_paused.as_ref().map(|paused| {
            ("paused", format!("automatic resumes {}", paused_policies::describe_paused(paused)))
        }),
    );
    for (name, value) in fields {
        stdout.field(name, 10, &value);
    }
}

/// Describes what a failing run waits for.
fn describe_failing(handler: Option<&api::Handler>) -> String {
    match handler {
        None => "the run fails when its active attempts have ended".to_owned(),
        Some(handler) if handler.run.is_none() => {
            let flow = handler.flow.as_deref().unwrap_or_default();
            format!("exception handler `{flow}` runs next, then the run fails")
        }
        Some(handler) => {
            format!("exception handler {}; the run fails when it has ended", describe_handler(handler))
        }
    }
}

/// Describes the run of the handler and its state.
fn describe_handler(handler: &api::Handler) -> String {
    let run = handler.run.as_deref().unwrap_or_default();
    let state = handler.state.as_deref().unwrap_or_default();
    let error = handler.error.as_ref().map_or_else(String::new, |error| format!(" ({})", error.cause));
    format!("{run} is {}{error}", state_phrase(state))
}

/// Shows the steps as a table, with their errors, outputs or children.
fn show_steps(run: &api::Run, stdout: &mut Output) {
    stdout.line("");
    show_step_table(&run.steps[..run.steps.len().min(STEPS)], stdout);
    if run.steps.len() > STEPS {
        stdout.line(&format!("and {} more; -o json has them all", run.steps.len() - STEPS));
    }
}

/// Shows steps or items as a table.
pub(crate) fn show_step_table(steps: &[api::Step], stdout: &mut Output) {
    let mut table = Table::new(&["STEP", "STATE", "ATTEMPTS", ""]);
    for step in steps {
        let note = match (&step.error, &step.output, &step.child) {
            (Some(error), _, _) => error.cause.clone(),
            (None, Some(output), _) => one_line_value(output),
            (None, None, Some(child)) => format!("runs as {child}"),
            (None, None, None) => String::new(),
        };
        let attempts = step.attempts.iter().map(|attempt| attempt.attempt).max();
        table.row(vec![
            Cell::new(&step.id),
            Cell::styled(&step.state, style_of_word(&step.state)),
            Cell::new(attempts.map_or("-".to_owned(), |attempts| attempts.to_string())),
            Cell::new(note),
        ]);
    }
    for line in table.lines(Some(width(stdout)), stdout.look) {
        stdout.line(&line);
    }
}

/// Shows the last decisions with their reasons.
fn show_decisions(run: &api::Run, stdout: &mut Output) {
    if run.decisions.is_empty() {
        return;
    }
    let left_out = run.decisions.len().saturating_sub(DECISIONS);
    let times = local_time::Column::of(run.decisions[left_out..].iter().map(|decision| decision.at));
    stdout.line(&format!("\n{}", stdout.look.paint(style::DIM, times.title("DECISIONS"))));
    if left_out > 0 {
        stdout.line(&format!("... {left_out} earlier; -o json has them all"));
    }
    for decision in &run.decisions[left_out..] {
        let step = decision.step.as_ref().map_or(String::new(), |step| format!("{step}: "));
        let line = format!("{step}{} ({})", decision.reason, decision.rung);
        let before = format!("{}  ", times.cell(decision.at));
        let rows = text::wrap(&text::visible(&line), width(stdout).saturating_sub(before.len()).max(16));
        for (place, row) in rows.iter().enumerate() {
            let before =
                if place == 0 { stdout.look.paint(style::DIM, &before) } else { " ".repeat(before.len()) };
            stdout.line(&format!("{before}{row}"));
        }
    }
}

fn width(stdout: &Output) -> usize {
    let size = if stdout.look.live { terminal_size::terminal_size() } else { None };
    size.map_or(100, |(width, _)| usize::from(width.0).max(40))
}

/// Puts JSON on one line and cuts it if it is long.
fn one_line_value(json: &RawValue) -> String {
    let one_line = json.get().lines().map(str::trim).collect::<Vec<_>>().join(" ");
    text::cut(&one_line, LONGEST_VALUE, "...")
}
