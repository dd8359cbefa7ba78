//! `unstuck resume`: steps in error are tried again.

use crate::desk::asked::What;
use crate::failure::Failure;
use crate::place::StoreArgument;
use crate::source::STDIN;
use crate::{Done, Format, changed, json_input};

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

    /// Change the input of the run to this: JSON, `@FILE`, or `-` for stdin. The step is given what follows from it.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// Give the step this instead: JSON, `@FILE`, or `-` for stdin.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    step_input: Option<String>,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck resume @latest
  unstuck resume run_0s86mke080000 upload --reason 'the archive has room again'
  unstuck resume @latest fetch --step-input '{\"url\": \"https://mirror.example.org/a\"}'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        if [&self.input, &self.step_input].iter().all(|given| given.as_deref() == Some(STDIN)) {
            return Err(Failure::new("only one of --input and --step-input can come from stdin"));
        }
        let json = |given: Option<String>, what| -> Result<Option<String>, Failure> {
            given.map(|given| Ok(json_input::parse(&given, what)?.text().to_owned())).transpose()
        };
        let (input, step_input) = (json(self.input, "--input")?, json(self.step_input, "--step-input")?);
        let done = match &self.step {
            Some(step) => format!("`{step}` is tried again, in a new round."),
            None => "Every step in error is tried again, in a new round.".to_owned(),
        };
        let what = What::Resume { step: self.step, reason: self.reason, input, step_input };
        let answer = self.store.place()?.change(&self.run, what)?;
        changed::tell(&answer, format, &done, &done)
    }
}
