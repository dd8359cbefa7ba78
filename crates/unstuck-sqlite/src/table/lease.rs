//! The table `lease`: leases that heartbeats have moved.

use crate::error::store_error;
use crate::pending_transaction::{MovedLease, unit_columns};
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use crate::table::wake::unit_from_columns;
use rusqlite::{Connection, Transaction, params};
use unstuck_core::decide::LeaseMove;
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_store::contract::StoreError;

/// Lists leases that heartbeats have moved, each with the time that was planned. They have a table of their own, so
/// that a heartbeat writes one small row.
pub(crate) fn list_leases(connection: &Connection) -> Result<Vec<(RunId, LeaseMove, Time)>, StoreError> {
    let sql = "SELECT run, step, item, due, planned, heard FROM lease";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let number = |place: usize| row.get::<_, i64>(place).map_err(store_error);
        if let Some(unit) = unit_from_columns(number(1)?, number(2)?) {
            let lease = LeaseMove { unit, due: Time(number(3)?), heard: Time(number(5)?) };
            leases.push((RunId(unsigned(number(0)?)), lease, Time(number(4)?)));
        }
    }
    Ok(leases)
}

/// Writes the lease that a heartbeat has moved, in place of the one before.
pub(crate) fn write_lease(transaction: &Transaction<'_>, lease: &MovedLease) -> Result<(), StoreError> {
    let sql = "INSERT INTO lease (run, step, item, due, planned, heard) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (run, step, item) DO UPDATE SET due = excluded.due, planned = excluded.planned,
        heard = excluded.heard";
    let MovedLease { run, step, item, timer } = lease;
    let heard = timer.heard.unwrap_or(timer.set);
    prepare(transaction, sql)?
        .execute(params![number(run.0)?, step, item, timer.due.0, timer.set.0, heard.0])
        .map_err(store_error)?;
    Ok(())
}

/// Removes the lease of an attempt that has ended.
pub(crate) fn delete_lease(
    transaction: &Transaction<'_>,
    run: RunId,
    unit: UnitRef,
) -> Result<(), StoreError> {
    let (step, item) = unit_columns(Some(unit));
    let sql = "DELETE FROM lease WHERE run = ?1 AND step = ?2 AND item = ?3";
    prepare(transaction, sql)?.execute(params![number(run.0)?, step, item]).map_err(store_error)?;
    Ok(())
}
