//! The table `run_snapshot`: the state of a run at one of its events, so that a long history is not replayed to make it again.
//!
//! It is a cache of what replaying gives and never the truth: what was kept in another form, is damaged or does not fit the
//! history is passed over, and written again when it is due.

use rusqlite::{Connection, Transaction, params};
use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_core::replay::replay_event;
use unstuck_core::snapshot::{SNAPSHOT_FORMAT, read_snapshot};
use unstuck_store::contract::StoreError;

use crate::checksum;
use crate::error::store_error;
use crate::stats::Written;
use crate::table::event;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;

/// A run as it was at one of its events.
#[derive(Debug)]
pub(crate) struct RunSnapshot {
    /// The position of that event.
    pub(crate) head: u64,
    pub(crate) run: Run,
}

/// A run that was brought back.
#[derive(Debug)]
pub(crate) struct LoadedRun {
    pub(crate) run: Run,
    /// The number of the event up to which its state was kept; 0 if it was not.
    pub(crate) snapshot_seq: u64,
}

/// Finds the snapshot of a run; `None` if it has another format version, the inner error if it is damaged. A run can
/// always be replayed without it.
pub(crate) fn find_snapshot(
    connection: &Connection,
    run: RunId,
) -> Result<Option<Result<RunSnapshot, String>>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM run_snapshot WHERE run = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let mut rows = statement.query([number(run.0)?]).map_err(store_error)?;
    match rows.next().map_err(store_error)? {
        Some(row) => read(row),
        None => Ok(None),
    }
}

/// The columns of a row, as [`read`] takes them.
pub(crate) const COLUMNS: &str = "run, head, format, body, sum";

/// What a row has, if it is in the form of this version: a state, or what is wrong with it.
pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Option<Result<RunSnapshot, String>>, StoreError> {
    let (run, head) =
        (unsigned(row.get(0).map_err(store_error)?), unsigned(row.get(1).map_err(store_error)?));
    let format: i64 = row.get(2).map_err(store_error)?;
    if format != i64::from(SNAPSHOT_FORMAT) {
        return Ok(None);
    }
    let body = row.get_ref(3).map_err(store_error)?;
    let sum: i64 = row.get(4).map_err(store_error)?;
    let found = body.as_str().map_err(|error| error.to_string()).and_then(|body| {
        if sum == i64::from(sum_snapshot(RunId(run), head, body)) {
            read_snapshot(body)
        } else {
            Err(checksum::WRONG_SUM.to_owned())
        }
    });
    let is_own = |found: Run| {
        if found.id == RunId(run) { Ok(found) } else { Err(format!("it is the state of {}", found.id)) }
    };
    Ok(Some(found.and_then(is_own).map(|run| RunSnapshot { head, run })))
}

/// Loads a run as of the event at `head`: from its snapshot and the events since, or by replaying all of them.
pub(crate) fn load_run_at(connection: &Connection, id: RunId, head: u64) -> Result<LoadedRun, StoreError> {
    // What is kept may be of a later event than the one that is asked for.
    if let Some(Ok(kept)) =
        find_snapshot(connection, id)?.filter(|kept| kept.as_ref().is_ok_and(|kept| kept.head <= head))
        && let Some(events) = event::load_history_since(connection, head, kept.head)?
    {
        let snapshot_seq = kept.run.seq;
        let mut run = Some(kept.run);
        let replayed = events.iter().try_for_each(|event| replay_event(&mut run, event));
        if let (Ok(()), Some(run)) = (replayed, run) {
            return Ok(LoadedRun { run, snapshot_seq });
        }
    }
    Ok(LoadedRun { run: event::replay_to(connection, id, head)?, snapshot_seq: 0 })
}

/// Writes the snapshot of a run as of the event at `head`, in place of the one before.
pub(crate) fn write(
    transaction: &Transaction<'_>,
    run: RunId,
    head: u64,
    body: &str,
    written: &mut Written,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO run_snapshot (run, head, format, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (run) DO UPDATE SET head = excluded.head, format = excluded.format, body = excluded.body,
        sum = excluded.sum";
    let sum = sum_snapshot(run, head, body);
    prepare(transaction, sql)?
        .execute(params![number(run.0)?, number(head)?, SNAPSHOT_FORMAT, body, sum])
        .map_err(store_error)?;
    written.snapshots.add(body.len());
    Ok(())
}

pub(crate) fn delete_snapshot(transaction: &Transaction<'_>, run: RunId) -> Result<(), StoreError> {
    let sql = "DELETE FROM run_snapshot WHERE run = ?1";
    prepare(transaction, sql)?.execute([number(run.0)?]).map_err(store_error)?;
    Ok(())
}

/// The format is part of the sum, so that a state is never parsed as another version's.
fn sum_snapshot(run: RunId, head: u64, body: &str) -> i32 {
    checksum::sum_row(&[run.0, head, u64::from(SNAPSHOT_FORMAT)], &[body])
}
