//! The table `run_key`: which run has a key of a flow.

use crate::error::store_error;
use crate::stats::Written;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::sync::Arc;
use unstuck_core::id::{FlowId, RunId};
use unstuck_store::contract::StoreError;

pub(crate) fn find_run_of_key(
    connection: &Connection,
    flow: &str,
    key: &str,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run FROM run_key WHERE flow = ?1 AND key = ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let run: Option<i64> =
        statement.query_row([flow, key], |row| row.get(0)).optional().map_err(store_error)?;
    Ok(run.map(|run| RunId(unsigned(run))))
}

/// Lists the runs of a flow whose keys begin with `prefix`; `None` if there are more than `most`.
pub(crate) fn list_runs_of_prefix(
    connection: &Connection,
    flow: &str,
    prefix: &str,
    most: usize,
) -> Result<Option<Vec<i64>>, StoreError> {
    let sql = "SELECT key, run FROM run_key WHERE flow = ?1 AND key >= ?2 ORDER BY key";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([flow, prefix]).map_err(store_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let key = row.get_ref(0).map_err(store_error)?;
        if !key.as_str().unwrap_or_default().starts_with(prefix) {
            break;
        }
        if found.len() >= most {
            return Ok(None);
        }
        found.push(row.get(1).map_err(store_error)?);
    }
    Ok(Some(found))
}

/// Writes the keys of runs that a stage has started.
pub(crate) fn write_keys(
    transaction: &Transaction<'_>,
    keys: &[(Arc<str>, Arc<str>, RunId)],
    written: &mut Written,
) -> Result<(), StoreError> {
    let mut key = prepare(transaction, "INSERT INTO run_key (flow, key, run) VALUES (?1, ?2, ?3)")?;
    for (flow, name, run) in keys {
        written.keys.add(flow.len() + name.len());
        key.execute(params![&**flow, &**name, number(run.0)?]).map_err(store_error)?;
    }
    Ok(())
}

/// Removes the key of a run that is forgotten.
pub(crate) fn delete_key(
    transaction: &Transaction<'_>,
    run: RunId,
    flow: FlowId,
    key: &str,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM run_key WHERE key = ?1 AND run = ?2
        AND flow = (SELECT name FROM flow WHERE id = ?3)";
    prepare(transaction, sql)?.execute(params![key, number(run.0)?, number(flow.0)?]).map_err(store_error)?;
    Ok(())
}
