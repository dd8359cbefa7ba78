//! `unstuck complete`: a step was done by hand.

use crate::desk::asked::What;
use crate::place::StoreArgument;
use crate::{Done, Format, changed, json_input};

/// Count a step as completed, because somebody has done by hand what it was to do.
///
/// The step must be in error, held, waiting or queued: what an attempt is under way for cannot be completed from outside.
/// It is marked as done by hand, and what needs it goes on with the output that you give.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// The step; `step[3]` for an item.
    step: String,

    /// What it would have put out: JSON, `@FILE`, or `-` for stdin.
    #[arg(long = "output", id = "step_output", value_name = "JSON", allow_hyphen_values = true)]
    output: String,

    /// What goes to stdout: text for people, or JSON for programs.
    // Takes the place of the option of all commands, whose long name means the step's output here.
    #[arg(short = 'o', id = "output", value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck complete @latest transfer --output '{\"receipt\": 4711}'
  unstuck complete run_0s86mke080000 'fetch[3]' --output @fetched.json --reason 'fetched with curl'";

impl Arguments {
    pub(crate) fn execute(self) -> Done {
        let output = json_input::parse(&self.output, "--output")?.text().to_owned();
        let done = format!("`{}` counts as completed, done by hand.", self.step);
        let already = format!("`{}` was completed by hand already, with the output that it has.", self.step);
        let what = What::Complete { step: self.step, output, reason: self.reason };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::tell(&answer, self.format, &done, &already)
    }
}
