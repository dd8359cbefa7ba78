//! `unstuck errors records`: the errors that a group has had.

use std::process::ExitCode;

use super::show::{errors_table, write_table};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::time;
use unstuck_api::errors::ErrorRecordsView;
use unstuck_api::request::{ErrorRecordsQuery, Query};

/// List the errors that a group has had, newest first, without those of forgotten runs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The name of the group, or the start of it.
    group: String,

    /// Only errors since then: a duration such as `7d`, or an instant such as `2030-01-31T08:30:00Z`.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only errors before then: a duration such as `1d`, or an instant.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

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
  unstuck errors records err_3f2a9c1e0b44 --since 7d
  unstuck errors records 3f2a --since 2d --until 1d -o json | jq -r '.records[].cause'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let read =
            |when: Option<String>, option| when.map(|when| time::parse_past_time(&when, option)).transpose();
        let wanted = ErrorRecordsQuery {
            group: self.group,
            since: read(self.since, "--since")?,
            until: read(self.until, "--until")?,
            limit: self.limit as usize,
            after: self.after,
        };
        let place = self.store.place()?;
        let answer = place.read(Query::ErrorRecords(wanted))?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let ErrorRecordsView { records, next } = answer.read()?;
                if records.is_empty() {
                    stdout.line("No errors match.");
                } else {
                    write_table(&errors_table("AT", &records), &mut stdout);
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
