//! `unstuck resume`: steps in error are tried again, and those that wait for a retry are tried now.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Named, Open};
use crate::input::json_input;
use crate::view::changed;
use unstuck_service::request::{BulkVerb, RunOperation};

/// Try a step in error again, or all of them.
///
/// It starts a new round, with every budget anew. A step that waits for a retry or a deferral is tried now. A held step
/// has a choice instead. Several runs, or what they have in
/// common, are resumed by a bulk action, which is kept in the store: see `unstuck bulk`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest. After it the step in error, `step[3]` for an item, or all of
    /// the run's without it; or other runs.
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "flow", "policy", "state", "label", "needs_person"],
        conflicts_with_all = ["group", "flow", "policy", "state", "label", "needs_person"])]
    names: Vec<String>,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    open: Open,

    /// Begin with so many, go on with twice as many while all of them pass the step that had failed, and stop if one does
    /// not.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    canary: Option<u32>,

    /// Change the input of the run to this: JSON, `@FILE`, or `-` for stdin. The step is given what follows from it.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// Give the step this instead: JSON, `@FILE`, or `-` for stdin.
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
        let (input, step_input) = json_input::changes(self.input, self.step_input)?;
        let place = self.store.place()?;
        let is_bulk = self.common.is_given() || self.open.is_given() || self.canary.is_some();
        let (run, step) = match Named::of(self.names, &place)? {
            Named::One { run, step } if !is_bulk => (run, step),
            named => {
                let action = BulkVerb::Resume { input, step_input };
                let more = More { open: self.open, canary: self.canary, reason: self.reason };
                return begin::execute(&place, self.common.order(action, named.runs()?, more), format);
            }
        };
        let done = match &step {
            Some(step) => format!("`{step}` is tried again, in a new round."),
            None => "The run is resumed: its steps are tried again, in a new round.".to_owned(),
        };
        let answer =
            place.change(&run, RunOperation::Resume { step, reason: self.reason, input, step_input })?;
        changed::tell(&answer, format, &done, &done)
    }
}
