//! `unstuck schedule`: when a server starts runs by the clock: listed, shown, paused, and fired by hand.

use std::process::ExitCode;

use unstuck_api::request::{Query, ScheduleOperation};
use unstuck_api::schedules::{ChangedScheduleView, ScheduleView, SchedulesView};
use unstuck_core::time::Millis;
use unstuck_service::local_time::{format_full, format_full_and_relative, format_relative};

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::changed;
use crate::view::output::Output;
use crate::view::style;
use crate::view::table::{Cell, Table};
use crate::view::text;

/// List, show, pause and fire the schedules of flows.
///
/// A flow has a schedule by `schedule:` in its file. A server (`unstuck serve`) starts its runs; no other command does.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck schedule list
  unstuck schedule show nightly
  unstuck schedule pause nightly --reason 'the database is being moved'
  unstuck schedule unpause nightly
  unstuck schedule fire nightly";

#[derive(clap::Subcommand)]
enum Command {
    List(List),
    Show(Show),
    /// Pause a schedule: it starts nothing until it is unpaused.
    ///
    /// Runs that it has started are not paused.
    Pause(Change),
    /// Let a schedule continue, with its next time from now.
    ///
    /// Times that passed during the pause are not made up for.
    Unpause(Change),
    /// Start a run of a schedule now.
    ///
    /// Also while the schedule is paused, and whether earlier runs have ended or not. Its own times stay as they are.
    Fire(Change),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Command::List(list) => list.execute(format),
            Command::Show(show) => show.execute(format),
            Command::Pause(change) => change.execute(ScheduleOperation::Pause, format),
            Command::Unpause(change) => change.execute(ScheduleOperation::Unpause, format),
            Command::Fire(change) => change.execute(ScheduleOperation::Fire, format),
        }
    }
}

/// List the schedules, by the names of their flows.
#[derive(clap::Args)]
struct List {
    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// The page after this one, as `next` of that page in JSON.
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl List {
    fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::Schedules { after: self.after, limit: self.limit as usize })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_schedules(&answer.read()?, &mut stdout, &place.option),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show_schedules(found: &SchedulesView, stdout: &mut Output, option: &str) {
    if found.schedules.is_empty() {
        return stdout.line(
            "No schedules. Add `schedule:` to a flow file and apply it with `unstuck flow apply FILE`.",
        );
    }
    let mut table = Table::new(&["FLOW", "SCHEDULE", "NEXT", "LAST RUN", "FIRED", "MISSED", "SKIPPED"]);
    for schedule in &found.schedules {
        let next = match (&schedule.paused, schedule.next.first()) {
            (Some(_), _) => Cell::styled("paused", style::LATER),
            (None, Some(next)) => Cell::new(format_relative(*next)),
            (None, None) => Cell::new("never"),
        };
        table.row(vec![
            Cell::new(&schedule.flow),
            Cell::new(describe_timing(schedule)),
            next,
            Cell::new(schedule.last.as_ref().map_or("", |last| last.run.as_str())),
            Cell::new(schedule.fired.to_string()),
            Cell::new(schedule.missed.to_string()),
            Cell::new(schedule.skipped.to_string()),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
    if let Some(next) = &found.next {
        let next = text::shell_word(next);
        stdout.line(&format!("\nThere may be more: unstuck schedule list --after {next}{option}"));
    }
}

/// Show the schedule of a flow, with its next ten times.
#[derive(clap::Args)]
struct Show {
    /// The name of the flow.
    flow: String,

    #[command(flatten)]
    store: StoreArgument,
}

impl Show {
    fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::Schedule { flow: self.flow })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_schedule(&answer.read()?, &mut stdout, &place.option),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(clap::Args)]
struct Change {
    /// The name of the flow.
    flow: String,

    /// Why, for the audit.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Change {
    fn execute(self, what: ScheduleOperation, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.change_schedule(self.flow, self.reason, what)?;
        let (done, already) = match what {
            ScheduleOperation::Pause => ("Paused the schedule.", "The schedule was already paused."),
            ScheduleOperation::Unpause => ("The schedule continues.", "The schedule was not paused."),
            ScheduleOperation::Fire => {
                return changed::show_change(
                    &answer,
                    format,
                    "Started a run.",
                    "This run was already started.",
                );
            }
        };
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let ChangedScheduleView { already: was_so, schedule } = answer.read()?;
                stdout.line(&stdout.look.paint(style::BOLD, if was_so { already } else { done }));
                show_schedule(&schedule, &mut stdout, &place.option);
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The width of the names of fields.
const NAMES: usize = 12;

fn show_schedule(schedule: &ScheduleView, stdout: &mut Output, option: &str) {
    let mut field = |name: &str, value: String| stdout.field(name, NAMES, &text::visible(&value));
    field("flow", schedule.flow.clone());
    field("schedule", describe_timing(schedule));
    field("overlap", schedule.overlap.clone());
    let within = schedule.catch_up.within.map(|within| {
        let within = Millis(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
        format!(", if no longer ago than {within}")
    });
    let limit = schedule.catch_up.limit;
    field("catch-up", format!("at most {limit} missed{}", within.unwrap_or_default()));
    if let Some(paused) = &schedule.paused {
        let reason = paused.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        field("paused", format!("{} by {}{reason}", format_full_and_relative(paused.at), paused.by));
    }
    if let Some(last) = &schedule.last {
        field("last", format!("{} for {}", last.run, format_full_and_relative(last.at)));
    }
    let of_last = |at: Option<jiff::Timestamp>| {
        at.map(|at| format!(", the last at {}", format_full_and_relative(at))).unwrap_or_default()
    };
    field("fired", schedule.fired.to_string());
    field("missed", format!("{}{}", schedule.missed, of_last(schedule.last_missed)));
    field("skipped", format!("{}{}", schedule.skipped, of_last(schedule.last_skipped)));
    if let Some(since) = schedule.waiting_since {
        field("waiting", format!("the run for {} has not started yet", format_full_and_relative(since)));
    }
    if let Some(problem) = &schedule.problem {
        field("problem", problem.clone());
    }
    for (place, at) in schedule.next.iter().enumerate() {
        let shown = if place == 0 { format_full_and_relative(*at) } else { format_full(*at) };
        field(if place == 0 { "next" } else { "" }, shown);
    }
    if !schedule.begun {
        stdout.line(&format!(
            "\nNo server has taken up this schedule yet. To start its runs: unstuck serve{option}"
        ));
    } else if schedule.paused.is_some() {
        let flow = text::shell_word(&schedule.flow);
        stdout.line(&format!("\nTo let it continue: unstuck schedule unpause {flow}{option}"));
    }
}

/// `0 3 * * * Europe/Berlin`, or `every 15m`.
fn describe_timing(schedule: &ScheduleView) -> String {
    match &schedule.time_zone {
        Some(zone) => format!("{} {zone}", schedule.spec),
        None => schedule.spec.clone(),
    }
}
