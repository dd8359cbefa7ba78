//! `unstuck explain`: why a run is where it is, and what comes next.

use std::process::ExitCode;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::text;
use unstuck_api::request::Query;

/// Explain a run: what happened, why its steps are in their states, what comes next, what you can do.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck explain @latest
  unstuck explain run_0s86mke080000 -o json | jq -r '.can[].command'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&place.read(Query::Explain { run: self.run })?.pretty()),
            Format::Text => {
                let page: String = place
                    .read(Query::ExplainPage {
                        run: self.run,
                        columns: stdout.width(),
                        without_happened: false,
                    })?
                    .read()?;
                for line in page.trim_end().lines() {
                    stdout.line(&text::visible(line));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
