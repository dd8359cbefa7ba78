//! `unstuck choose`: an operator's choice for a held step.

use clap::ValueEnum;
use unstuck_core::event;

use crate::desk::asked::What;
use crate::place::StoreArgument;
use crate::{Done, Format, changed};

/// Choose for a held step: one more attempt, or give it up.
///
/// A step is held by `retryStrategy: hold`, and waits until somebody chooses. A step in error is resumed instead.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// The held step; `step[3]` for an item.
    step: String,

    /// What to do with it.
    choice: Choice,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck choose @latest transfer retry
  unstuck choose run_0s86mke080000 'fetch[3]' none";

/// What an operator may choose.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    /// One more attempt in the same round.
    Retry,
    /// Give it up: failOnError, the exception handler, or the end of the run.
    None,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let (choice, done) = match self.choice {
            Choice::Retry => (event::Choice::Retry, format!("`{}` is tried once more.", self.step)),
            Choice::None => (event::Choice::None, format!("`{}` is given up.", self.step)),
        };
        let what = What::Choose { step: self.step, choice };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::tell(&answer, format, &done, &done)
    }
}
