//! `unstuck skip`: a step is not needed.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Open, misused};
use crate::command::bulk::confirm::{Question, confirm};
use crate::view::changed;
use unstuck_service::request::{BulkVerb, RunOperation};

/// Skip a step that is not needed: its output is null, and what needs it goes on.
///
/// The step must be in error, held, waiting or queued.
/// In several runs, or in what has something in common, it is skipped by a bulk action: see `unstuck bulk`. What they have
/// in common asks first, on a terminal; elsewhere it needs --yes. Of a step with items, those that are in error or held.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The run (its id, the beginning of its id, its key or FLOW:KEY, or @latest) and its step; `step[3]` for an item. With
    /// --run, or what runs have in common: the step alone.
    #[arg(value_name = "RUN STEP", required = true, num_args = 1..=2)]
    names: Vec<String>,

    /// That step of this run; give it again for another run.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["group", "flow", "policy", "state", "label", "needs_person"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    open: Open,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Do not ask before the step is skipped in many runs.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const USAGE: &str = "\
unstuck skip [OPTIONS] <RUN> <STEP>
       unstuck skip [OPTIONS] <STEP>   with --run, or what runs have in common";

const EXAMPLES: &str = "\
Examples:
  unstuck skip @latest notify
  unstuck skip run_0s86mke080000 'fetch[3]' --reason 'this file never existed'
  unstuck skip --flow nightly --needs-person notify --reason 'the list is closed' --yes
  unstuck skip --run run_0s86mke080000 --run run_0s86mkh2r0000 notify";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let is_bulk = self.common.is_given() || self.open.is_given() || !self.runs.is_empty();
        match (self.names.as_slice(), is_bulk) {
            ([run, step], false) => {
                let done = format!("`{step}` is skipped.");
                let already = format!("`{step}` was skipped already.");
                let what = RunOperation::Skip { step: step.clone(), reason: self.reason };
                changed::tell(&place.change(run, what)?, format, &done, &already)
            }
            ([step], true) => {
                let more = More { open: self.open, canary: None, reason: self.reason };
                let order = self.common.order(BulkVerb::Skip { step: step.clone() }, self.runs, more);
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("skipped", "skipped");
                    confirm(&place, &order, &Question { of_steps: true, done, not_done })?;
                }
                begin::execute(&place, order, format)
            }
            (_, true) => misused("skip", "with --run or what runs have in common, give the step alone"),
            (_, false) => misused("skip", "give the run and its step"),
        }
    }
}
