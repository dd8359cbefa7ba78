//! `unstuck pause`: nothing more of a run is dispatched.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::changed;
use unstuck_api::request::RunOperation;

/// Pause a run: active attempts finish, nothing new starts.
///
/// Its children are paused, too. Deadlines and leases keep running.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck pause @latest
  unstuck pause run_0s86mke080000 --reason 'the database is being moved'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let what = RunOperation::Pause { reason: self.reason };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::show_change(&answer, format, "Paused the run.", "The run was already paused.")
    }
}
