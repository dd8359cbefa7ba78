//! The table `payload`: payloads that are too large to travel with their event, each written once.

use crate::checksum;
use crate::error::store_error;
use crate::payload_owner;
use crate::stats::Written;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use rusqlite::{Connection, Transaction, params};
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_store::contract::StoreError;

/// Returns whether a payload exists, without checking its content.
pub(crate) fn has_payload(connection: &Connection, id: PayloadId) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM payload WHERE id = ?1").map_err(store_error)?;
    statement.exists([number(id.0)?]).map_err(store_error)
}

/// Loads a payload. The error about a damaged one says what the run uses it for; other payloads are unaffected.
pub(crate) fn load_payload(connection: &Connection, id: PayloadId) -> Result<Option<Json>, StoreError> {
    let sql = "SELECT run, body, sum FROM payload WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(id.0)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let run = RunId(unsigned(row.get(0).map_err(store_error)?));
    let kept: Option<i64> = row.get(2).map_err(store_error)?;
    let read = match row.get_ref(1).map_err(store_error)?.as_str() {
        Ok(body) if !checksum::is_sum_valid(kept, checksum::sum_payload(id, run, body)) => {
            Err(checksum::WRONG_SUM.to_owned())
        }
        Ok(body) => Json::parse(body).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let damaged = |why: String| {
        let what = payload_owner::describe_payload(connection, run, id);
        StoreError::Damaged(checksum::describe_damaged_payload(id, run, what.as_deref(), &why))
    };
    read.map(Some).map_err(damaged)
}

/// Calls `look` with the text of a payload without copying it; `None` if it is missing or damaged.
pub(crate) fn with_payload_text<T>(
    connection: &Connection,
    id: PayloadId,
    look: impl FnOnce(&str) -> T,
) -> Result<Option<T>, StoreError> {
    let sql = "SELECT run, body, sum FROM payload WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(id.0)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let run = RunId(unsigned(row.get(0).map_err(store_error)?));
    let kept: Option<i64> = row.get(2).map_err(store_error)?;
    let body = row.get_ref(1).map_err(store_error)?;
    let is_whole = |body: &&str| match kept {
        Some(_) => checksum::is_sum_valid(kept, checksum::sum_payload(id, run, body)),
        None => Json::parse(body).is_ok(),
    };
    Ok(body.as_str().ok().filter(is_whole).map(look))
}

/// Writes the payloads of a stage.
pub(crate) fn write_payloads(
    transaction: &Transaction<'_>,
    payloads: &[(RunId, PayloadId, Json)],
    written: &mut Written,
) -> Result<(), StoreError> {
    let mut payload =
        prepare(transaction, "INSERT INTO payload (id, run, body, sum) VALUES (?1, ?2, ?3, ?4)")?;
    for (run, id, json) in payloads {
        written.payloads.add(json.text().len());
        let sum = checksum::sum_payload(*id, *run, json.text());
        payload.execute(params![number(id.0)?, number(run.0)?, json.text(), sum]).map_err(store_error)?;
    }
    Ok(())
}
