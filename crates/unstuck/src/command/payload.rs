//! `unstuck payload`: one input or output, as it is.

use std::process::ExitCode;

use unstuck_api::request::Query;

use crate::CommandResult;
use crate::access::location::StoreArgument;
use crate::view::output::Output;

/// Print an input or output of a run, a step or an item, as JSON.
///
/// It is printed as it was given, in either output format.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Which: `input` or `output` of the run, or of a step or item: `fetch.input`, `fetch[3].output`.
    of: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck payload @latest output
  unstuck payload @latest 'encode[3].input' | jq .file";

impl Arguments {
    pub(crate) fn execute(self) -> CommandResult {
        let answer = self.store.place()?.read(Query::Payload { run: self.run, of: self.of })?;
        let mut stdout = Output::stdout();
        stdout.line(answer.json());
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
