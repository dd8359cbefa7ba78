//! `unstuck rerun`: the next generation of a final run.

use crate::desk::asked::{Again, What};
use crate::place::StoreArgument;
use crate::{Done, Format, changed};

/// Start the next generation of a final run.
///
/// It goes on from the point of failure: what is completed is not run again. The generation before it is kept. The
/// steps are executed by `unstuck run --continue RUN`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Run every step again.
    #[arg(long, conflicts_with = "steps")]
    all: bool,

    /// Run these steps again, with everything that depends on them.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    steps: Vec<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck rerun @latest
  unstuck rerun run_0s86mke080000 --steps encode,upload";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let again = match (self.all, self.steps) {
            (true, _) => Again::All,
            (false, steps) if steps.is_empty() => Again::Continue,
            (false, steps) => Again::Steps(steps),
        };
        let answer = self.store.place()?.change(&self.run, What::Rerun(again))?;
        let done = "The next generation has started.";
        changed::tell(&answer, format, done, done)
    }
}
