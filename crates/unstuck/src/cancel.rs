//! `unstuck cancel`: a run ends for good.

use crate::desk::asked::What;
use crate::place::StoreArgument;
use crate::{Done, Format, changed};

/// Cancel a run: its attempts are void, its processes are ended, its children are cancelled.
///
/// A cancelled run is final; `unstuck rerun` starts its next generation.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, or @latest.
    run: String,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck cancel @latest
  unstuck cancel run_0s86mke080000 --reason 'the order was withdrawn'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let what = What::Cancel { reason: self.reason };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::tell(&answer, format, "The run is cancelled.", "The run was cancelled already.")
    }
}
