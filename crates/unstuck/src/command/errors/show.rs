//! `unstuck errors show`: one group of errors, and what is in error now.

use std::process::ExitCode;
use unstuck_service::local_time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::table::{Cell, Table};
use crate::view::text;
use unstuck_api::errors::{ErrorGroupDetails, ErrorGroupView, ErrorView, OpenErrorView};
use unstuck_api::request::Query;
use unstuck_service::errors::why_no_policy;

/// Show one group of errors: how many, which are open now, and examples.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The name of the group, or the start of it.
    group: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck errors show err_3f2a9c1e0b44
  unstuck errors show 3f2a -o json | jq '.now[].run'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::ErrorGroup { group: self.group })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_group(&answer.read()?, &mut stdout, &place.option),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows a group: its counts, its open errors and examples.
fn show_group(page: &ErrorGroupDetails, stdout: &mut Output, option: &str) {
    let group = &page.line;
    let name = stdout.look.paint(style::BOLD, &group.group);
    stdout.line(&format!("{name} of action `{}`", text::visible(&group.action)));
    let flows: Vec<String> =
        group.flows.iter().map(|flow| format!("{} in {}", flow.count, flow.flow)).collect();
    let fields = [
        ("cause", group.pattern.clone()),
        ("errors", format!("{} ({})", group.count, flows.join(", "))),
        ("first", local_time::format_full_and_relative(group.first)),
        ("last", local_time::format_full_and_relative(group.last)),
        ("now", describe_open_errors(group)),
    ];
    for (name, value) in fields {
        stdout.field(name, 7, &value);
    }
    if !page.now.is_empty() {
        stdout.line("");
        let left_out = (group.open + group.acknowledged).saturating_sub(page.now.len() as u64);
        write_table(&open_errors_table(&page.now), stdout);
        if left_out > 0 {
            let all =
                format!("and {left_out} more; all of them: unstuck errors open {}{option}", group.group);
            stdout.line(&all);
        }
    }
    paused_policies::show_paused(group.policies_paused.as_ref(), stdout, option);
    if !group.examples.is_empty() {
        stdout.line("");
        write_table(&errors_table("EXAMPLES", &group.examples), stdout);
    }
    let advice = match why_no_policy(group) {
        None => format!("To write a policy for it: unstuck policy suggest {}{option}", group.group),
        Some(why) => format!("No policy would help: {why}."),
    };
    stdout.line(&format!("\n{}", text::visible(&advice)));
}

/// Describes how many steps are in error, and what will happen to them.
fn describe_open_errors(group: &ErrorGroupView) -> String {
    let mut parts = Vec::new();
    match (group.open, group.runs) {
        (0, _) => parts.push("none in error".to_owned()),
        (1, _) => parts.push("1 step in error".to_owned()),
        (open, 1) => parts.push(format!("{open} steps in error, of 1 run")),
        (open, runs) => parts.push(format!("{open} steps in error, of {runs} runs")),
    }
    for policy in &group.scheduled {
        parts.push(format!("{} scheduled by policy `{}`", policy.count, policy.policy));
    }
    if group.acknowledged > 0 {
        parts.push(format!("{} acknowledged", group.acknowledged));
    }
    parts.join("; ")
}

pub(super) fn open_errors_table(now: &[OpenErrorView]) -> Table {
    let shown = now.iter().flat_map(|open| [Some(open.since), open.next_auto_resume]).flatten();
    let times = local_time::Column::of(shown);
    let mut table = Table::new(&["IN ERROR NOW", "STEP", "ROUND", &times.title("SINCE"), "NEXT", "CAUSE"]);
    for open in now {
        let next = match (&open.next_auto_resume, &open.next_auto_resume_reason, open.acknowledged) {
            (_, _, true) => "acknowledged".to_owned(),
            (Some(at), Some(policy), _) => format!("`{policy}` at {}", times.cell(*at)),
            (_, _, false) => "-".to_owned(),
        };
        table.row(vec![
            Cell::new(&open.run),
            Cell::new(&open.step),
            Cell::new(open.rounds.to_string()),
            Cell::new(times.cell(open.since)),
            Cell::new(next),
            Cell::new(&open.cause),
        ]);
    }
    table
}

pub(super) fn errors_table(title: &str, errors: &[ErrorView]) -> Table {
    let times = local_time::Column::of(errors.iter().map(|error| error.at));
    let mut table = Table::new(&[&times.title(title), "RUN", "STEP", "ATTEMPT", "CAUSE"]);
    for example in errors {
        table.row(vec![
            Cell::new(times.cell(example.at)),
            Cell::new(&example.run),
            Cell::new(&example.step),
            Cell::new(example.attempt.to_string()),
            Cell::new(&example.cause),
        ]);
    }
    table
}

pub(super) fn write_table(table: &Table, stdout: &mut Output) {
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}
