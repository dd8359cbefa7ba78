//! `unstuck rerun`: the next generation of a final run.

use crate::desk::asked::{Again, What};
use crate::place::StoreArgument;
use crate::{Done, Format, changed, json_input};

/// Start the next generation of a final run.
///
/// It goes on from the point of failure: what is completed is not run again. The generation before it is kept. The
/// steps are executed by `unstuck run --continue RUN`. Where the data was at fault, give it another input. An exception
/// handler that failed can be rerun by itself.
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

    /// Change the input of the run to this: JSON, `@FILE`, or `-` for stdin. It is checked as at the start. What is
    /// completed keeps the output that it has; with --all everything is made from the new input.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// Give the step that failed, or the one of --steps, this instead: JSON, `@FILE`, or `-` for stdin.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    step_input: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck rerun @latest
  unstuck rerun run_0s86mke080000 --steps encode,upload
  unstuck rerun @latest --input '{\"file\": \"corrected.csv\"}'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let again = match (self.all, self.steps) {
            (true, _) => Again::All,
            (false, steps) if steps.is_empty() => Again::Continue,
            (false, steps) => Again::Steps(steps),
        };
        let (input, step_input) = json_input::changes(self.input, self.step_input)?;
        let answer = self.store.place()?.change(&self.run, What::Rerun { again, input, step_input })?;
        let done = "The next generation has started.";
        changed::tell(&answer, format, done, done)
    }
}
