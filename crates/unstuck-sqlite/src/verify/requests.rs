//! What is recorded of requests: keys, the audit and tokens, each as it was written.

use rusqlite::Connection;
use unstuck_store::contract::{AuditChange, StoreError};
use unstuck_store::verify::{Finding, Promise, RESTORE};

use crate::error::store_error;
use crate::table::{audit, idempotency, policy, token};
use crate::verify::CheckReport;

/// What to do about a damaged key.
const FREE: &str = "no run is affected; a repeat of that request may be carried out again";
/// What to do about a damaged entry.
const LOST: &str = "no run is affected; what was changed there is known from a copy only";

/// Checks every row that is recorded of requests, and every token.
pub(crate) fn check_requests(connection: &Connection, report: &mut CheckReport) -> Result<(), StoreError> {
    for_each_row(connection, "SELECT scope, key, at, body, sum FROM idempotency", |row| {
        let key: String = row.get(1).map_err(store_error)?;
        if let Err(why) = idempotency::read_record(row)? {
            let place = format!("idempotency key `{key}`");
            report.add(Finding::new(Promise::Request, place, format!("it is damaged: {why}"), FREE));
        }
        Ok(())
    })?;
    let changes = policy::count_changes(connection)?;
    for_each_row(connection, "SELECT id, body, sum FROM audit ORDER BY id", |row| {
        let (id, read) = audit::read_entry(row)?;
        let what = match read {
            Err(why) => format!("it is damaged: {why}"),
            Ok(entry) => match entry.change {
                AuditChange::Policy(change) if change.0 > changes => {
                    format!("it leads to change {} of the policies, which does not exist", change.0)
                }
                AuditChange::Policy(_) | AuditChange::Event(_) | AuditChange::Values { .. } => return Ok(()),
            },
        };
        report.add(Finding::new(Promise::Request, format!("audit entry {id}"), what, LOST));
        Ok(())
    })?;
    for (id, read) in token::list_rows(connection)? {
        if let Err(why) = read {
            let what = format!("it is damaged: {why}; nobody is let in while tokens cannot be read");
            report.add(Finding::new(Promise::Request, format!("token {id}"), what, RESTORE));
        }
    }
    Ok(())
}

fn for_each_row(
    connection: &Connection,
    sql: &str,
    mut each: impl FnMut(&rusqlite::Row<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        each(row)?;
    }
    Ok(())
}
