//! Starts a bulk action: what commands about runs do when they apply to more than one.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::CommandFactory as _;
use unstuck_api::runs::RunState;

use super::{page, watch};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreLocation;
use crate::error::CommandError;
use crate::view::changed;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::bulk::BulkBegunView;
use unstuck_api::request::{BulkOperation, BulkVerb, NewBulk, Query};

/// The filters and limits that all bulk commands share.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Only steps with an error of this group (or the start of its name); `unstuck errors` lists the groups.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// Only runs of this flow.
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Only runs in this state, or with a step that is held or in error.
    #[arg(long, value_parser = crate::command::runs::state_parser())]
    state: Option<RunState>,

    /// Only runs with this label, of their own or of their flow. Of several values of one name any, of several names all.
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::command::runs::parse_label)]
    label: Vec<(String, String)>,

    /// At most this many targets a second. [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,

    /// At most this many targets, the oldest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,

    /// List what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The filters on open errors.
#[derive(clap::Args, Default)]
pub(crate) struct Open {
    /// Only steps in error that this policy has scheduled.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    /// Only what needs a person: errors that no policy resumes and that are not acknowledged, and held steps where the
    /// command applies to those.
    #[arg(long)]
    needs_person: bool,

    /// Include acknowledged errors.
    #[arg(long, conflicts_with = "needs_person")]
    include_acknowledged: bool,
}

/// What else an order says.
#[derive(Default)]
pub(crate) struct More {
    pub(crate) open: Open,
    pub(crate) canary: Option<u32>,
    pub(crate) reason: Option<String>,
}

/// What a command names: one run and maybe a step of it, several runs, or nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    One { run: String, step: Option<String> },
    Several(Vec<String>),
}

impl Named {
    /// Interprets the names: a second one is a step of the first run or another run, whichever exists.
    pub(crate) fn of(mut names: Vec<String>, place: &StoreLocation) -> Result<Named, CommandError> {
        let looks_like_run =
            |name: &String| name.starts_with("run_") || name == unstuck_service::run_name::LATEST;
        Ok(match names.as_slice() {
            [_] => Named::One { run: names.remove(0), step: None },
            [first, second] if !looks_like_run(second) => {
                let query = Query::Names { first: first.clone(), second: second.clone() };
                if place.read(query)?.read()? {
                    Named::Several(names)
                } else {
                    Named::One { run: names.remove(0), step: names.pop() }
                }
            }
            _ => Named::Several(names),
        })
    }

    /// Returns the runs; refuses a step, because a bulk action takes runs.
    pub(crate) fn runs(self) -> Result<Vec<String>, CommandError> {
        match self {
            Named::One { run, step: None } => Ok(vec![run]),
            Named::One { run, step: Some(step) } => Err(CommandError::new(format!(
                "`{step}` is a step of {run}. A bulk action takes runs: name each by its id (`run_...`) or its key"
            ))),
            Named::Several(runs) => Ok(runs),
        }
    }
}

impl Common {
    /// Returns whether an option is given that makes the command a bulk action.
    pub(crate) fn is_given(&self) -> bool {
        self.selects() || self.dry_run
    }

    /// Whether anything is said that is only of use for several runs.
    pub(crate) fn selects(&self) -> bool {
        let is_said = self.group.is_some() || self.flow.is_some() || self.state.is_some();
        is_said || !self.label.is_empty() || self.rate.is_some() || self.max.is_some()
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Builds the request for the bulk action.
    pub(crate) fn into_new_bulk(self, action: BulkVerb, runs: Vec<String>, more: More) -> NewBulk {
        let Common { group, flow, state, label: labels, rate, max, dry_run } = self;
        let More { open: Open { policy, needs_person, include_acknowledged }, canary, reason } = more;
        NewBulk {
            action,
            runs,
            group,
            flow,
            policy,
            state,
            include_acknowledged,
            needs_person,
            labels,
            max,
            rate,
            canary,
            reason,
            dry_run,
        }
    }
}

impl Open {
    /// Returns whether it takes a bulk action to do this.
    pub(crate) fn is_given(&self) -> bool {
        self.policy.is_some() || self.needs_person || self.include_acknowledged
    }

    /// Only what needs a person.
    pub(crate) fn needing_person(needs_person: bool) -> Open {
        Open { needs_person, ..Open::default() }
    }
}

/// Ends the process with a usage error for what is missing on the command line.
pub(crate) fn exit_with_usage(command: &str, sentence: &str) -> ! {
    let mut all = crate::Arguments::command();
    // Makes the usage begin with the name of the program.
    all.build();
    let kind = clap::error::ErrorKind::MissingRequiredArgument;
    match all.find_subcommand_mut(command) {
        Some(one) => crate::error::exit_with_usage_error(&one.error(kind, sentence)),
        None => crate::error::exit_with_usage_error(&all.error(kind, sentence)),
    }
}

/// Starts a bulk action. If no other process has the store, drives it here while it acts.
pub(crate) fn begin_bulk(place: &StoreLocation, order: NewBulk, format: Format) -> CommandResult {
    // Listens before the user is told that Ctrl-C works.
    let is_interrupted = watch::listen_for_interrupt()?;
    let answer = place.change_bulk(BulkOperation::Begin(Box::new(order)))?;
    let begun: BulkBegunView = answer.read()?;
    let mut stdout = Output::stdout();
    let Some(bulk) = &begun.bulk else {
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text if begun.total > 0 => show_dry_run(&begun, &mut stdout),
            Format::Text => {
                let what = text::visible(&begun.selection);
                stdout.line(&format!("Nothing to do: nothing matches {what}."));
                show_left_out(&begun, &mut stdout);
            }
        }
        stdout.finish()?;
        return Ok(ExitCode::SUCCESS);
    };
    if format == Format::Text {
        let name = stdout.look.paint(style::BOLD, bulk);
        stdout.line(&format!("{name} started with {}.", count_targets(begun.total)));
    }
    if let Some(page) = watch::drive_bulk(place, bulk, &is_interrupted)? {
        stdout.finish()?;
        return watch::report_end(&page, place, format, is_interrupted.load(Ordering::Relaxed));
    }
    match format {
        Format::Json => stdout.line(&answer.pretty()),
        Format::Text => {
            show_left_out(&begun, &mut stdout);
            let sentence = if begun.action == "resume" {
                "The process that has the store open continues it. Resumed steps wait until their runs are continued."
            } else {
                "The process that has the store open continues it."
            };
            changed::write_wrapped(&mut stdout, sentence);
            watch::show_watch_command(bulk, &mut stdout, &place.option);
        }
    }
    stdout.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what a dry run selected.
fn show_dry_run(begun: &BulkBegunView, stdout: &mut Output) {
    super::show::show_targets(&begun.targets, &begun.action, stdout);
    let more = begun.total.saturating_sub(begun.targets.len() as u64);
    if more > 0 {
        stdout.line(&format!("and {more} more"));
    }
    stdout.line(&format!("\nDry run: {} selected. Nothing was changed.", count_targets(begun.total)));
    show_left_out(begun, stdout);
}

/// Shows how many selected runs were left out, and why.
fn show_left_out(begun: &BulkBegunView, stdout: &mut Output) {
    if let Some(words) = page::describe_left_out(&begun.action, begun.left_out) {
        changed::write_wrapped(stdout, &format!("{words}."));
    }
}

fn count_targets(count: u64) -> String {
    if count == 1 { "1 target".to_owned() } else { format!("{count} targets") }
}
