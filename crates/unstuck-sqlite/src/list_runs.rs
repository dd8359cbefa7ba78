//! Lists of runs: those in memory, and those that have a row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use rusqlite::types::Value;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Attention, Run, RunState};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_store::contract::{RunFilter, Store, StoreError};

use crate::error::store_error;
use crate::hot_runs::Residency;
use crate::info;
use crate::overlay::{FreshRun, FreshRuns};
use crate::stage::conflict;
use crate::store::SqliteStore;
use crate::table::error::Query;
use crate::table::event;
use crate::table::flow;
use crate::table::number;
use crate::table::run;
use crate::table::run::RunRow;
use crate::table::run_key;
use crate::table::run_snapshot;
use crate::table::unsigned;

/// As it stands in the partial indexes, letter by letter: else they are not used.
const IS_OPEN: &str =
    "state <> 'completed' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'superseded'";

impl SqliteStore {
    /// Runs that fit, newest first.
    pub(crate) fn list_runs(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        if let Some(key) = &filter.key {
            return self.list_of_key(key, filter, before, limit);
        }
        let mut found = self.list_hot(filter, before, limit)?;
        // Rows of runs in memory are behind: they are passed over, and more are read for them.
        let mut cold = Vec::new();
        let mut last = before;
        while cold.len() < limit {
            let page = rows_of(&self.reader, filter, &self.flow_versions(filter), last, limit)?;
            last = page.last().map(|row| row.id);
            let is_end = page.len() < limit;
            for row in page.into_iter().filter(|row| self.state.hot.get(row.id).is_none()) {
                let run = run_snapshot::run_at(&self.reader, row.id, row.head)?.run;
                // A row does not say all of it.
                if cold.len() < limit && filter.matches(&run, &row.flow) {
                    cold.push(run);
                }
            }
            if is_end {
                break;
            }
        }
        found.extend(cold);
        found.sort_unstable_by_key(|run| Reverse(run.id));
        found.truncate(limit);
        Ok(found)
    }

    /// The names of the flows whose versions are asked for.
    fn flow_versions(&self, filter: &RunFilter) -> BTreeSet<String> {
        let versions = filter.versions.iter().flatten();
        versions.filter_map(|id| self.state.flows.get(*id)).map(|flow| flow.name.to_string()).collect()
    }

    fn list_hot(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        let mut hot: Vec<RunId> = Vec::new();
        for (id, entry) in self.state.hot.iter() {
            let Residency::Here(run) = &entry.run else { return Err(conflict(*id, "is locked")) };
            if before.is_none_or(|before| *id < before) && filter.matches(run, &entry.flow) {
                hot.push(*id);
            }
        }
        hot.sort_unstable_by_key(|run| Reverse(*run));
        let mut found = Vec::new();
        for id in hot {
            if found.len() >= limit {
                break;
            }
            if has_error(&self.reader, filter, id)? {
                found.extend(self.run(id)?);
            }
        }
        Ok(found)
    }

    /// A key has one run in each flow: no list is read for it.
    fn list_of_key(
        &mut self,
        key: &str,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        let mut found = Vec::new();
        for flow in self.state.flows.names() {
            let Some(id) = self.run_of_key(&flow, key)? else { continue };
            if before.is_none_or(|before| id < before) && has_error(&self.reader, filter, id)? {
                found.extend(self.run(id)?.filter(|run| filter.matches(run, &flow)));
            }
        }
        found.sort_unstable_by_key(|run| Reverse(run.id));
        found.truncate(limit);
        Ok(found)
    }

    /// How many root runs are in each state; of the final ones those since a time.
    pub(crate) fn count_root_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError> {
        let mut counts = BTreeMap::new();
        let first = RunId::first_at(since);
        for (id, entry) in self.state.hot.iter() {
            let Residency::Here(run) = &entry.run else { return Err(conflict(*id, "is locked")) };
            if run.origin.parent().is_none() && (!run.is_final() || *id >= first) {
                *counts.entry(run.state()).or_default() += 1;
            }
        }
        count_rows(&self.reader, first, |id| self.state.hot.get(id).is_none(), &mut counts)?;
        Ok(counts)
    }
}

