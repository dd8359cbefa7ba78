//! `unstuck errors open`: all that is in error now in a group.

use std::process::ExitCode;

use super::show::{open_errors_table, write_table};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use unstuck_api::errors::OpenErrorsView;
use unstuck_api::request::Query;

/// List the steps of a group that are in error now, in the order of their runs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The name of the group, or the start of it.
    group: String,

    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// The page after this one, as `next` of that page in JSON.
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck errors open err_3f2a9c1e0b44
  unstuck errors open 3f2a --limit 1000 -o json | jq -r '.open[].run'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let limit = self.limit as usize;
        let answer = place.read(Query::OpenErrors { group: self.group, after: self.after, limit })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let OpenErrorsView { open, next } = answer.read()?;
                if open.is_empty() {
                    stdout.line("Nothing is in error now.");
                } else {
                    write_table(&open_errors_table(&open), &mut stdout);
                }
                if let Some(next) = next {
                    stdout.line(&format!("\nThere are more: --after {next}"));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
