//! Which runs a list looks at: their ids, newest first, from the index that leaves most out.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::RunState;
use unstuck_store::contract::{LabelFilter, RunFilter, StepMark, StoreError};

use crate::error::store_error;
use crate::table::flow;
use crate::table::number;
use crate::table::run_key;
use crate::table::unsigned;

/// Runs that may fit a filter: all that do are among them.
pub(crate) struct Candidates {
    queries: Vec<IdQuery>,
    /// Those that no query finds, in order.
    listed: Vec<i64>,
    first: i64,
    end: i64,
    /// Whether runs are among them whose rows are behind, or are missing.
    pub(crate) have_fresh_runs: bool,
}

/// Some of them: each query walks one stretch of one index, from its end.
struct IdQuery {
    sql: &'static str,
    values: Vec<Value>,
}

macro_rules! of_run {
    ($from:literal) => {
        concat!("SELECT id FROM run ", $from, " AND id >= ? AND id < ? ORDER BY id DESC LIMIT ?")
    };
}
macro_rules! of_error {
    ($from:literal) => {
        concat!(
            "SELECT DISTINCT run FROM error ",
            $from,
            " AND run >= ? AND run < ? ORDER BY run DESC LIMIT ?"
        )
    };
}

const ALL: &str = of_run!("WHERE true");
const OF_PARENT: &str = of_run!("INDEXED BY run_parent WHERE parent = ?");
/// Runs of one state, by whether they are children and their version: `run_list` has them in this order.
const OF_VERSION: &str =
    of_run!("INDEXED BY run_list WHERE state = ? AND (parent IS NOT NULL) = ? AND version = ?");
const OF_STATE_UNVERSIONED: &str =
    of_run!("INDEXED BY run_list WHERE state = ? AND (parent IS NOT NULL) = ? AND version IS NULL");
/// Runs with a step in error or held that their own state does not tell of.
const OF_VERSION_AT_REST: &str = of_run!(
    "INDEXED BY run_rests WHERE rests = ? AND (parent IS NOT NULL) = ? AND version = ?
        AND rests <> (state = 'error') + 2 * (state = 'held')"
);
const AT_REST_UNVERSIONED: &str = of_run!(
    "INDEXED BY run_rests WHERE rests = ? AND (parent IS NOT NULL) = ? AND version IS NULL
        AND rests <> (state = 'error') + 2 * (state = 'held')"
);
/// The next version of which there are runs like these.
const NEXT_VERSION: &str = "SELECT version FROM run INDEXED BY run_list
    WHERE state = ? AND (parent IS NOT NULL) = ? AND version > ? ORDER BY version LIMIT 1";
const NEXT_VERSION_AT_REST: &str = "SELECT version FROM run INDEXED BY run_rests
    WHERE rests = ? AND (parent IS NOT NULL) = ? AND version > ?
        AND rests <> (state = 'error') + 2 * (state = 'held') ORDER BY version LIMIT 1";
const OF_UNKNOWN_VERSION: &str = of_run!("INDEXED BY run_unversioned WHERE flow = ? AND version IS NULL");
const OF_UNKNOWN_REST: &str = of_run!(
    "INDEXED BY run_rests_unknown WHERE rests IS NULL
        AND state <> 'completed' AND state <> 'failed' AND state <> 'cancelled' AND state <> 'superseded'"
);
const WITH_GROUP: &str = of_error!("INDEXED BY error_grp_run WHERE grp = ?");
const WITH_ERROR: &str = of_error!("INDEXED BY error_run WHERE true");
const WITH_LABEL: &str = "SELECT run FROM run_label
    WHERE name = ? AND value = ? AND run >= ? AND run < ? ORDER BY run DESC LIMIT ?";
const OF_KEY: &str = "SELECT run FROM run_key WHERE flow = ? AND key = ? AND run >= ? AND run < ? LIMIT ?";

impl Candidates {
    /// Chooses the queries for a filter. Ids begin with the time of the start, so a time range is a range of ids.
    /// `below` has the runs below the root that the filter asks for.
    pub(crate) fn for_filter(
        connection: &Connection,
        filter: &RunFilter,
        before: Option<RunId>,
        below: Option<&BTreeSet<RunId>>,
    ) -> Result<Candidates, StoreError> {
        let bound = |id: Option<RunId>, none: i64| id.map_or(Ok(none), |id| number(id.0));
        let (since, until) = (filter.since.map(RunId::first_at), filter.until.map(RunId::first_at));
        let end = bound(before, i64::MAX)?.min(bound(until, i64::MAX)?);
        let mut candidates = Candidates {
            queries: Vec::new(),
            listed: Vec::new(),
            first: bound(since, 0)?,
            end,
            have_fresh_runs: true,
        };
        match below {
            Some(below) => {
                let ids = below.iter().map(|run| number(run.0));
                candidates.listed = ids.collect::<Result<_, _>>()?;
            }
            None => candidates.choose_indexes(connection, filter)?,
        }
        Ok(candidates)
    }

