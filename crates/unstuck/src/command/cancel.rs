//! `unstuck cancel`: a run ends for good.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Open};
use crate::command::bulk::confirm::{Question, confirm};
use crate::view::changed;
use unstuck_api::request::{BulkVerb, RunOperation};

/// Cancel a run: stop its attempts and processes, and cancel its children.
///
/// A cancelled run is final; `unstuck rerun` starts its next generation. With several runs or a filter, a bulk action
/// does this: see `unstuck bulk`. A filter asks for confirmation on a terminal; elsewhere it needs --yes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The runs: id, start of an id, key (or FLOW:KEY), or @latest.
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "flow", "policy", "state", "label", "needs_person"],
        conflicts_with_all = ["group", "flow", "policy", "state", "label", "needs_person"])]
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

const EXAMPLES: &str = "\
Examples:
  unstuck cancel @latest
  unstuck cancel run_0s86mke080000 --reason 'the order was withdrawn'
  unstuck cancel --flow nightly --state held --dry-run
  unstuck cancel --group err_3f2a9c1e0b44 --max 100";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let run = match self.runs.as_slice() {
            [run] if !self.common.is_given() && !self.open.is_given() => run,
            _ => {
                let more = More { open: self.open, canary: None, reason: self.reason };
                let order = self.common.into_new_bulk(BulkVerb::Cancel, self.runs, more);
                // Runs that were named one by one need no confirmation.
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("cancelled", "cancelled");
                    confirm(&place, &order, &Question { of_steps: false, done, not_done })?;
                }
                return begin::begin_bulk(&place, order, format);
            }
        };
        let answer = place.change(run, RunOperation::Cancel { reason: self.reason })?;
        changed::show_change(&answer, format, "Cancelled the run.", "The run was already cancelled.")
    }
}
