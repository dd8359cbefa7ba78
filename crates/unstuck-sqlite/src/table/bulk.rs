//! Bulk actions in the file, each with its targets.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use unstuck_core::bulk::{Bulk, BulkRef, ResultKind, Target, TargetResult};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::thing::{Thing, ThingBody};
use unstuck_store::contract::{Ledger, StoreError};
use unstuck_store::invariants::{check_bulk, check_targets, duplicate_bulk};

use crate::error::{broken_store, store_error};
use crate::log_entry::{from_text, to_text};
use crate::pending_transaction::unit_columns;
use crate::table::meta::put_number;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use crate::table::write_ledger;
use crate::writer_claim::WriterClaim;

/// Writes targets of a bulk action that is not there yet. They are drafts until [`put_bulk`].
pub(crate) fn put_targets(
    connection: &mut Connection,
    claim: &WriterClaim,
    bulk: BulkId,
    targets: &[Target],
) -> Result<(), StoreError> {
    let transaction = claim.begin(connection)?;
    if find_total(&transaction, bulk)?.is_some() {
        return Err(duplicate_bulk(bulk));
    }
    check_targets(bulk, count_targets(&transaction, bulk)?, targets)?;
    let id = number(bulk.0)?;
    let draft = "INSERT OR IGNORE INTO bulk (id, open) VALUES (?1, 0)";
    prepare(&transaction, draft)?.execute([id]).map_err(store_error)?;
    let sql = "INSERT INTO bulk_target (bulk, place, run, step, item, result, why)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut insert = prepare(&transaction, sql)?;
    for target in targets {
        let (step, item) = unit_columns(target.unit);
        let (at, run) = (number(target.place)?, number(target.run.0)?);
        let (kind, why) = (result_column(target.result.kind()), target.result.why().map(|why| &**why));
        insert.execute(params![id, at, run, step, item, kind, why]).map_err(store_error)?;
    }
    drop(insert);
    transaction.commit().map_err(store_error)
}

/// Writes a bulk action whose targets were put before, with the last id given out, so that its id is never given
/// again.
pub(crate) fn put_bulk(
    connection: &mut Connection,
    claim: &WriterClaim,
    bulk: &Bulk,
    last_id: u64,
    ledger: &Ledger,
) -> Result<(), StoreError> {
    let transaction = claim.begin(connection)?;
    if find_total(&transaction, bulk.id)?.is_some() {
        return Err(duplicate_bulk(bulk.id));
    }
    check_bulk(bulk, count_targets(&transaction, bulk.id)?)?;
    let sql = "INSERT OR REPLACE INTO bulk (id, total, open, body) VALUES (?1, ?2, ?3, ?4)";
    prepare(&transaction, sql)?
        .execute(params![number(bulk.id.0)?, number(bulk.total)?, !bulk.is_settled(), to_text(bulk)?])
        .map_err(store_error)?;
    put_number(&transaction, "last_id", last_id)?;
    write_ledger(&transaction, ledger)?;
    transaction.commit().map_err(store_error)
}

/// Deletes targets whose bulk action never came: the session that was writing them has ended.
pub(crate) fn drop_drafts(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM bulk_target WHERE bulk IN (SELECT id FROM bulk WHERE body IS NULL)",
        "DELETE FROM bulk WHERE body IS NULL",
    ] {
        transaction.execute(sql, []).map_err(store_error)?;
    }
    Ok(())
}

/// Writes changed bulk actions and results of targets of a stage.
pub(crate) fn write_bulks(
    transaction: &Transaction<'_>,
    things: &[Thing],
    results: &[(BulkRef, TargetResult)],
) -> Result<(), StoreError> {
    for Thing { version, body } in things {
        let ThingBody::Bulk(bulk) = body else { continue };
        let sql = "UPDATE bulk SET open = ?2, version = ?3, body = ?4 WHERE id = ?1";
        prepare(transaction, sql)?
            .execute(params![number(bulk.id.0)?, !bulk.is_settled(), number(*version)?, to_text(bulk)?])
            .map_err(store_error)?;
    }
    if results.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE bulk_target SET result = ?3, why = ?4 WHERE bulk = ?1 AND place = ?2";
    let mut update = prepare(transaction, sql)?;
    for (BulkRef { bulk, place }, result) in results {
        let (kind, why) = (result_column(result.kind()), result.why().map(|why| &**why));
        update.execute(params![number(bulk.0)?, number(*place)?, kind, why]).map_err(store_error)?;
    }
    Ok(())
}

/// Lists bulk actions that are not settled: these are kept in memory.
pub(crate) fn list_open_things(connection: &Connection) -> Result<Vec<Thing>, StoreError> {
    let sql = "SELECT version, body FROM bulk WHERE open = 1 AND body IS NOT NULL ORDER BY id";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let rows = statement.query_map([], |row| Ok((unsigned(row.get(0)?), row.get::<_, String>(1)?)));
    let thing = |row: rusqlite::Result<(u64, String)>| {
        let (version, body) = row.map_err(store_error)?;
        let bulk: Bulk = from_text(&body, "a bulk action")?;
        Ok(Thing { version, body: ThingBody::Bulk(Box::new(bulk)) })
    };
    rows.map_err(store_error)?.map(thing).collect()
}