    /// Chooses the most selective index that the filter can use: key, parent, group, the beginning of a key, label, cause,
    /// version, then state.
    fn choose_indexes(&mut self, connection: &Connection, filter: &RunFilter) -> Result<(), StoreError> {
        if let Some(key) = &filter.key {
            for flow in flow::list_flow_names(connection)? {
                self.add_query(OF_KEY, [flow.to_string().into(), key.to_string().into()]);
            }
        } else if let Some(parent) = filter.parent {
            self.have_fresh_runs = false;
            self.add_query(OF_PARENT, [number(parent.0)?.into()]);
        } else if let Some(group) = &filter.group {
            self.add_query(WITH_GROUP, [group.to_string().into()]);
        } else if let Some(runs) = list_runs_by_prefix(connection, filter)? {
            self.listed = runs;
        } else if let Some(label) = most_selective(&filter.labels) {
            for value in &label.values {
                self.add_query(WITH_LABEL, [label.name.to_string().into(), value.to_string().into()]);
            }
            self.have_fresh_runs = label.versions.is_empty();
            self.add_version_queries(connection, filter, Some(&label.versions))?;
        } else if filter.cause.is_some() {
            self.add_query(WITH_ERROR, []);
        } else if filter.flow.is_some() || filter.versions.is_some() || filter.steps.is_some() {
            self.have_fresh_runs = false;
            self.add_version_queries(connection, filter, None)?;
        } else {
            self.have_fresh_runs = false;
            self.add_state_queries(connection, filter)?;
        }
        Ok(())
    }

    /// Adds queries for each wanted state. Runs with a step in error or held are found whatever else they do.
    fn add_state_queries(&mut self, connection: &Connection, filter: &RunFilter) -> Result<(), StoreError> {
        let (states, rests) = (wanted_states(filter), wanted_rests(filter));
        if states.len() == RunState::ALL.len() && !filter.roots_only {
            self.add_query(ALL, []);
            return Ok(());
        }
        for is_child in wanted_child_flags(filter).iter().copied().map(Value::from) {
            for state in states.iter().copied().chain(states_of_rests(rests)) {
                let kind = [state.word().to_owned().into(), is_child.clone()];
                for version in list_versions_with(connection, NEXT_VERSION, &kind)? {
                    self.add_query(OF_VERSION, [&kind[..], &[version]].concat());
                }
                self.add_query(OF_STATE_UNVERSIONED, kind);
            }
            for rests in rests.iter().copied() {
                let kind = [rests.into(), is_child.clone()];
                for version in list_versions_with(connection, NEXT_VERSION_AT_REST, &kind)? {
                    self.add_query(OF_VERSION_AT_REST, [&kind[..], &[version]].concat());
                }
                self.add_query(AT_REST_UNVERSIONED, kind);
            }
        }
        if !rests.is_empty() {
            self.add_query(OF_UNKNOWN_REST, []);
        }
        Ok(())
    }

    /// Adds a query for each wanted version and state. Rows from before the column `version` have none, and are found
    /// by the name of the flow.
    fn add_version_queries(
        &mut self,
        connection: &Connection,
        filter: &RunFilter,
        only: Option<&[FlowId]>,
    ) -> Result<(), StoreError> {
        let known = match (&filter.flow, &filter.versions) {
            (Some(flow), _) => flow::list_versions(connection, Some(flow))?,
            (None, _) => flow::list_versions(connection, None)?,
        };
        let has_step = |id: &FlowId| {
            filter.steps.as_ref().is_none_or(|steps| steps.iter().any(|(version, _)| version == id))
        };
        let is_wanted = |id: &FlowId| {
            filter.versions.as_ref().is_none_or(|wanted| wanted.contains(id))
                && only.is_none_or(|only| only.contains(id))
                && has_step(id)
        };
        let (states, rests) = (wanted_states(filter), wanted_rests(filter));
        let mut names = Vec::new();
        for (version, name) in known.into_iter().filter(|(id, _)| is_wanted(id)) {
            let version = Value::from(number(version.0)?);
            for is_child in wanted_child_flags(filter).iter().copied().map(Value::from) {
                for state in states.iter().copied().chain(states_of_rests(rests)) {
                    let state = state.word().to_owned().into();
                    self.add_query(OF_VERSION, [state, is_child.clone(), version.clone()]);
                }
                for rests in rests.iter().copied() {
                    self.add_query(OF_VERSION_AT_REST, [rests.into(), is_child.clone(), version.clone()]);
                }
            }
            if !names.contains(&name) {
                self.add_query(OF_UNKNOWN_VERSION, [name.clone().into()]);
                names.push(name);
            }
        }
        Ok(())
    }

    fn add_query(&mut self, sql: &'static str, values: impl Into<Vec<Value>>) {
        self.queries.push(IdQuery { sql, values: values.into() });
    }

