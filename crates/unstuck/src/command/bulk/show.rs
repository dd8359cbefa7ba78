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
use unstuck_api::bulk::{BulkView, ResultKind, TargetView, TargetsView};
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

    /// Only targets that this became of, such as `failedAgain`.
    #[arg(long, value_name = "RESULT", value_parser = clap::builder::PossibleValuesParser::new(ResultKind::CODES))]
    result: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck bulk show @latest
  unstuck bulk show @latest --runs --result failedAgain
  unstuck bulk show @latest --result failedAgain -o json | jq -r '.targets[].run'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let only = self.result.as_deref().and_then(ResultKind::of_code);
        let page: BulkView = place.read(Query::Bulk { bulk: self.bulk })?.read()?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let targets = load_targets(&place, &page.bulk, only)?;
                let document = serde_json::to_string(&Document { page, targets });
                let document = document.map_err(|error| CommandError::internal(error.to_string()))?;
                stdout.line(&json_text::pretty(&document));
            }
            Format::Text => {
                super::page::show_bulk(&page, &mut stdout, &place.option);
                if self.runs || only.is_some() {
                    stdout.line("");
                    show_targets(&load_targets(&place, &page.bulk, only)?, &page.action, &mut stdout);
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
fn load_targets(
    place: &StoreLocation,
    bulk: &str,
    result: Option<ResultKind>,
) -> Result<Vec<TargetView>, CommandError> {
    let (mut found, mut from) = (Vec::new(), 0);
    loop {
        let wanted = Query::BulkTargets { bulk: bulk.to_owned(), result, from, limit: PAGE };
        let page: TargetsView = place.read(wanted)?.read()?;
        found.extend(page.targets);
        match page.next {
            Some(next) => from = next,
            None => return Ok(found),
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