/// Runs that fit, newest first, as readers see them: what is fresh was told before the file was read.
pub(crate) fn summaries(
    connection: &Connection,
    fresh: &FreshRuns,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunSummary>, StoreError> {
    let is_before = |id: RunId| before.is_none_or(|before| id < before);
    if let Some(key) = &filter.key {
        let mut ids = Vec::new();
        for flow in flow::names(connection)? {
            ids.extend(run_key::run_of_key(connection, &flow, key)?.filter(|id| is_before(*id)));
        }
        return first_of(connection, fresh, filter, ids, limit);
    }
    let fits = |(id, run): &(RunId, &FreshRun)| is_before(*id) && filter.accepts(&run.filtered(*id));
    let ids = fresh.iter().filter(fits).map(|(id, _)| id).collect();
    let mut found = first_of(connection, fresh, filter, ids, limit)?;
    let versions = version_names(connection, filter)?;
    let (mut cold, mut last) = (0, before);
    while cold < limit {
        let page = rows_of(connection, filter, &versions, last, limit)?;
        last = page.last().map(|row| row.id);
        let is_end = page.len() < limit;
        for row in page.into_iter().filter(|row| fresh.get(row.id).is_none()) {
            let run = run_snapshot::run_at(connection, row.id, row.head)?.run;
            // A row does not say all of it.
            if cold < limit && filter.matches(&run, &row.flow) {
                cold += 1;
                found.push(RunSummary::of(&run));
            }
        }
        if is_end {
            break;
        }
    }
    found.sort_unstable_by_key(|run| Reverse(run.id));
    found.truncate(limit);
    Ok(found)
}

/// The newest of these runs that fit.
fn first_of(
    connection: &Connection,
    fresh: &FreshRuns,
    filter: &RunFilter,
    mut ids: Vec<RunId>,
    limit: usize,
) -> Result<Vec<RunSummary>, StoreError> {
    ids.sort_unstable_by_key(|id| Reverse(*id));
    let mut found = Vec::new();
    for id in ids {
        if found.len() >= limit {
            break;
        }
        if !has_error(connection, filter, id)? {
            continue;
        }
        let told = fresh.get(id);
        let (head, flow) = match (run::run_row(connection, id)?, told) {
            // It may have gone on since it was told.
            (Some(row), told) => (told.map(|run| run.head).max(Some(row.head)), row.flow),
            (None, Some(told)) => (if_there(connection, Some(told.head))?, told.flow.clone()),
            (None, None) => continue,
        };
        let Some(head) = head else { continue };
        let run = run_snapshot::run_at(connection, id, head)?.run;
        if filter.matches(&run, &flow) {
            found.push(RunSummary::of(&run));
        }
    }
    Ok(found)
}

/// This position, unless the run that it was told of has been forgotten since.
pub(crate) fn if_there(connection: &Connection, head: Option<u64>) -> Result<Option<u64>, StoreError> {
    match head {
        Some(head) => Ok(event::is_there(connection, head)?.then_some(head)),
        None => Ok(None),
    }
}

/// The names of the flows whose versions are asked for.
fn version_names(connection: &Connection, filter: &RunFilter) -> Result<BTreeSet<String>, StoreError> {
    let mut names = BTreeSet::new();
    for id in filter.versions.iter().flatten() {
        let found = flow::flows(connection, FlowId(id.0.saturating_sub(1)), 1)?.pop();
        names.extend(found.filter(|flow| flow.id == *id).map(|flow| flow.name.to_string()));
    }
    Ok(names)
}

/// How many root runs are in each state, as readers see them; of the final ones those since a time.
pub(crate) fn count_roots(
    connection: &Connection,
    fresh: &FreshRuns,
    since: Time,
) -> Result<BTreeMap<RunState, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    let first = RunId::first_at(since);
    for (id, told) in fresh.iter() {
        let (is_there, state) = match run::row_state(connection, id)? {
            // It may have gone on since it was told.
            Some((head, state)) if head > told.head => (true, state),
            Some(_) => (true, told.state),
            None => (event::is_there(connection, told.head)?, told.state),
        };
        if is_there && told.parent.is_none() && (!state.is_final() || id >= first) {
            *counts.entry(state).or_default() += 1;
        }
    }
    count_rows(connection, first, |id| fresh.get(id).is_none(), &mut counts)?;
    Ok(counts)
}

/// Counts the rows of root runs that are wanted: what is open however old it is, and what has ended since then, each by
/// its own index.
fn count_rows(
    connection: &Connection,
    first: RunId,
    is_wanted: impl Fn(RunId) -> bool,
    counts: &mut BTreeMap<RunState, u64>,
) -> Result<(), StoreError> {
    let open = format!("SELECT id, state FROM run INDEXED BY run_open WHERE {IS_OPEN} AND parent IS NULL");
    let ended = format!("SELECT id, state FROM run WHERE id >= ? AND NOT ({IS_OPEN}) AND parent IS NULL");
    for (sql, from) in [(open, None), (ended, Some(first))] {
        let mut query = Query::new(&sql);
        if let Some(from) = from {
            query.add("", [number(from.0)?.into()]);
        }
        let found = query.rows(connection, |row| {
            let id = RunId(unsigned(row.get(0).map_err(store_error)?));
            let word = row.get_ref(1).map_err(store_error)?;
            Ok((id, info::state(word.as_str().unwrap_or_default())?))
        })?;
        for (_, state) in found.into_iter().filter(|(id, _)| is_wanted(*id)) {
            *counts.entry(state).or_default() += 1;
        }
    }
    Ok(())
}

