//! `unstuck skip`: a step is not needed.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Open, exit_with_usage};
use crate::command::bulk::confirm::{Question, confirm};
use crate::view::changed;
use unstuck_api::request::{BulkVerb, RunOperation};

/// Skip a step: its output is null, and the steps that need it continue.
///
/// The step must be in error, held, waiting or queued. With several runs or a filter, a bulk action does this: see
/// `unstuck bulk`. A filter asks for confirmation on a terminal; elsewhere it needs --yes. Of a step with items, only
/// items in error or held are skipped.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The run (its id, the start of its id, its key or FLOW:KEY, or @latest) and its step (`step[3]` for an item).
    /// With --run or a filter: only the step.
    #[arg(value_name = "RUN STEP", required = true, num_args = 1..=2)]
    names: Vec<String>,

    /// The step in this run; repeat it for more runs.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["group", "flow", "policy", "state", "label", "needs_person"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    open: Open,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const USAGE: &str = "\
unstuck skip [OPTIONS] <RUN> <STEP>
       unstuck skip [OPTIONS] <STEP>   with --run or a filter";

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
                let done = format!("Skipped `{step}`.");
                let already = format!("`{step}` was already skipped.");
                let what = RunOperation::Skip { step: step.clone(), reason: self.reason };
                changed::show_change(&place.change(run, what)?, format, &done, &already)
            }
            ([step], true) => {
                let more = More { open: self.open, canary: None, reason: self.reason };
                let order = self.common.into_new_bulk(BulkVerb::Skip { step: step.clone() }, self.runs, more);
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("skipped", "skipped");
                    confirm(&place, &order, &Question { of_steps: true, done, not_done })?;
                }
                begin::begin_bulk(&place, order, format)
            }
            (_, true) => exit_with_usage("skip", "with --run or a filter, give only the step"),
            (_, false) => exit_with_usage("skip", "give the run and its step"),
        }
    }
}
