//! Logs: each is what was written, and belongs to a run.

use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{Finding, Promise};

use crate::error::store_error;
use crate::table::attempt_log;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::snapshot::Snapshot;
use crate::verify::tables::HARMLESS;

/// What to do about a damaged log.
const UNHARMED: &str = "the run is not affected, only `unstuck logs` needs it; forgetting the run removes it";

/// Checks that every log can be read, and that its run exists.
pub(crate) fn check_logs(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    let sql = "SELECT run, place, body, sum FROM attempt_log ORDER BY run, place";
    let mut statement = snapshot.connection.prepare(sql).map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    let mut last = None;
    while let Some(row) = found.next().map_err(store_error)? {
        let run = RunId(unsigned(row.get(0).map_err(store_error)?));
        let place = unsigned(row.get(1).map_err(store_error)?);
        if let Err(why) = attempt_log::read_log(row, run, place, 2) {
            let what = format!("it is damaged: {why}");
            report.add(Finding::new(Promise::Log, format!("log {place} of {run}"), what, UNHARMED));
        }
        if last != Some(run) && !snapshot.exists(run)? {
            let what = "it has logs, but the run does not exist";
            report.add(Finding::new(Promise::Log, run.to_string(), what, HARMLESS));
        }
        last = Some(run);
    }
    Ok(())
}
