//! Writing errors: each is appended, groups and hits are counted once for all that are written together.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_store::contract::{ErrorId, StoreError};

use crate::error::store_error;
use crate::log_entry::to_text_in;
use crate::pending_transaction::{PendingTransaction, unit_columns};
use crate::table::error::open_count::{COUNTED_OF_UNIT, OpenChanges, load_counted, read_counted};
use crate::table::meta::put_number;
use crate::table::number;
use crate::table::prepare;

/// What a stage changes about errors.
#[derive(Debug, Default)]
pub(crate) struct ErrorChanges {
    pub(crate) recorded: Vec<(ErrorId, ErrorRecord)>,
    pub(crate) open: Vec<OpenErrorChange>,
    /// Policies that have taken an error, by id, and when.
    pub(crate) hits: Vec<(Arc<str>, Time)>,
    pub(crate) examined: Vec<RunId>,
}

/// The open error of a unit, as a stage leaves it.
#[derive(Debug)]
pub(crate) struct OpenErrorChange {
    pub(crate) run: RunId,
    pub(crate) unit: UnitRef,
    /// `None` if it is resolved.
    pub(crate) error: Option<OpenError>,
    /// Whether it is known that no other unit of the run was or is in error.
    pub(crate) is_only: bool,
}

/// Writes the errors of a stage, recorded and open. Groups and hits are counted once per commit, with
/// [`count_recorded`].
pub(crate) fn write_errors(
    transaction: &Transaction<'_>,
    changes: &ErrorChanges,
    counts: &mut OpenChanges,
) -> Result<(), StoreError> {
    let mut buffer = Vec::new();
    if !changes.recorded.is_empty() {
        insert_errors(transaction, &changes.recorded, &mut buffer)?;
    }
    if !changes.open.is_empty() {
        write_open_errors(transaction, &changes.open, counts, &mut buffer)?;
    }
    for run in &changes.examined {
        let mut examined = prepare(transaction, "DELETE FROM unexamined WHERE run = ?1")?;
        examined.execute([number(run.0)?]).map_err(store_error)?;
    }
    Ok(())
}

/// Adds the errors of a group of stages to the counts of groups and policies: one upsert for each instead of one per
/// error.
pub(crate) fn count_recorded(
    transaction: &Transaction<'_>,
    group: &[PendingTransaction],
) -> Result<(), StoreError> {
    if let Some((last, _)) = group.iter().rev().find_map(|job| job.errors.recorded.last()) {
        count_groups(transaction, group)?;
        put_number(transaction, "last_error", last.0)?;
    }
    if group.iter().any(|job| !job.errors.hits.is_empty()) {
        count_hits(transaction, group)?;
    }
    Ok(())
}

