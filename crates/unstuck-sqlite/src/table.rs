//! The tables of the file, one module each: what reads and writes its rows.

pub(crate) mod attempt_log;
pub(crate) mod audit;
pub(crate) mod bulk;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod flow;
pub(crate) mod flow_status;
pub(crate) mod idempotency;
pub(crate) mod lease;
pub(crate) mod meta;
pub(crate) mod notice;
pub(crate) mod payload;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod run_count;
pub(crate) mod run_key;
pub(crate) mod run_label;
pub(crate) mod run_snapshot;
pub(crate) mod schedule;
pub(crate) mod token;
pub(crate) mod wake;

use rusqlite::{Connection, Transaction};
use unstuck_store::contract::{Ledger, StoreError};

use crate::error::{broken_store, store_error};
use crate::writer_claim::WriterClaim;

/// Begins a read transaction: all that is read until [`end_reading`] is of one moment, and pages stay cached. Returns
/// false if one is open already, which the caller must not end.
pub(crate) fn begin_reading(connection: &Connection) -> Result<bool, StoreError> {
    let begins = connection.is_autocommit();
    if begins {
        connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([])).map_err(store_error)?;
    }
    Ok(begins)
}

/// Ends what [`begin_reading`] has begun.
pub(crate) fn end_reading(connection: &Connection) -> Result<(), StoreError> {
    connection.prepare_cached("COMMIT").and_then(|mut end| end.execute([])).map_err(store_error)?;
    Ok(())
}

/// Begins a read transaction that ends when it is dropped; `None` if one is open already. Within it SQLite takes its
/// locks once instead of with every query.
pub(crate) fn snapshot(connection: &Connection) -> Result<Option<Snapshot<'_>>, StoreError> {
    // Made only where it has begun one: it ends one when it is dropped.
    Ok(begin_reading(connection)?.then(|| Snapshot { connection }))
}

/// A read transaction that ends when it is dropped.
pub(crate) struct Snapshot<'a> {
    connection: &'a Connection,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if end_reading(self.connection).is_err() {
            // Whoever reads next must not see what was there then.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// Writes what is recorded of a change that is made between batches.
pub(crate) fn write_ledger(transaction: &Transaction<'_>, ledger: &Ledger) -> Result<(), StoreError> {
    idempotency::write_records(transaction, ledger.idempotency.as_slice())?;
    audit::write_entries(transaction, &ledger.audit)
}

/// Writes what is recorded of a request that came to nothing.
pub(crate) fn put_ledger(
    connection: &mut Connection,
    claim: &WriterClaim,
    ledger: &Ledger,
) -> Result<(), StoreError> {
    let transaction = claim.begin(connection)?;
    write_ledger(&transaction, ledger)?;
    transaction.commit().map_err(store_error)
}

/// Prepares a statement, or takes it from the cache of the connection.
pub(crate) fn prepare<'a>(
    transaction: &'a Transaction<'_>,
    sql: &str,
) -> Result<rusqlite::CachedStatement<'a>, StoreError> {
    transaction.prepare_cached(sql).map_err(store_error)
}

/// Converts an id or position, which has at most 63 bits, to SQLite's signed integer.
pub(crate) fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| broken_store(format!("{value} is too large for a row")))
}

/// Reverses [`number`].
pub(crate) fn unsigned(value: i64) -> u64 {
    value.cast_unsigned()
}
