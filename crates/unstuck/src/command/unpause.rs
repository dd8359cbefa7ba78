//! `unstuck unpause`: a paused run goes on.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::changed;
use unstuck_api::request::RunOperation;

/// Unpause a run.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Example:
  unstuck unpause @latest";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let answer = self.store.place()?.change(&self.run, RunOperation::Unpause)?;
        changed::show_change(&answer, format, "Unpaused the run.", "The run was not paused.")
    }
}
