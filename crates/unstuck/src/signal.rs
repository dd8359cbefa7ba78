//! `unstuck signal`: something from outside that a run waits for.

use crate::desk::asked::What;
use crate::json_input;
use crate::place::StoreArgument;
use crate::{Done, Format, changed};

/// Send a signal to a run.
///
/// A step that waits for a signal of this name is completed by it, and what it carries becomes the step's output. A
/// signal that nobody waits for yet is kept.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// The name of the signal.
    name: String,

    /// What it carries: JSON, `@FILE`, or `-` for stdin. [default: null]
    #[arg(allow_hyphen_values = true)]
    json: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck signal @latest approve
  unstuck signal run_0s86mke080000 approve '{\"by\": \"ada\"}'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let payload = match &self.json {
            None => "null".to_owned(),
            Some(given) => json_input::parse(given, "what the signal carries")?.text().to_owned(),
        };
        let done = format!("Signal `{}` has come.", self.name);
        let answer = self.store.place()?.change(&self.run, What::Signal { name: self.name, payload })?;
        changed::tell(&answer, format, &done, &done)
    }
}
