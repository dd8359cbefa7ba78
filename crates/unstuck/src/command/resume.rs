//! `unstuck resume`: steps in error are tried again, and those that wait for a retry are tried now.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Named, Open};
use crate::input::json_input;
use crate::view::changed;
use unstuck_api::request::{BulkVerb, RunOperation};

/// Retry steps in error.
///
/// A resume starts a new round and resets every budget. A step that waits for a retry or a deferral is retried now. Use
/// `unstuck choose` for a held step. With several runs or a filter, a bulk action does this: see `unstuck bulk`.
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

    /// Start with this many, double while all of them pass the step that had failed, stop if one does not.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    canary: Option<u32>,

    /// The new input of the run: JSON, `@FILE`, or `-` for stdin. The input of the step is computed from it again.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// The new input of the step: JSON, `@FILE`, or `-` for stdin.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    step_input: Option<String>,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck resume @latest
  unstuck resume run_0s86mke080000 upload --reason 'the archive has room again'
  unstuck resume @latest fetch --step-input '{\"url\": \"https://mirror.example.org/a\"}'
  unstuck resume --group err_3f2a9c1e0b44 --canary 10 --reason 'the archive has room again'
  unstuck resume --flow nightly --dry-run";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let (input, step_input) = json_input::parse_changed_inputs(self.input, self.step_input)?;
        let place = self.store.place()?;
        let is_bulk = self.common.is_given() || self.open.is_given() || self.canary.is_some();
        let (run, step) = match Named::of(self.names, &place)? {
            Named::One { run, step } if !is_bulk => (run, step),
            named => {
                let action = BulkVerb::Resume { input, step_input };
                let more = More { open: self.open, canary: self.canary, reason: self.reason };
                return begin::begin_bulk(
                    &place,
                    self.common.into_new_bulk(action, named.runs()?, more),
                    format,
                );
            }
        };
        let done = match &step {
            Some(step) => format!("Retrying `{step}` in a new round."),
            None => "Resumed the run: its steps in error are retried in a new round.".to_owned(),
        };
        let answer =
            place.change(&run, RunOperation::Resume { step, reason: self.reason, input, step_input })?;
        changed::show_change(&answer, format, &done, &done)
    }
}