    /// Returns the newest candidates, at most `limit`, and moves the end below them for the next page.
    pub(crate) fn next_page(
        &mut self,
        connection: &Connection,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut ids: Vec<i64> = Vec::new();
        let mut first = self.first;
        for IdQuery { sql, values } in &self.queries {
            let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
            let bounds = [first, self.end, most].map(Value::from);
            let mut rows =
                statement.query(params_from_iter(values.iter().chain(&bounds))).map_err(store_error)?;
            while let Some(row) = rows.next().map_err(store_error)? {
                ids.push(row.get(0).map_err(store_error)?);
            }
            if ids.len() >= limit.saturating_mul(2) {
                keep_newest(&mut ids, limit);
                // Older ones are on a later page.
                first = first.max(ids.last().copied().filter(|_| ids.len() == limit).unwrap_or(first));
            }
        }
        let listed = self.listed.partition_point(|id| *id < self.end);
        let from = self.listed.partition_point(|id| *id < self.first);
        ids.extend(self.listed[from.min(listed)..listed].iter().rev().take(limit));
        keep_newest(&mut ids, limit);
        self.end = ids.last().copied().unwrap_or(self.first);
        Ok(ids.into_iter().map(|id| RunId(unsigned(id))).collect())
    }
}

/// Sorts ids, the newest first, and keeps so many.
fn keep_newest(ids: &mut Vec<i64>, limit: usize) {
    ids.sort_unstable_by(|one, other| other.cmp(one));
    ids.dedup();
    ids.truncate(limit);
}

/// Lists the versions of which there are runs of a kind, by one look at the index for each.
fn list_versions_with(
    connection: &Connection,
    next: &str,
    kind: &[Value; 2],
) -> Result<Vec<Value>, StoreError> {
    let mut statement = connection.prepare_cached(next).map_err(store_error)?;
    let mut versions = Vec::new();
    let mut last = i64::MIN;
    loop {
        let values = kind.iter().cloned().chain([last.into()]);
        let found = statement.query_row(params_from_iter(values), |row| row.get(0));
        match found.optional().map_err(store_error)? {
            Some(version) => last = version,
            None => return Ok(versions),
        }
        versions.push(last.into());
    }
}

/// Returns the values of the index column `parent IS NOT NULL` to look under.
fn wanted_child_flags(filter: &RunFilter) -> &'static [bool] {
    if filter.roots_only { &[false] } else { &[false, true] }
}

/// Returns whether only runs with a step in error or held can fit.
fn needs_rest(filter: &RunFilter) -> bool {
    !filter.has.is_empty() || !filter.policies.is_empty()
}

/// Returns the states to look under; no state in the filter means every state. None where runs are found by their steps.
fn wanted_states(filter: &RunFilter) -> Vec<RunState> {
    if needs_rest(filter) {
        return Vec::new();
    }
    let states = if filter.states.is_empty() { &RunState::ALL[..] } else { &filter.states[..] };
    let is_possible = |state: &RunState| !(filter.is_about_open_work() && state.is_final());
    states.iter().copied().filter(is_possible).collect()
}

/// What the column `rests` says of runs with a step in one of these states, whatever else they do.
fn wanted_rests(filter: &RunFilter) -> &'static [i64] {
    let of_error = [StepMark::Error, StepMark::Acknowledged, StepMark::Scheduled];
    let (error, held) = if filter.policies.is_empty() && !filter.has.is_empty() {
        let has_error = filter.has.iter().any(|mark| of_error.contains(mark));
        (has_error, filter.has.contains(&StepMark::Held))
    } else if filter.policies.is_empty() {
        (filter.states.contains(&RunState::Error), filter.states.contains(&RunState::Held))
    } else {
        (true, false)
    };
    match (error, held) {
        (false, false) => &[],
        (true, false) => &[1, 3],
        (false, true) => &[2, 3],
        (true, true) => &[1, 2, 3],
    }
}

/// Chooses the label that leaves most out: one that no flow has, if there is one.
fn most_selective(labels: &[LabelFilter]) -> Option<&LabelFilter> {
    labels.iter().min_by_key(|label| label.versions.len())
}

/// More runs than this are not collected by the beginning of their keys: then nearly every run may have it.
const MAX_LISTED: usize = 5_000;

/// Lists the runs whose keys begin as the filter asks, in order of id; `None` if it does not ask, or if they are too many.
fn list_runs_by_prefix(connection: &Connection, filter: &RunFilter) -> Result<Option<Vec<i64>>, StoreError> {
    if filter.key_prefixes.is_empty() {
        return Ok(None);
    }
    let mut found = Vec::new();
    for flow in flow::list_flow_names(connection)? {
        if filter.flow.as_ref().is_some_and(|wanted| **wanted != *flow) {
            continue;
        }
        for prefix in &filter.key_prefixes {
            let most = MAX_LISTED - found.len();
            let Some(runs) = run_key::list_runs_of_prefix(connection, &flow, prefix, most)? else {
                return Ok(None);
            };
            found.extend(runs);
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(Some(found))
}

/// The states whose runs the index of `rests` leaves out, as their state says it.
fn states_of_rests(rests: &[i64]) -> impl Iterator<Item = RunState> {
    let states = [(1, RunState::Error), (2, RunState::Held)];
    states.into_iter().filter(move |(rest, _)| rests.contains(rest)).map(|(_, state)| state)
}
