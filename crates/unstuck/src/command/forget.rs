//! `unstuck forget`: a final run is removed for good.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

use unstuck_api as api;

use crate::CommandResult;
use crate::Format;
use crate::access::location::{StoreArgument, StoreLocation};
use crate::command::bulk::begin::{self, Common, More};
use crate::command::bulk::confirm::{Question, confirm};
use crate::error::CommandError;
use crate::view::output::Output;
use crate::view::text;
use unstuck_api::request::{BulkVerb, Query, RunOperation};
use unstuck_api::runs::{ForgottenView, RunView};

/// Delete a final run from the store, with its children, history and key.
///
/// Asks for confirmation on a terminal; elsewhere it needs --yes. With several runs or a filter, a bulk action does
/// this: see `unstuck bulk`. Runs that are not final are skipped and counted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The runs: id, start of an id, key (or FLOW:KEY), or @latest.
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "flow", "state", "label"],
        conflicts_with_all = ["group", "flow", "state", "label"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck forget run_0s86mke080000 --yes
  unstuck forget --flow nightly --state completed --max 1000 --yes";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let run = match self.runs.as_slice() {
            [run] if !self.common.is_given() => run.clone(),
            _ => {
                let order = self.common.into_new_bulk(BulkVerb::Forget, self.runs, More::default());
                if !order.dry_run && !self.yes {
                    let (done, not_done) = ("deleted, with their histories and keys", "deleted");
                    confirm(&place, &order, &Question { of_steps: false, done, not_done })?;
                }
                return begin::begin_bulk(&place, order, format);
            }
        };
        // Uses the id that was confirmed, whatever the name means by now.
        let run = if self.yes { run } else { confirm_forget(&place, &run)? };
        let answer = place.change(&run, RunOperation::Forget)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let ForgottenView { forgotten } = answer.read()?;
                let run = forgotten.first().map_or(run.as_str(), String::as_str);
                let below = match forgotten.len().saturating_sub(1) {
                    0 => String::new(),
                    1 => ", with 1 run below it".to_owned(),
                    more => format!(", with {more} runs below it"),
                };
                stdout.line(&format!("Deleted {run}{below}."));
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks for confirmation to forget a run, and returns its id.
fn confirm_forget(place: &StoreLocation, run: &str) -> Result<String, CommandError> {
    let shown: RunView = place.read(Query::show(run))?.read()?;
    let run: api::Run =
        serde_json::from_str(shown.run.get()).map_err(|error| CommandError::internal(error.to_string()))?;
    if !io::stdin().is_terminal() {
        return Err(CommandError::new(format!(
            "{} of flow `{}` would be deleted, with its history and key. Confirm with --yes",
            run.id, run.flow
        )));
    }
    let mut stderr = Output::stderr();
    stderr.text(&text::visible(&format!(
        "{} of flow `{}` is {}. Delete it, with its history and key? [y/N] ",
        run.id, run.flow, run.state
    )));
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    if matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(run.id);
    }
    Err(CommandError::new("nothing was deleted"))
}
