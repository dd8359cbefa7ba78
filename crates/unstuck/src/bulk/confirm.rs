//! Asking before something is done to many runs that cannot be taken back.

use std::io::{self, BufRead, IsTerminal};

use crate::desk::asked::{BulkBegin, BulkWhat};
use crate::desk::bulk::Begun;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::text;

/// Asks on a terminal, with how many runs it is about; elsewhere it must have been said with `--yes`. `done` is what happens
/// to them, as in `cancelled`.
pub(crate) fn confirm(place: &Place, order: &BulkBegin, done: &str) -> Result<(), Failure> {
    let planned = BulkBegin { dry_run: true, ..order.clone() };
    let planned: Begun = place.change_bulk(BulkWhat::Begin(planned))?.read()?;
    let count = match planned.total {
        0 => return Ok(()),
        1 => "1 run".to_owned(),
        total => format!("{total} runs"),
    };
    let selection = text::visible(&planned.selection);
    if !io::stdin().is_terminal() {
        return Err(Failure::new(format!(
            "{count} ({selection}) would be {done} for good; say so with --yes, or see which with --dry-run"
        )));
    }
    Output::stderr().text(&format!("{count} ({selection}) will be {done} for good. Go ahead? [y/N] "));
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    if matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::new(format!("nothing was {done}")))
}
