//! `unstuck status`: what needs a person, who executes, what comes next, and how many runs there are.

use std::collections::BTreeMap;
use std::process::ExitCode;

use jiff::Timestamp;
use unstuck_core::time::Time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::style::style_of_word;
use crate::view::table::{Cell, Table};
use crate::view::text;
use unstuck_api::owner::OwnerView;
use unstuck_api::request::Query;
use unstuck_api::status::StatusView;
use unstuck_service::owner::{describe_run, shown_state, state_phrase};

/// Show what needs a person, what is running, what comes next, and how many runs there are.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck status
  unstuck status -o json | jq -r '.needsPerson[].run'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::Status)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_status(&answer.read()?, &mut stdout, &place.option),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows the status: what needs a person first.
fn show_status(status: &StatusView, stdout: &mut Output, option: &str) {
    show_needs_person(status, stdout, option);
    stdout.line("");
    show_executing(status, stdout);
    paused_policies::show_paused(status.policies_paused.as_ref(), stdout, option);
    if !status.next.is_empty() {
        let executed = if status.executes.is_none() { " (once a process executes the run)" } else { "" };
        write_title(stdout, &format!("\nWhat comes next{executed}"));
        let mut table = Table::new(&["", "", ""]);
        for next in &status.next {
            let when = describe_due(next.at, unstuck_service::service::now());
            table.row(vec![Cell::new(when), Cell::new(&next.run), Cell::new(&next.what)]);
        }
        write_table(&table, stdout);
    }
    stdout.line("");
    stdout.field("open", 9, &describe_counts(&count_open_runs(status)));
    stdout.field("last 24h", 9, &describe_counts(&status.ended));
    if status.more {
        stdout.line("Only the newest open runs were checked for what needs a person; there are more.");
    }
}

/// Describes when something is due: `in 5m 3s`, or `due`.
pub(super) fn describe_due(at: Timestamp, now: Time) -> String {
    let at = Time(at.as_millisecond());
    if at > now { format!("in {}", at.since(now)) } else { "due".to_owned() }
}

/// Shows the runs that need a person, with the command that explains each.
fn show_needs_person(status: &StatusView, stdout: &mut Output, option: &str) {
    match status.needs_person_count {
        0 => return write_title(stdout, "Nothing needs a person."),
        1 => write_title(stdout, "1 run needs a person"),
        count => write_title(stdout, &format!("{count} runs need a person")),
    }
    let mut table = Table::new(&["RUN", "STATE", "FLOW", "SINCE", "CAUSE"]);
    for run in &status.needs_person {
        let ago = unstuck_service::service::now().since(Time(run.since.as_millisecond()));
        table.row(vec![
            Cell::new(&run.run),
            Cell::styled(&run.state, style_of_word(&run.state)),
            Cell::new(&run.flow),
            Cell::new(format!("{ago} ago")),
            Cell::new(run.cause.as_deref().unwrap_or_default()),
        ]);
    }
    write_table(&table, stdout);
    let more = status.needs_person_count - status.needs_person.len();
    if more > 0 {
        stdout.line(&format!("and {more} more: unstuck runs --all --state error,held{option}"));
    }
    if let Some(first) = status.needs_person.first() {
        stdout.line(&format!("What you can do: unstuck explain {}{option}", first.run));
    }
}

/// Describes which process executes which run.
pub(super) fn describe_executing(status: &StatusView) -> String {
    match &status.executes {
        Some(OwnerView { process, serves: Some(url), .. }) => {
            format!("Process {process} serves this store at {url} and executes its runs.")
        }
        Some(driven) => {
            let run = describe_run(driven);
            let run = run.as_deref().unwrap_or("no run");
            format!("Process {} is executing {run}.", driven.process)
        }
        None => "No process is executing runs of this store.".to_owned(),
    }
}

/// Shows which process executes which run, or how to continue idle runs.
fn show_executing(status: &StatusView, stdout: &mut Output) {
    stdout.line(&text::visible(&describe_executing(status)));
    match status.idle_count {
        0 => return,
        1 => stdout.line("1 run is idle. Continue it with:"),
        count => stdout.line(&format!("{count} runs are idle. Each of these commands continues one:")),
    }
    for command in &status.idle {
        stdout.line(&format!("  {}", text::visible(command)));
    }
    let more = status.idle_count - status.idle.len();
    if more > 0 {
        stdout.line(&format!("  and {more} more"));
    }
}

fn write_title(stdout: &mut Output, title: &str) {
    let title = match title.strip_prefix('\n') {
        Some(rest) => format!("\n{}", stdout.look.paint(style::BOLD, rest)),
        None => stdout.look.paint(style::BOLD, title),
    };
    stdout.line(&title);
}

fn write_table(table: &Table, stdout: &mut Output) {
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}

/// Counts the runs that are not final by state; runs that no process executes count as idle, never as running.
pub(super) fn count_open_runs(status: &StatusView) -> BTreeMap<String, u64> {
    let mut open = status.open.clone();
    for (state, idle) in &status.idle_states {
        let count = open.get_mut(state).map_or(0, std::mem::take);
        let idle = count.min(*idle);
        *open.entry(shown_state(state, true).to_owned()).or_default() += idle;
        *open.entry(state.clone()).or_default() += count - idle;
    }
    open.retain(|_, count| *count > 0);
    open
}

fn describe_counts(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts
        .iter()
        .map(|(state, count)| format!("{count} {}", state_phrase(state)))
        .collect::<Vec<_>>()
        .join(", ")
}
