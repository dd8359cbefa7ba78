//! `unstuck bulk show`: what became of a bulk action, and of each of its targets.

use std::process::ExitCode;

use serde::Serialize;

use crate::CommandResult;
use crate::Format;
use crate::access::location::{StoreArgument, StoreLocation};
use crate::error::CommandError;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::table::{Cell, Table};
use unstuck_api::bulk::{BulkView, TargetView, TargetsView};
use unstuck_api::request::Query;

/// How many targets one query reads.
const PAGE: usize = 1_000;

/// Show the results of a bulk action: resumed, passed, failed again or refused, and why.
///
/// With -o json or --runs it lists each target. `resumed` is not yet `passed`: that is known when the step has
/// completed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The bulk action: its id, the start of its id, or @latest.
    bulk: String,

    /// List each run with its result.
    #[arg(long)]
    runs: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck bulk show @latest
  unstuck bulk show @latest -o json | jq -r '.targets[] | select(.result == \"failedAgain\") | .run'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let page: BulkView = place.read(Query::Bulk { bulk: self.bulk })?.read()?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let targets = load_targets(&place, &page.bulk)?;
                let document = serde_json::to_string(&Document { page, targets });
                let document = document.map_err(|error| CommandError::internal(error.to_string()))?;
                stdout.line(&json_text::pretty(&document));
            }
            Format::Text => {
                super::page::show_bulk(&page, &mut stdout, &place.option);
                if self.runs {
                    stdout.line("");
                    show_targets(&load_targets(&place, &page.bulk)?, &page.action, &mut stdout);
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// All of it.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    page: BulkView,
    targets: Vec<TargetView>,
}

/// Loads all targets, page by page.
fn load_targets(place: &StoreLocation, bulk: &str) -> Result<Vec<TargetView>, CommandError> {
    let mut found = Vec::new();
    loop {
        let from = found.len() as u64;
        let page: TargetsView =
            place.read(Query::BulkTargets { bulk: bulk.to_owned(), from, limit: PAGE })?.read()?;
        found.extend(page.targets);
        if page.next.is_none() {
            return Ok(found);
        }
    }
}

/// Shows targets as a table.
pub(super) fn show_targets(targets: &[TargetView], action: &str, stdout: &mut Output) {
    let mut table = Table::new(&["RUN", "STEP", "RESULT", ""]);
    for target in targets {
        table.row(vec![
            Cell::new(&target.run),
            Cell::new(target.step.as_deref().unwrap_or("-")),
            Cell::new(super::page::result_word(action, target.result)),
            Cell::new(target.why.as_deref().unwrap_or_default()),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}
