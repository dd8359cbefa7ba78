//! The table `flow_status`: who applied a flow version and when, and whether it can be started no more.

use rusqlite::{Connection, Transaction, params};
use unstuck_core::event::Actor;
use unstuck_core::id::FlowId;
use unstuck_core::time::Time;
use unstuck_store::contract::{Applied, FlowRecord, StoreError};

use crate::checksum;
use crate::error::store_error;
use crate::log_entry::to_text;
use crate::table::number;
use crate::table::prepare;

/// The columns that [`read_status`] reads, of a row of `flow` that is joined with its status.
pub(crate) const STATUS_COLUMNS: &str = "s.applied_at, s.who, s.deleted, s.sum";
pub(crate) const JOIN: &str = "flow f LEFT JOIN flow_status s ON s.flow = f.id";

/// What is kept of a flow version: that it was applied, and that it is deleted; or what is wrong with its row.
pub(crate) type Status = Result<(Option<Applied>, bool), String>;

/// Reads the columns of a status from `column` on. One that was never applied has none.
pub(crate) fn read_status(
    row: &rusqlite::Row<'_>,
    flow: FlowId,
    column: usize,
) -> Result<Status, StoreError> {
    let at: Option<i64> = row.get(column).map_err(store_error)?;
    let who: Option<String> = row.get(column + 1).map_err(store_error)?;
    let deleted: Option<bool> = row.get(column + 2).map_err(store_error)?;
    let sum: Option<i64> = row.get(column + 3).map_err(store_error)?;
    let Some(deleted) = deleted else { return Ok(Ok((None, false))) };
    if !checksum::is_sum_valid(sum, sum_status(flow, at, who.as_deref(), deleted)) {
        return Ok(Err(checksum::WRONG_SUM.to_owned()));
    }
    let (Some(at), Some(who)) = (at, who) else { return Ok(Ok((None, deleted))) };
    let by: Actor = match serde_json::from_str(&who) {
        Ok(by) => by,
        Err(error) => return Ok(Err(format!("who applied it cannot be read: {error}"))),
    };
    Ok(Ok((Some(Applied { at: Time(at), by }), deleted)))
}

/// Writes the status of a flow version. One that nobody has applied or deleted needs none.
pub(crate) fn write_status(transaction: &Transaction<'_>, flow: &FlowRecord) -> Result<(), StoreError> {
    let id = number(flow.id.0)?;
    if flow.applied.is_none() && !flow.is_deleted {
        let sql = "DELETE FROM flow_status WHERE flow = ?1";
        prepare(transaction, sql)?.execute([id]).map_err(store_error)?;
        return Ok(());
    }
    let sql = "INSERT INTO flow_status (flow, applied_at, who, deleted, sum) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (flow) DO UPDATE SET applied_at = excluded.applied_at, who = excluded.who,
            deleted = excluded.deleted, sum = excluded.sum";
    let at = flow.applied.as_ref().map(|applied| applied.at.0);
    let who = flow.applied.as_ref().map(|applied| to_text(&applied.by)).transpose()?;
    let sum = sum_status(flow.id, at, who.as_deref(), flow.is_deleted);
    prepare(transaction, sql)?.execute(params![id, at, who, flow.is_deleted, sum]).map_err(store_error)?;
    Ok(())
}

/// Returns the flow versions that have a status and are not there.
pub(crate) fn list_orphans(connection: &Connection) -> Result<Vec<FlowId>, StoreError> {
    let sql = "SELECT flow FROM flow_status WHERE flow NOT IN (SELECT id FROM flow)";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let found = statement.query_map([], |row| row.get::<_, i64>(0)).map_err(store_error)?;
    found.map(|id| id.map(|id| FlowId(id.cast_unsigned())).map_err(store_error)).collect()
}

fn sum_status(flow: FlowId, at: Option<i64>, who: Option<&str>, deleted: bool) -> i32 {
    let numbers = [flow.0, at.unwrap_or(0).cast_unsigned(), u64::from(deleted)];
    checksum::sum_row(&numbers, &[who.unwrap_or_default()])
}
