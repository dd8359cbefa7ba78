//! What attempts printed, in the file: a row for each, numbered within its run, so that what was dropped is known.

use rusqlite::{Connection, Transaction, params};
use unstuck_core::id::RunId;
use unstuck_core::model::log::LogRecord;
use unstuck_store::contract::StoreError;
use unstuck_store::logs::{RunLogs, count_retained};

use crate::checksum;
use crate::error::store_error;
use crate::log_entry::to_text;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;

/// Writes the logs of a stage, and deletes those of the same run above the limits of number and size.
pub(crate) fn write_logs(transaction: &Transaction<'_>, logs: &[LogRecord]) -> Result<(), StoreError> {
    for record in logs {
        let run = record.attempt.run;
        let (id, body) = (number(run.0)?, to_text(record)?);
        let sql = "SELECT place, size FROM attempt_log WHERE run = ?1 ORDER BY place DESC";
        let mut statement = prepare(transaction, sql)?;
        let known = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
        let known: Vec<(i64, i64)> = known.collect::<Result<_, _>>().map_err(store_error)?;
        let place = known.first().map_or(1, |(last, _)| last + 1);
        let size = record.log.size();
        let older = known.iter().map(|(_, size)| usize::try_from(*size).unwrap_or(usize::MAX));
        let kept = count_retained(std::iter::once(size).chain(older));
        let sql = "INSERT INTO attempt_log (run, place, size, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)";
        let sum = sum_log(run, unsigned(place), &body);
        prepare(transaction, sql)?
            .execute(params![id, place, number(size as u64)?, body, sum])
            .map_err(store_error)?;
        // The places of the older ones, of which `kept - 1` stay.
        if let Some((last, _)) = known.get(kept - 1) {
            let sql = "DELETE FROM attempt_log WHERE run = ?1 AND place <= ?2";
            prepare(transaction, sql)?.execute([id, *last]).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Lists the logs of a run. Places count from 1, so the first one that is left tells how many were dropped.
pub(crate) fn list_logs(connection: &Connection, run: RunId) -> Result<RunLogs, StoreError> {
    let sql = "SELECT place, body, sum FROM attempt_log WHERE run = ?1 ORDER BY place";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(run.0)?]).map_err(store_error)?;
    let mut logs = RunLogs::default();
    while let Some(row) = rows.next().map_err(store_error)? {
        let place = unsigned(row.get(0).map_err(store_error)?);
        if logs.kept.is_empty() {
            logs.dropped = place.saturating_sub(1);
        }
        let record = read_log(row, run, place, 1).map_err(|why| {
            StoreError::Damaged(format!(
                "log {place} of {run} is damaged: {why}; the run itself is not affected"
            ))
        })?;
        logs.kept.push(record);
    }
    Ok(logs)
}

/// Reads a log from `column`, and its checksum from the next; the error says what is damaged.
pub(crate) fn read_log(
    row: &rusqlite::Row<'_>,
    run: RunId,
    place: u64,
    column: usize,
) -> Result<LogRecord, String> {
    let body = row.get_ref(column).map_err(|error| error.to_string())?;
    let body = body.as_str().map_err(|error| error.to_string())?;
    let kept: Option<i64> = row.get(column + 1).map_err(|error| error.to_string())?;
    if !checksum::is_sum_valid(kept, sum_log(run, place, body)) {
        return Err(checksum::WRONG_SUM.to_owned());
    }
    let record: LogRecord = serde_json::from_str(body).map_err(|error| error.to_string())?;
    if record.attempt.run == run { Ok(record) } else { Err(format!("it is of {}", record.attempt.run)) }
}

pub(crate) fn delete_logs(transaction: &Transaction<'_>, run: RunId) -> Result<(), StoreError> {
    let sql = "DELETE FROM attempt_log WHERE run = ?1";
    prepare(transaction, sql)?.execute([number(run.0)?]).map_err(store_error)?;
    Ok(())
}

/// The place is part of the sum: a log in the place of another is damage.
fn sum_log(run: RunId, place: u64, body: &str) -> i32 {
    checksum::sum_row(&[run.0, place], &[body])
}
