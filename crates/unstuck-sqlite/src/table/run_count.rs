//! The table `run_count`: how many rows of runs are in each state, by flow, so that nobody counts rows. Those that are over
//! are counted by the hour of their start.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use rustc_hash::FxHashMap;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::RunState;
use unstuck_core::time::Time;
use unstuck_store::contract::{OpenRuns, RunCounts, StoreError};

use crate::error::store_error;
use crate::info;
use crate::table::flow;
use crate::table::meta;
use crate::table::number;
use crate::table::prepare;
use crate::table::run;
use crate::table::run_snapshot;
use crate::table::unsigned;

/// Ids of runs that were started in one hour differ by less than this.
const HOUR: u64 = 3_600_000 << 22;

/// What rows are counted by: state, whether it is a child, the hour of its start once it is over, flow.
type CountKey = (RunState, bool, u64, Arc<str>);

/// By how much counts change with what is written together.
#[derive(Debug, Default)]
pub(crate) struct CountChanges(FxHashMap<CountKey, i64>);

impl CountChanges {
    /// Changes the count of rows like this one by `by`.
    pub(crate) fn add(&mut self, id: RunId, state: RunState, is_child: bool, flow: &Arc<str>, by: i64) {
        *self.0.entry((state, is_child, hour_of(id, state), flow.clone())).or_default() += by;
    }

    /// Subtracts the row of a run before it is replaced or deleted, by the values that are in the file.
    pub(crate) fn remove_row(&mut self, transaction: &Transaction<'_>, id: RunId) -> Result<(), StoreError> {
        let sql = "SELECT state, parent IS NOT NULL, flow FROM run WHERE id = ?1";
        let row = prepare(transaction, sql)?
            .query_row([number(id.0)?], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()
            .map_err(store_error)?;
        let row: Option<(String, bool, String)> = row;
        if let Some((state, is_child, flow)) = row {
            self.add(id, info::parse_run_state(&state)?, is_child, &flow.into(), -1);
        }
        Ok(())
    }

    /// Writes all changes of a transaction at once: rows that come and go within it cost nothing.
    pub(crate) fn write(self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let sql = "INSERT INTO run_count (state, child, hour, flow, count) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (state, child, hour, flow) DO UPDATE SET count = count + excluded.count";
        for ((state, is_child, hour, flow), by) in self.0.into_iter().filter(|(_, by)| *by != 0) {
            prepare(transaction, sql)?
                .execute(params![state.word(), is_child, number(hour)?, &*flow, by])
                .map_err(store_error)?;
        }
        Ok(())
    }
}

/// Returns the hour under which a run is counted: of its start if it is final, 0 otherwise, as only final runs are
/// counted by age.
pub(crate) fn hour_of(id: RunId, state: RunState) -> u64 {
    if state.is_final() { id.0 / HOUR } else { 0 }
}

/// Calls `each` with every count: state, whether they are children, hour, flow, and number.
pub(crate) fn for_each_count(
    connection: &Connection,
    mut each: impl FnMut((RunState, bool, u64), String, i64),
) -> Result<(), StoreError> {
    let sql = "SELECT state, child, hour, flow, count FROM run_count";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let state = row.get_ref(0).map_err(store_error)?;
        let state = info::parse_run_state(state.as_str().unwrap_or_default())?;
        let hour = unsigned(row.get(2).map_err(store_error)?);
        let kind = (state, row.get(1).map_err(store_error)?, hour);
        each(kind, row.get(3).map_err(store_error)?, row.get(4).map_err(store_error)?);
    }
    Ok(())
}

/// Counts rows of root runs by flow and state: all that are not final, and final ones started at `since` or later.
/// Whole hours come from the counts, the first part of an hour from rows.
pub(crate) fn count_rows(connection: &Connection, since: Time) -> Result<RunCounts, StoreError> {
    let first = RunId::first_at(since).0;
    let hour = first.div_ceil(HOUR);
    let mut counts = RunCounts::new();
    for state in RunState::ALL {
        let from = if state.is_final() { hour } else { 0 };
        let sql = "SELECT flow, sum(count) FROM run_count WHERE state = ?1 AND child = 0 AND hour >= ?2 GROUP BY flow";
        let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
        let mut rows = statement.query(params![state.word(), number(from)?]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let flow: String = row.get(0).map_err(store_error)?;
            add(&mut counts, flow, state, row.get(1).map_err(store_error)?);
        }
    }
    let end = hour.saturating_mul(HOUR);
    if end > first {
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        count_final_rows(connection, [number(first)?, end], &mut counts)?;
    }
    Ok(counts)
}

/// Counts final rows within part of an hour, by version, so that only an index is read.
fn count_final_rows(
    connection: &Connection,
    [first, end]: [i64; 2],
    counts: &mut RunCounts,
) -> Result<(), StoreError> {
    let of_version = "SELECT count(*) FROM run INDEXED BY run_list
        WHERE version = ?1 AND state = ?2 AND (parent IS NOT NULL) = 0 AND id >= ?3 AND id < ?4";
    let of_none = "SELECT count(*) FROM run INDEXED BY run_unversioned
        WHERE flow = ?1 AND version IS NULL AND state = ?2 AND parent IS NULL AND id >= ?3 AND id < ?4";
    let mut of_version = connection.prepare_cached(of_version).map_err(store_error)?;
    let mut of_none = connection.prepare_cached(of_none).map_err(store_error)?;
    let mut names = BTreeSet::new();
    for (version, flow) in flow::list_versions(connection, None)? {
        let version = number(version.0)?;
        for state in RunState::ALL.into_iter().filter(|state| state.is_final()) {
            let found = of_version.query_row(params![version, state.word(), first, end], |row| row.get(0));
            add(counts, flow.clone(), state, found.map_err(store_error)?);
            if !names.contains(&flow) {
                let found = of_none.query_row(params![flow, state.word(), first, end], |row| row.get(0));
                add(counts, flow.clone(), state, found.map_err(store_error)?);
            }
        }
        names.insert(flow);
    }
    Ok(())
}

/// Counts rows of these flow versions that are not final. Rows from before the version was kept are loaded one by one.
pub(crate) fn count_open_rows(connection: &Connection, flows: &[FlowId]) -> Result<OpenRuns, StoreError> {
    let mut counts = OpenRuns::new();
    let sql = "SELECT count(*) FROM run INDEXED BY run_list
        WHERE version = ?1 AND state = ?2 AND (parent IS NOT NULL) IN (0, 1)";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut names = BTreeSet::new();
    for version in flows {
        for state in RunState::ALL.into_iter().filter(|state| !state.is_final()) {
            let found = statement.query_row(params![number(version.0)?, state.word()], |row| row.get(0));
            let found: i64 = found.map_err(store_error)?;
            if found > 0 {
                *counts.entry(*version).or_default() += unsigned(found);
            }
        }
        names.extend(flow::find_name(connection, *version)?);
    }
    for name in names {
        for (run, head) in run::list_unversioned_open(connection, &name)? {
            let version = run_snapshot::load_run_at(connection, run, head)?.run.flow;
            if flows.contains(&version) {
                *counts.entry(version).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

fn add(counts: &mut RunCounts, flow: String, state: RunState, count: i64) {
    if count > 0 {
        *counts.entry((flow.into(), state)).or_default() += unsigned(count);
    }
}

/// Loads the number of the last stage in the file: readers compare it with that of the overlay.
pub(crate) fn load_last_stage(connection: &Connection) -> Result<u64, StoreError> {
    Ok(meta::load_number(connection, "stage")?.map_or(0, unsigned))
}
