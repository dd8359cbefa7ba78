//! The table `audit`: who changed what, in order. Nothing of it is ever changed or removed.

use rusqlite::{Connection, ToSql, Transaction, params};
use unstuck_core::id::AuditEntryId;
use unstuck_store::contract::{AuditEntry, AuditFilter, AuditRecord, StoreError};

use crate::checksum;
use crate::error::store_error;
use crate::log_entry::to_text;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;

/// Appends entries.
pub(crate) fn write_entries(
    transaction: &Transaction<'_>,
    entries: &[AuditRecord],
) -> Result<(), StoreError> {
    for entry in entries {
        let sql = "INSERT INTO audit (at, who, what, run, body, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (who, body) = (to_text(&entry.by)?, to_text(entry)?);
        let run = entry.run.map(|run| number(run.0)).transpose()?;
        prepare(transaction, sql)?
            .execute(params![entry.at.0, who, &*entry.what, run, body, sum_entry(&body)])
            .map_err(store_error)?;
    }
    Ok(())
}

/// Lists entries that fit, newest first, before this one, at most `limit`.
pub(crate) fn list_entries(
    connection: &Connection,
    filter: &AuditFilter,
    before: Option<AuditEntryId>,
    limit: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    let mut conditions = vec!["id < ?"];
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(before.map_or(Ok(i64::MAX), |id| number(id.0))?)];
    if let Some(by) = &filter.by {
        conditions.push("who = ?");
        values.push(Box::new(to_text(by)?));
    }
    if let Some(what) = &filter.what {
        if what.ends_with('.') {
            // A slash comes right after a dot.
            conditions.push("what >= ? AND what < ?");
            values.push(Box::new(what.to_string()));
            values.push(Box::new(format!("{}/", what.trim_end_matches('.'))));
        } else {
            conditions.push("what = ?");
            values.push(Box::new(what.to_string()));
        }
    }
    if let Some(run) = filter.run {
        conditions.push("run = ?");
        values.push(Box::new(number(run.0)?));
    }
    if let Some(since) = filter.since {
        // Entries before the first that is late enough need no look.
        conditions.push("at >= ? AND id >= coalesce((SELECT min(id) FROM audit WHERE at >= ?), 0)");
        values.push(Box::new(since.0));
        values.push(Box::new(since.0));
    }
    values.push(Box::new(i64::try_from(limit).unwrap_or(i64::MAX)));
    let sql = format!(
        "SELECT id, body, sum FROM audit WHERE {} ORDER BY id DESC LIMIT ?",
        conditions.join(" AND ")
    );
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let mut rows = statement
        .query(rusqlite::params_from_iter(values.iter().map(|value| &**value)))
        .map_err(store_error)?;
    collect_entries(&mut rows)
}

/// Loads the number of the last entry; 0 where there is none.
pub(crate) fn load_last_id(connection: &Connection) -> Result<AuditEntryId, StoreError> {
    let mut statement = connection.prepare_cached("SELECT max(id) FROM audit").map_err(store_error)?;
    let last: Option<i64> = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
    Ok(AuditEntryId(last.map_or(0, unsigned)))
}

/// Lists entries, oldest first, after this one, at most `limit`.
pub(crate) fn list_entries_after(
    connection: &Connection,
    after: AuditEntryId,
    limit: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    let sql = "SELECT id, body, sum FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let after = i64::try_from(after.0).unwrap_or(i64::MAX);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query([after, most]).map_err(store_error)?;
    collect_entries(&mut rows)
}

fn collect_entries(rows: &mut rusqlite::Rows<'_>) -> Result<Vec<AuditEntry>, StoreError> {
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let (id, read) = read_entry(row)?;
        let damaged = |why| StoreError::Damaged(format!("entry {id} of the audit is damaged: {why}"));
        entries.push((id, read.map_err(damaged)?));
    }
    Ok(entries)
}

/// Reads a row: number, text and checksum; the inner error says what is damaged.
pub(crate) fn read_entry(
    row: &rusqlite::Row<'_>,
) -> Result<(AuditEntryId, Result<AuditRecord, String>), StoreError> {
    let id = AuditEntryId(unsigned(row.get(0).map_err(store_error)?));
    let body: String = row.get(1).map_err(store_error)?;
    let sum: Option<i64> = row.get(2).map_err(store_error)?;
    if !checksum::is_sum_valid(sum, sum_entry(&body)) {
        return Ok((id, Err(checksum::WRONG_SUM.to_owned())));
    }
    Ok((id, serde_json::from_str(&body).map_err(|error| error.to_string())))
}

/// SQLite gives out the numbers, so that the sum is of the text alone, which says when and by whom.
fn sum_entry(body: &str) -> i32 {
    checksum::sum_row(&[], &[body])
}
