//! The table `notice`: what runs tell each other and bulk actions, and has not been delivered.

use crate::checksum;
use crate::error::{broken_store, store_error};
use crate::log_entry::{from_text, to_text};
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use rusqlite::{Connection, Row, Transaction, params};
use unstuck_core::command::Notice;
use unstuck_core::thing::Delivery;
use unstuck_core::time::Time;
use unstuck_store::contract::{NoticeId, StoreError};
use unstuck_store::verify::RESTORE;

/// Lists undelivered notices, with how often each was tried and when it is due next.
pub(crate) fn list_notices(connection: &Connection) -> Result<Vec<(NoticeId, Notice, Delivery)>, StoreError> {
    let sql = "SELECT id, body, sum, tries, due FROM notice ORDER BY id";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let delivery = |row: &Row<'_>| -> rusqlite::Result<Delivery> {
        Ok(Delivery { tries: row.get(3)?, due: Time(row.get(4)?) })
    };
    let rows = statement
        .query_map([], |row| Ok((unsigned(row.get(0)?), row.get(1)?, row.get(2)?, delivery(row)?)))
        .map_err(store_error)?;
    let mut notices = Vec::new();
    for row in rows {
        let (id, body, kept, delivery): (u64, String, Option<i64>, Delivery) = row.map_err(store_error)?;
        if !checksum::is_sum_valid(kept, checksum::sum_row(&[id], &[&body])) {
            return Err(broken_store(format!("notice {id} is damaged: {}; {RESTORE}", checksum::WRONG_SUM)));
        }
        notices.push((NoticeId(id), from_text(&body, "a notice")?, delivery));
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
            .execute(params![number(id.0)?, body, checksum::sum_row(&[id.0], &[&body])])
            .map_err(store_error)?;
    }
    Ok(())
}

/// Writes how often notices could not be delivered, and when they are tried next.
pub(crate) fn write_deliveries(
    transaction: &Transaction<'_>,
    postponed: &[(NoticeId, Delivery)],
) -> Result<(), StoreError> {
    let mut update = prepare(transaction, "UPDATE notice SET tries = ?2, due = ?3 WHERE id = ?1")?;
    for (id, Delivery { tries, due }) in postponed {
        update.execute(params![number(id.0)?, tries, due.0]).map_err(store_error)?;
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
