//! Asks for confirmation before something is done to many runs.

use std::io::{self, BufRead, IsTerminal};

use crate::access::location::StoreLocation;
use crate::error::CommandError;
use crate::view::output::Output;
use crate::view::text;
use unstuck_api::bulk::BulkBegunView;
use unstuck_api::request::{BulkOperation, NewBulk};

/// What is asked about.
pub(crate) struct Question {
    /// Whether it is about steps of runs, rather than about runs.
    pub(crate) of_steps: bool,
    /// What happens to them, as in `cancelled for good`.
    pub(crate) done: &'static str,
    /// What has not happened to them if the answer is no, as in `cancelled`.
    pub(crate) not_done: &'static str,
}

/// Asks on a terminal, with the number of runs; elsewhere it fails and points to `--yes`.
pub(crate) fn confirm(
    place: &StoreLocation,
    order: &NewBulk,
    question: &Question,
) -> Result<(), CommandError> {
    let planned = NewBulk { dry_run: true, ..order.clone() };
    let planned: BulkBegunView = place.change_bulk(BulkOperation::Begin(Box::new(planned)))?.read()?;
    if planned.total == 0 {
        return Ok(());
    }
    let Question { of_steps, done, not_done } = question;
    let count = count_selected(&planned, *of_steps);
    let selection = text::visible(&planned.selection);
    if !io::stdin().is_terminal() {
        return Err(CommandError::new(format!(
            "{count} ({selection}) would be {done}. Confirm with --yes, or list them with --dry-run"
        )));
    }
    let left_out = super::page::describe_left_out(&planned.action, planned.left_out);
    let left_out = left_out.map(|words| format!(" {words}.")).unwrap_or_default();
    Output::stderr().text(&format!("{count} ({selection}) will be {done}.{left_out} Continue? [y/N] "));
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    if matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(CommandError::new(format!("nothing was {not_done}")))
}

/// Describes how many runs, or steps of how many runs, are selected.
fn count_selected(planned: &BulkBegunView, of_steps: bool) -> String {
    let counted = |count: u64, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let runs = planned.runs.unwrap_or(planned.total);
    if of_steps {
        return format!("{} of {}", counted(planned.total, "step"), counted(runs, "run"));
    }
    counted(runs, "run")
}
