//! The table `notice`: what runs tell each other and has not been delivered.

use crate::checksum;
use crate::error::{broken, store_error};
use crate::log_entry::{from_text, to_text};
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use rusqlite::{Connection, Transaction, params};
use unstuck_core::command::Notice;
use unstuck_store::contract::{NoticeId, StoreError};
use unstuck_store::verify::RESTORE;

/// Every undelivered notice.
pub(crate) fn notices(connection: &Connection) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
    let mut statement =
        connection.prepare("SELECT id, body, sum FROM notice ORDER BY id").map_err(store_error)?;
    let rows = statement
        .query_map([], |row| Ok((unsigned(row.get(0)?), row.get(1)?, row.get(2)?)))
        .map_err(store_error)?;
    let mut notices = Vec::new();
    for row in rows {
        let (id, body, kept): (u64, String, Option<i64>) = row.map_err(store_error)?;
        if !checksum::is_valid(kept, checksum::sum(&[id], &[&body])) {
            return Err(broken(format!("notice {id} is damaged: {}; {RESTORE}", checksum::WRONG_SUM)));
        }
        notices.push((NoticeId(id), from_text(&body, "a notice")?));
    }
    Ok(notices)
}

/// Writes the notices of a stage.
pub(crate) fn write_notices(
    transaction: &Transaction<'_>,
    notices: &[(NoticeId, Notice)],
) -> Result<(), StoreError> {
    let mut notice = prepare(transaction, "INSERT INTO notice (id, body, sum) VALUES (?1, ?2, ?3)")?;
    for (id, body) in notices {
        let body = to_text(body)?;
        notice
            .execute(params![number(id.0)?, body, checksum::sum(&[id.0], &[&body])])
            .map_err(store_error)?;
    }
    Ok(())
}

/// Removes notices that have been delivered.
pub(crate) fn delete_notices(
    transaction: &Transaction<'_>,
    delivered: &[NoticeId],
) -> Result<(), StoreError> {
    let mut delete = prepare(transaction, "DELETE FROM notice WHERE id = ?1")?;
    for id in delivered {
        delete.execute([number(id.0)?]).map_err(store_error)?;
    }
    Ok(())
}
