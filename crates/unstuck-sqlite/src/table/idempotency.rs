//! The table `idempotency`: requests that were carried out under a key, for as long as they may be repeated.

use std::sync::Arc;

use rusqlite::{Connection, Transaction, params};
use serde::{Deserialize, Serialize};
use unstuck_core::time::Time;
use unstuck_store::contract::{
    CallOutcome, IDEMPOTENCY_RETENTION, IdempotencyKey, IdempotencyRecord, MAX_SWEPT_KEYS, StoreError,
};

use crate::checksum;
use crate::error::store_error;
use crate::log_entry::to_text;
use crate::table::number;
use crate::table::prepare;

/// What a row says besides its key and its time.
#[derive(Serialize, Deserialize)]
struct Body {
    digest: [u8; 32],
    outcome: CallOutcome,
}

/// Writes keys that were used. One that stands for nothing any more is replaced, and some of those are removed.
pub(crate) fn write_records(
    transaction: &Transaction<'_>,
    records: &[IdempotencyRecord],
) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO idempotency (scope, key, at, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)";
    for record in records {
        let IdempotencyRecord { key: IdempotencyKey { scope, key, digest }, at, outcome } = record;
        let body = to_text(&Body { digest: *digest, outcome: outcome.clone() })?;
        let sum = sum_record(scope, key, *at, &body);
        prepare(transaction, sql)?
            .execute(params![&**scope, &**key, at.0, body, sum])
            .map_err(store_error)?;
    }
    if let Some(newest) = records.iter().map(|record| record.at).max() {
        sweep(transaction, newest, records.len() * MAX_SWEPT_KEYS)?;
    }
    Ok(())
}

/// Removes keys that stand for nothing any more at `now`, the oldest first, at most `most`.
fn sweep(transaction: &Transaction<'_>, now: Time, most: usize) -> Result<(), StoreError> {
    let last = now.0.saturating_sub_unsigned(IDEMPOTENCY_RETENTION.0);
    let sql = "DELETE FROM idempotency WHERE (scope, key) IN
        (SELECT scope, key FROM idempotency WHERE at <= ?1 ORDER BY at LIMIT ?2)";
    prepare(transaction, sql)?.execute(params![last, number(most as u64)?]).map_err(store_error)?;
    Ok(())
}

/// Finds what was done under a key, whether it still stands for that or not.
pub(crate) fn find_record(
    connection: &Connection,
    scope: &str,
    key: &str,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let sql = "SELECT scope, key, at, body, sum FROM idempotency WHERE scope = ?1 AND key = ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![scope, key]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let damaged = |why| {
        StoreError::Damaged(format!(
            "what was done under idempotency key `{key}` is damaged: {why}; use another key"
        ))
    };
    read_record(row)?.map(Some).map_err(damaged)
}

/// Reads a row; the inner error says what is damaged.
pub(crate) fn read_record(row: &rusqlite::Row<'_>) -> Result<Result<IdempotencyRecord, String>, StoreError> {
    let text = |column: usize| row.get::<_, String>(column).map_err(store_error);
    let (scope, key, body) = (text(0)?, text(1)?, text(3)?);
    let at = Time(row.get(2).map_err(store_error)?);
    let sum: Option<i64> = row.get(4).map_err(store_error)?;
    if !checksum::is_sum_valid(sum, sum_record(&scope, &key, at, &body)) {
        return Ok(Err(checksum::WRONG_SUM.to_owned()));
    }
    let read = serde_json::from_str(&body).map_err(|error| error.to_string());
    Ok(read.map(|Body { digest, outcome }| {
        let key = IdempotencyKey { scope: scope.into(), key: Arc::from(key), digest };
        IdempotencyRecord { key, at, outcome }
    }))
}

fn sum_record(scope: &str, key: &str, at: Time, body: &str) -> i32 {
    checksum::sum_row(&[at.0.cast_unsigned()], &[scope, key, body])
}
