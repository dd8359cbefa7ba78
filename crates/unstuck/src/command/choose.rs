//! `unstuck choose`: an operator's choice for a held step.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Open, exit_with_usage};
use crate::command::bulk::confirm::{Question, confirm};
use crate::view::changed;
use unstuck_api::request::{BulkVerb, Choice, RunOperation};

/// Choose what happens to a held step: one more attempt, or no more.
///
/// A step is held by `retryStrategy: hold` and waits until an operator chooses. Use `unstuck resume` for a step in
/// error. With several runs or a filter, a bulk action does this: see `unstuck bulk`. A filter asks for confirmation on
/// a terminal; elsewhere it needs --yes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The run (its id, the start of its id, its key or FLOW:KEY, or @latest), its held step (`step[3]` for an item),
    /// and the choice: `retry` is one more attempt in the same round; `none` stops retrying: then failOnError or the
    /// exception handler applies, or the run fails. With --run or a filter: only the choice.
    #[arg(value_name = "RUN STEP CHOICE", required = true, num_args = 1..=3)]
    names: Vec<String>,

    /// Every held step of this run; repeat it for more runs.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["group", "flow", "state", "label", "needs_person"])]
    runs: Vec<String>,

    /// Only held steps with this name; `step[3]` for an item.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,

    #[command(flatten)]
    common: Common,

    /// Every held step: all of them need a person.
    #[arg(long)]
    needs_person: bool,

    /// For `retry`: start with this many, double while all of them pass, stop if one does not.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    canary: Option<u32>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const USAGE: &str = "\
unstuck choose [OPTIONS] <RUN> <STEP> <retry|none>
       unstuck choose [OPTIONS] <retry|none>   with --run or a filter";

const EXAMPLES: &str = "\
Examples:
  unstuck choose @latest transfer retry
  unstuck choose run_0s86mke080000 'fetch[3]' none
  unstuck choose --flow nightly retry --canary 5 --yes
  unstuck choose --run run_0s86mke080000 --run run_0s86mkh2r0000 --step transfer none";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let is_bulk = self.common.is_given() || self.needs_person || !self.runs.is_empty();
        let is_bulk = is_bulk || self.canary.is_some() || self.step.is_some();
        match (self.names.as_slice(), is_bulk) {
            ([run, step, choice], false) => {
                let choice = parse_choice(choice);
                let done = match choice {
                    Choice::Retry => format!("Retrying `{step}`."),
                    Choice::None => format!("Stopped retrying `{step}`."),
                };
                let answer = place.change(run, RunOperation::Choose { step: step.clone(), choice })?;
                changed::show_change(&answer, format, &done, &done)
            }
            ([choice], true) => {
                let choice = parse_choice(choice);
                let (done, not_done) = match choice {
                    Choice::Retry => ("retried", "retried"),
                    Choice::None => ("given no more attempts", "changed"),
                };
                let open = Open::needing_person(self.needs_person);
                let more = More { open, canary: self.canary, reason: None };
                let order =
                    self.common.into_new_bulk(BulkVerb::Choose { choice, step: self.step }, self.runs, more);
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    confirm(&place, &order, &Question { of_steps: true, done, not_done })?;
                }
                begin::begin_bulk(&place, order, format)
            }
            (_, true) => {
                exit_with_usage("choose", "with --run or a filter, give only the choice: retry or none")
            }
            (_, false) => {
                exit_with_usage("choose", "give the run, its held step and the choice: retry or none")
            }
        }
    }
}

/// Parses a choice, or ends the process with a usage error.
fn parse_choice(given: &str) -> Choice {
    match given {
        "retry" => Choice::Retry,
        "none" => Choice::None,
        _ => exit_with_usage("choose", &format!("`{given}` is not a choice; choose retry or none")),
    }
}
