//! The table `meta`: single values of the store, by name.

use crate::error::{broken_store, store_error};
use crate::log_entry::from_text;
use crate::table::bulk;
use crate::table::prepare;
use crate::table::unsigned;
use crate::writer_claim::WriterClaim;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use unstuck_core::clock::ClockRecord;
use unstuck_core::downtime::Downtime;
use unstuck_store::contract::{Session, StoreError};

pub(crate) fn load_number(connection: &Connection, name: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.query_row([name], |row| row.get(0)).optional().map_err(store_error)
}

/// Loads the epoch of the store. A copy begins another one, so that tokens and cursors of the original do not fit it.
pub(crate) fn load_epoch(connection: &Connection) -> Result<u64, StoreError> {
    Ok(load_number(connection, "epoch")?.map_or(1, unsigned))
}

/// Loads the number that tells this store from others, for cursors.
pub(crate) fn load_store_number(connection: &Connection) -> Result<u64, StoreError> {
    Ok(load_number(connection, "number")?.map_or(0, unsigned))
}

/// Loads the latest periods in which no engine took reports.
pub(crate) fn load_downtimes(connection: &Connection) -> Result<Vec<Downtime>, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = 'downtimes'";
    let kept: Option<String> =
        connection.query_row(sql, [], |row| row.get(0)).optional().map_err(store_error)?;
    kept.map_or(Ok(Vec::new()), |kept| from_text(&kept, "the list of downtimes"))
}

/// Loads by how much the clock was set, and when.
pub(crate) fn load_clock(connection: &Connection) -> Result<ClockRecord, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = 'clock'";
    let kept: Option<String> =
        connection.query_row(sql, [], |row| row.get(0)).optional().map_err(store_error)?;
    kept.map_or(Ok(ClockRecord::default()), |kept| from_text(&kept, "what the clock was set by"))
}

/// Begins a session: counts its incarnation, makes the key of tokens if there is none, and drops drafts of the
/// session before.
pub(crate) fn open_session(
    connection: &mut Connection,
    claim: &WriterClaim,
    fresh_key: [u8; 32],
) -> Result<Session, StoreError> {
    let transaction = claim.begin(connection)?;
    bulk::drop_drafts(&transaction)?;
    let put = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let key = "SELECT value FROM meta WHERE name = 'token_key'";
    let known: Option<Vec<u8>> =
        transaction.query_row(key, [], |row| row.get(0)).optional().map_err(store_error)?;
    let token_key = if let Some(known) = known {
        known.try_into().map_err(|_| broken_store("the key of its tokens is damaged"))?
    } else {
        transaction.execute(put, params!["token_key", fresh_key]).map_err(store_error)?;
        fresh_key
    };
    let epoch = load_number(&transaction, "epoch")?.unwrap_or(1);
    let incarnation = load_number(&transaction, "incarnation")?.unwrap_or(0) + 1;
    transaction.execute(put, params!["epoch", epoch]).map_err(store_error)?;
    transaction.execute(put, params!["incarnation", incarnation]).map_err(store_error)?;
    transaction.commit().map_err(store_error)?;
    let epoch = u32::try_from(epoch).map_err(|_| broken_store("its epoch is damaged"))?;
    // One process at a time has the store open, so that it needs no bits of its own, and nobody waits for a lease.
    Ok(Session { epoch, token_key, incarnation: unsigned(incarnation), node: 0, lease: None, now: None })
}

pub(crate) fn put_number(transaction: &Transaction<'_>, name: &str, value: u64) -> Result<(), StoreError> {
    let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    prepare(transaction, sql)?.execute(params![name, value.cast_signed()]).map_err(store_error)?;
    Ok(())
}

pub(crate) fn put_text(transaction: &Transaction<'_>, name: &str, value: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    prepare(transaction, sql)?.execute(params![name, value]).map_err(store_error)?;
    Ok(())
}
