//! `unstuck ack`: steps in error are known, and left as they are.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Named, Open};
use crate::view::changed;
use unstuck_api::request::{BulkVerb, RunOperation};

/// Acknowledge steps in error: they are known and stay as they are.
///
/// No policy resumes an acknowledged step, and it no longer counts as an open error, until an operator resumes it. With
/// several runs or a filter, a bulk action does this: see `unstuck bulk`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run (its id, the start of its id, its key or FLOW:KEY, or @latest), then the step (`step[3]` for an item);
    /// without a step, all steps in error. Or several runs.
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "flow", "policy", "state", "label", "needs_person"],
        conflicts_with_all = ["group", "flow", "policy", "state", "label", "needs_person"])]
    names: Vec<String>,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    open: Open,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck ack @latest --reason 'the supplier delivers again on Monday'
  unstuck ack run_0s86mke080000 'fetch[3]' --reason 'this file never existed'
  unstuck ack --group err_3f2a9c1e0b44 --reason 'known and harmless'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let is_bulk = self.common.is_given() || self.open.is_given();
        let (run, step) = match Named::of(self.names, &place)? {
            Named::One { run, step } if !is_bulk => (run, step),
            named => {
                let more = More { open: self.open, canary: None, reason: Some(self.reason) };
                let order = self.common.into_new_bulk(BulkVerb::Acknowledge, named.runs()?, more);
                return begin::begin_bulk(&place, order, format);
            }
        };
        let (done, already) = match &step {
            Some(step) => (format!("Acknowledged `{step}`."), format!("`{step}` was already acknowledged.")),
            None => (
                "Acknowledged every step in error.".to_owned(),
                "Every step in error was already acknowledged.".to_owned(),
            ),
        };
        let answer = place.change(&run, RunOperation::Acknowledge { step, reason: self.reason })?;
        changed::show_change(&answer, format, &done, &already)
    }
}
