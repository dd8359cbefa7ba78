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

/// Whether this payload is kept, whatever it says.
pub(crate) fn has_payload(connection: &Connection, id: PayloadId) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM payload WHERE id = ?1").map_err(store_error)?;
    statement.exists([number(id.0)?]).map_err(store_error)
}

/// A payload. One that is damaged is told with what it is to its run; nothing else is harmed by it.
pub(crate) fn payload(connection: &Connection, id: PayloadId) -> Result<Option<Json>, StoreError> {
    let sql = "SELECT run, body, sum FROM payload WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(id.0)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let run = RunId(unsigned(row.get(0).map_err(store_error)?));
    let kept: Option<i64> = row.get(2).map_err(store_error)?;
    let read = match row.get_ref(1).map_err(store_error)?.as_str() {
        Ok(body) if !checksum::is_valid(kept, checksum::of_payload(id, run, body)) => {
            Err(checksum::WRONG_SUM.to_owned())
        }
        Ok(body) => Json::parse(body).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let damaged = |why: String| {
        let what = payload_owner::payload(connection, run, id);
        StoreError::Damaged(checksum::damaged_payload(id, run, what.as_deref(), &why))
    };
    read.map(Some).map_err(damaged)
}

/// What somebody makes of the text of a payload; `None` where there is no such payload, or it is damaged.
pub(crate) fn payload_text<T>(
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
        Some(_) => checksum::is_valid(kept, checksum::of_payload(id, run, body)),
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
        let sum = checksum::of_payload(*id, *run, json.text());
        payload.execute(params![number(id.0)?, number(run.0)?, json.text(), sum]).map_err(store_error)?;
    }
    Ok(())
}
