//! The table `run_label`: which runs have a label of their own. Written once, with the start of a run.

use std::sync::Arc;

use rusqlite::{Connection, Transaction, params};
use unstuck_core::id::RunId;
use unstuck_core::model::labels::Labels;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::stats::Written;
use crate::table::number;
use crate::table::prepare;

/// Writes the labels of runs that a stage has started.
pub(crate) fn write_labels(
    transaction: &Transaction<'_>,
    labels: &[(RunId, Arc<Labels>)],
    written: &mut Written,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO run_label (name, value, run) VALUES (?1, ?2, ?3)";
    for (run, labels) in labels {
        for (name, value) in &**labels {
            written.keys.add(name.len() + value.len());
            prepare(transaction, sql)?.execute(params![name, value, number(run.0)?]).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Removes the labels of a run that is forgotten.
pub(crate) fn delete_labels(
    transaction: &Transaction<'_>,
    run: RunId,
    labels: &Labels,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM run_label WHERE name = ?1 AND value = ?2 AND run = ?3";
    for (name, value) in labels {
        prepare(transaction, sql)?.execute(params![name, value, number(run.0)?]).map_err(store_error)?;
    }
    Ok(())
}

/// Returns whether a run is found by this label.
pub(crate) fn has_label(
    connection: &Connection,
    run: RunId,
    name: &str,
    value: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM run_label WHERE name = ?1 AND value = ?2 AND run = ?3";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.exists(params![name, value, number(run.0)?]).map_err(store_error)
}