/// What became of a target; nothing, where there is no such one.
pub(crate) fn load_result(connection: &Connection, target: BulkRef) -> Result<TargetResult, StoreError> {
    let sql = "SELECT place, run, step, item, result, why FROM bulk_target WHERE bulk = ?1 AND place = ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let wanted = params![number(target.bulk.0)?, i64::try_from(target.place).unwrap_or(i64::MAX)];
    let mut rows = statement.query(wanted).map_err(store_error)?;
    match rows.next().map_err(store_error)? {
        Some(row) => Ok(self::read_target(row)?.result),
        None => Ok(TargetResult::Pending),
    }
}

/// Returns how many targets a bulk action has; `None` if it does not exist, drafts included.
pub(crate) fn find_total(connection: &Connection, bulk: BulkId) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT total FROM bulk WHERE id = ?1 AND body IS NOT NULL";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let found = statement.query_row([number(bulk.0)?], |row| row.get(0)).optional().map_err(store_error)?;
    Ok(found.map(unsigned))
}

/// Counts the rows of targets, drafts included.
fn count_targets(connection: &Connection, bulk: BulkId) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(max(place) + 1, 0) FROM bulk_target WHERE bulk = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.query_row([number(bulk.0)?], |row| row.get(0)).map(unsigned).map_err(store_error)
}

/// Finds a bulk action; drafts have no body yet, and are not found.
pub(crate) fn find_bulk(connection: &Connection, bulk: BulkId) -> Result<Option<Bulk>, StoreError> {
    let sql = "SELECT body FROM bulk WHERE id = ?1 AND body IS NOT NULL";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let body = statement.query_row([number(bulk.0)?], |row| row.get::<_, String>(0));
    body.optional().map_err(store_error)?.map(|body| from_text(&body, "a bulk action")).transpose()
}

/// Bulk actions, newest first.
pub(crate) fn list_bulks(
    connection: &Connection,
    open_only: bool,
    before: Option<BulkId>,
    limit: usize,
) -> Result<Vec<Bulk>, StoreError> {
    let sql = if open_only {
        "SELECT body FROM bulk WHERE open = 1 AND body IS NOT NULL AND id < ?1 ORDER BY id DESC LIMIT ?2"
    } else {
        "SELECT body FROM bulk WHERE body IS NOT NULL AND id < ?1 ORDER BY id DESC LIMIT ?2"
    };
    let before = before.map_or(Ok(i64::MAX), |before| number(before.0))?;
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([before, row_limit(limit)], |row| row.get::<_, String>(0));
    let rows = rows.map_err(store_error)?;
    rows.map(|body| from_text(&body.map_err(store_error)?, "a bulk action")).collect()
}

/// Targets from a place on.
pub(crate) fn list_targets(
    connection: &Connection,
    bulk: BulkId,
    only: Option<ResultKind>,
    from: u64,
    limit: usize,
) -> Result<Vec<Target>, StoreError> {
    if find_total(connection, bulk)?.is_none() {
        return Ok(Vec::new());
    }
    let sql = "SELECT place, run, step, item, result, why FROM bulk_target
        WHERE bulk = ?1 AND place >= ?2 AND (?3 IS NULL OR result = ?3) ORDER BY place LIMIT ?4";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let wanted = params![number(bulk.0)?, from, only.map(result_column), row_limit(limit)];
    let mut rows = statement.query(wanted).map_err(store_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        found.push(read_target(row)?);
    }
    Ok(found)
}

/// Reads a target from a row with all columns but the first, which is the bulk action.
pub(crate) fn read_target(row: &Row<'_>) -> Result<Target, StoreError> {
    let number = |column| row.get::<_, i64>(column).map_err(store_error);
    let kind: String = row.get(4).map_err(store_error)?;
    let why: Option<String> = row.get(5).map_err(store_error)?;
    let why = || why.as_deref().map_or_else(|| Arc::from(""), Arc::from);
    let kind = ResultKind::ALL.into_iter().find(|known| result_column(*known) == kind);
    let kind = kind.ok_or_else(|| broken_store("the result of a target of a bulk action is damaged"))?;
    let result = TargetResult::of(kind, why);
    let unit = match u16::try_from(number(2)?) {
        Ok(step) => Some(UnitRef { step: StepIndex(step), item: u32::try_from(number(3)?).ok() }),
        Err(_) => None,
    };
    Ok(Target { place: unsigned(number(0)?), run: RunId(unsigned(number(1)?)), unit, result })
}

/// Names a result as the column stores it: persisted, so never renamed.
fn result_column(kind: ResultKind) -> &'static str {
    match kind {
        ResultKind::Pending => "pending",
        ResultKind::Resumed => "resumed",
        ResultKind::Rerun => "rerun",
        ResultKind::Retried => "retried",
        ResultKind::Passed => "passed",
        ResultKind::FailedAgain => "failedAgain",
        ResultKind::Acknowledged => "acknowledged",
        ResultKind::Cancelled => "cancelled",
        ResultKind::GivenUp => "givenUp",
        ResultKind::Signalled => "signalled",
        ResultKind::Skipped => "skipped",
        ResultKind::Completed => "completed",
        ResultKind::Forgotten => "forgotten",
        ResultKind::Scheduled => "scheduled",
        ResultKind::Unscheduled => "unscheduled",
        ResultKind::Unchanged => "unchanged",
        ResultKind::Refused => "refused",
    }
}

/// Converts a limit for SQL; one that does not fit means no limit.
fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
