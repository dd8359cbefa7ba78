//! `unstuck skip`: a step is not needed.

use crate::desk::asked::What;
use crate::place::StoreArgument;
use crate::{Done, Format, changed};

/// Skip a step that is not needed: its output is null, and what needs it goes on.
///
/// The step must be in error, held, waiting or queued.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// The step; `step[3]` for an item.
    step: String,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck skip @latest notify
  unstuck skip run_0s86mke080000 'fetch[3]' --reason 'this file never existed'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let done = format!("`{}` is skipped.", self.step);
        let already = format!("`{}` was skipped already.", self.step);
        let what = What::Skip { step: self.step, reason: self.reason };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::tell(&answer, format, &done, &already)
    }
}