/// Runs that have a row and may fit, newest first, before an id.
fn rows_of(
    connection: &Connection,
    filter: &RunFilter,
    versions: &BTreeSet<String>,
    before: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunRow>, StoreError> {
    let asks_for_errors = filter.has_error_criteria();
    let index = match filter.parent {
        None if !asks_for_errors => index(&filter.states),
        None | Some(_) => "",
    };
    // Only what is asked for stands in the query, so that children are found by the index of their parents.
    let mut query = Query::new(&format!("SELECT id, flow, head FROM run{index} WHERE true"));
    if let Some(before) = lowest(before, filter.until.map(RunId::first_at)) {
        query.add(" AND id < ?", [number(before.0)?.into()]);
    }
    if let Some(since) = filter.since {
        query.add(" AND id >= ?", [number(RunId::first_at(since).0)?.into()]);
    }
    if !filter.states.is_empty() {
        query.add(&of_states(&filter.states), []);
    }
    query.text(" AND flow = ?", filter.flow.as_ref());
    if filter.versions.is_some() {
        let marks = vec!["?"; versions.len()].join(", ");
        query.add(&format!(" AND flow IN ({marks})"), versions.iter().map(|name| Value::from(name.clone())));
    }
    if let Some(parent) = filter.parent {
        query.add(" AND parent = ?", [number(parent.0)?.into()]);
    }
    if filter.roots_only {
        query.add(" AND parent IS NULL", []);
    }
    if asks_for_errors {
        query.add(" AND id IN (SELECT run FROM error WHERE true", []);
        of_errors(&mut query, filter);
        query.add(")", []);
    }
    query.limit(" ORDER BY id DESC LIMIT ?", limit);
    query.rows(connection, |row| run::to_run_row(row).map_err(store_error))
}

/// The index that leaves most out.
fn index(states: &[RunState]) -> &'static str {
    if states.is_empty() || states.contains(&RunState::Completed) {
        return "";
    }
    if states.iter().any(|state| state.is_final()) {
        " INDEXED BY run_not_completed"
    } else {
        " INDEXED BY run_open"
    }
}

/// Runs in one of these states, or with such a step; rows from before this was kept may have one.
fn of_states(states: &[RunState]) -> String {
    let words: Vec<String> = states.iter().map(|state| format!("'{}'", state.word())).collect();
    let rests =
        bits(Attention { error: states.contains(&RunState::Error), held: states.contains(&RunState::Held) });
    let or_rests = if rests == 0 {
        String::new()
    } else {
        format!(" OR ({IS_OPEN} AND (rests IS NULL OR rests & {rests} <> 0))")
    };
    // What the indexes leave out is said once more, in their words.
    let mut clause = format!(" AND (state IN ({}){or_rests})", words.join(", "));
    if !states.contains(&RunState::Completed) {
        clause += " AND state <> 'completed'";
    }
    if !states.iter().any(|state| state.is_final()) {
        clause.push_str(" AND ");
        clause.push_str(IS_OPEN);
    }
    clause
}

/// Errors of the group and with the cause that are asked for.
fn of_errors(query: &mut Query, filter: &RunFilter) {
    query.text(" AND grp = ?", filter.group.as_ref());
    query.text(" AND instr(json_extract(body, '$.cause'), ?) > 0", filter.cause.as_ref());
}

/// Whether a run has had an error as the filter asks for, if it does.
fn has_error(connection: &Connection, filter: &RunFilter, run: RunId) -> Result<bool, StoreError> {
    if !filter.has_error_criteria() {
        return Ok(true);
    }
    let mut query = Query::new("SELECT 1 FROM error WHERE run = ?");
    query.add("", [number(run.0)?.into()]);
    of_errors(&mut query, filter);
    query.limit(" LIMIT ?", 1);
    Ok(!query.rows(connection, |_| Ok(()))?.is_empty())
}

fn lowest(one: Option<RunId>, other: Option<RunId>) -> Option<RunId> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// As the column `rests` keeps it.
pub(crate) fn bits(rests: Attention) -> i64 {
    i64::from(rests.error) | (i64::from(rests.held) << 1)
}