/// Inserts recorded errors, with the columns that filters use beside the body.
fn insert_errors(
    transaction: &Transaction<'_>,
    recorded: &[(ErrorId, ErrorRecord)],
    buffer: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO error (id, run, at, grp, flow, action, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut insert = prepare(transaction, sql)?;
    for (id, error) in recorded {
        let body = to_text_in(buffer, error)?;
        let ErrorRecord { run, at, group, root_flow, action, .. } = error;
        insert
            .execute(params![number(id.0)?, number(run.0)?, at.0, &**group, &**root_flow, &**action, body])
            .map_err(store_error)?;
    }
    Ok(())
}

/// Replaces the open errors of units, or deletes those that are resolved, and moves the counts with them.
fn write_open_errors(
    transaction: &Transaction<'_>,
    changes: &[OpenErrorChange],
    counts: &mut OpenChanges,
    buffer: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let mut before = prepare(transaction, COUNTED_OF_UNIT)?;
    let mut delete =
        prepare(transaction, "DELETE FROM open_error WHERE run = ?1 AND step = ?2 AND item = ?3")?;
    for change in changes {
        let (step, item) = unit_columns(Some(change.unit));
        let place = [number(change.run.0)?, step, item];
        let counted = before.query_row(place, read_counted).optional().map_err(store_error)?;
        match &change.error {
            Some(error) => put_open_error(transaction, place, error, buffer)?,
            None if counted.is_some() => {
                delete.execute(place).map_err(store_error)?;
            }
            None => {}
        }
        counts.change_unit(transaction, change, counted.as_ref())?;
    }
    Ok(())
}

fn put_open_error(
    transaction: &Transaction<'_>,
    [run, step, item]: [i64; 3],
    error: &OpenError,
    buffer: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO open_error
        (run, step, item, grp, flow, action, acknowledged, policy, policy_name, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let body = to_text_in(buffer, error)?;
    let OpenError { record: ErrorRecord { group, root_flow, action, .. }, resume, acknowledged } = error;
    let policy = resume.as_ref().map(|(_, policy)| policy);
    let (id, name) = (policy.map(|policy| &*policy.id), policy.map(|policy| &*policy.name));
    prepare(transaction, sql)?
        .execute(params![run, step, item, &**group, &**root_flow, &**action, acknowledged, id, name, body])
        .map_err(store_error)?;
    Ok(())
}

/// What is counted of a group, for one upsert.
struct Counted<'a> {
    of: &'a ErrorRecord,
    last: Time,
    flows: HashMap<&'a str, u64>,
}

/// Adds the recorded errors to their groups, by flow too.
fn count_groups(transaction: &Transaction<'_>, group: &[PendingTransaction]) -> Result<(), StoreError> {
    let mut counted: HashMap<&str, Counted<'_>> = HashMap::new();
    for (_, error) in group.iter().flat_map(|job| &job.errors.recorded) {
        let entry = counted.entry(&error.group);
        let entry = entry.or_insert(Counted { of: error, last: error.at, flows: HashMap::new() });
        entry.last = error.at;
        *entry.flows.entry(&error.root_flow).or_default() += 1;
    }
    let upsert =
        "INSERT INTO error_group (id, action, pattern, first, last, count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (id) DO UPDATE SET last = excluded.last, count = count + excluded.count";
    let upsert_flow = "INSERT INTO error_group_flow (grp, flow, count) VALUES (?1, ?2, ?3)
        ON CONFLICT (grp, flow) DO UPDATE SET count = count + excluded.count";
    let (mut upsert, mut upsert_flow) = (prepare(transaction, upsert)?, prepare(transaction, upsert_flow)?);
    for (id, Counted { of, last, flows }) in counted {
        let count = number(flows.values().sum())?;
        upsert
            .execute(params![id, &*of.action, &*of.pattern, of.at.0, last.0, count])
            .map_err(store_error)?;
        for (flow, count) in flows {
            upsert_flow.execute(params![id, flow, number(count)?]).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Adds the errors that policies have taken to their counts.
fn count_hits(transaction: &Transaction<'_>, group: &[PendingTransaction]) -> Result<(), StoreError> {
    let mut counted: HashMap<&str, (u64, Time)> = HashMap::new();
    for (policy, at) in group.iter().flat_map(|job| &job.errors.hits) {
        let (hits, last) = counted.entry(policy).or_default();
        *hits += 1;
        *last = *at;
    }
    let sql = "INSERT INTO policy_hit (policy, hits, last) VALUES (?1, ?2, ?3)
        ON CONFLICT (policy) DO UPDATE SET hits = hits + excluded.hits, last = excluded.last";
    let mut upsert = prepare(transaction, sql)?;
    for (policy, (hits, last)) in counted {
        upsert.execute(params![policy, number(hits)?, last.0]).map_err(store_error)?;
    }
    Ok(())
}

/// Deletes the errors of a forgotten run. Counts of groups stay: they tell how often an error happened.
pub(crate) fn delete_errors(
    transaction: &Transaction<'_>,
    run: RunId,
    counts: &mut OpenChanges,
) -> Result<(), StoreError> {
    counts.remove_run(&load_counted(transaction, run)?);
    let run = number(run.0)?;
    for sql in [
        "DELETE FROM error WHERE run = ?1",
        "DELETE FROM open_error WHERE run = ?1",
        "DELETE FROM unexamined WHERE run = ?1",
    ] {
        prepare(transaction, sql)?.execute([run]).map_err(store_error)?;
    }
    Ok(())
}
