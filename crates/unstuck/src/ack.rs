//! `unstuck ack`: steps in error are known, and left as they are.

use crate::desk::asked::What;
use crate::place::StoreArgument;
use crate::{Done, Format, changed};

/// Acknowledge a step in error, or all of a run's: it is known, and left as it is.
///
/// No policy resumes it, and it is not counted among the open errors any more, until somebody resumes it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, or @latest.
    run: String,

    /// The step in error, `step[3]` for an item; without it all of the run's.
    step: Option<String>,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck ack @latest --reason 'the supplier delivers again on Monday'
  unstuck ack run_0s86mke080000 'fetch[3]' --reason 'this file never existed'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let (done, already) = match &self.step {
            Some(step) => {
                (format!("`{step}` is acknowledged."), format!("`{step}` was acknowledged already."))
            }
            None => (
                "Every step in error is acknowledged.".to_owned(),
                "Every step in error was acknowledged already.".to_owned(),
            ),
        };
        let what = What::Acknowledge { step: self.step, reason: self.reason };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::tell(&answer, format, &done, &already)
    }
}
