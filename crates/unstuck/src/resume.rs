//! `unstuck resume`: steps in error are tried again.

use crate::desk::asked::What;
use crate::place::StoreArgument;
use crate::{Done, Format, changed};

/// Try a step in error again, or all of them.
///
/// It starts a new round, with every budget anew. A held step has a choice instead.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, or @latest.
    run: String,

    /// The step in error, `step[3]` for an item; without it all of the run's.
    step: Option<String>,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck resume @latest
  unstuck resume run_0s86mke080000 upload --reason 'the archive has room again'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let done = match &self.step {
            Some(step) => format!("`{step}` is tried again, in a new round."),
            None => "Every step in error is tried again, in a new round.".to_owned(),
        };
        let what = What::Resume { step: self.step, reason: self.reason };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::tell(&answer, format, &done, &done)
    }
}
