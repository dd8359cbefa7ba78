//! Lists of runs: those whose rows are behind, and those that have a row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rusqlite::Connection;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Attention, Run, RunState};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_store::contract::{OpenRuns, RunCounts, RunFilter, Store, StoreError};

use crate::candidates::Candidates;
use crate::hot_runs::Residency;
use crate::overlay::{FreshRun, FreshRuns, Told};
use crate::stage::conflict;
use crate::store::SqliteStore;
use crate::table::error;
use crate::table::event;
use crate::table::run;
use crate::table::run::ListedRow;
use crate::table::run_count;
use crate::table::run_snapshot;

/// So many more are looked at than are wanted, for those that are left out.
const SLACK: usize = 8;

impl SqliteStore {
    /// Lists runs that fit, newest first: those in memory merged with rows of those that are not.
    pub(crate) fn list_runs(
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
            if error::has_error(&self.reader, filter, id)? {
                found.extend(self.run(id)?);
            }
        }
        // Rows of runs in memory are behind.
        let (reader, memory) = (&self.reader, &self.state.hot);
        for_each_row(
            reader,
            filter,
            (before, limit),
            |id| memory.get(id).is_some(),
            |row| {
                found.push(run_snapshot::load_run_at(reader, row.id, row.head)?.run);
                Ok(())
            },
        )?;
        found.sort_unstable_by_key(|run| Reverse(run.id));
        found.truncate(limit);
        Ok(found)
    }

    /// Counts root runs by state; of the final ones only those started at `since` or later. Rows are counted by an
    /// index, and corrected for runs in memory.
    pub(crate) fn count_root_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError> {
        let mut counts = run_count::count_rows(&self.reader, since)?;
        for (id, entry) in self.state.hot.iter() {
            let Residency::Here(run) = &entry.run else { return Err(conflict(*id, "is locked")) };
            if run.origin.parent().is_none() {
                let row = run::load_row_state(&self.reader, *id)?.map(|(_, state)| state);
                recount_run(&mut counts, &entry.flow, (*id, since), row, Some(run.state()));
            }
        }
        Ok(sum_over_flows(&counts))
    }
}

/// Adds up the counts of all flows.
fn sum_over_flows(counts: &RunCounts) -> BTreeMap<RunState, u64> {
    let mut all = BTreeMap::new();
    for ((_, state), count) in counts {
        *all.entry(*state).or_default() += count;
    }
    all
}

/// Moves a run from the state that its row has to the state that it is in now. Final runs from before `since` are in
/// no count.
fn recount_run(
    counts: &mut RunCounts,
    flow: &std::sync::Arc<str>,
    (id, since): (RunId, Time),
    row: Option<RunState>,
    now: Option<RunState>,
) {
    let first = RunId::first_at(since);
    let is_counted = |state: &RunState| !state.is_final() || id >= first;
    if let Some(state) = row.filter(is_counted)
        && let Some(count) = counts.get_mut(&(flow.clone(), state))
    {
        *count -= 1;
        if *count == 0 {
            counts.remove(&(flow.clone(), state));
        }
    }
    if let Some(state) = now.filter(is_counted) {
        *counts.entry((flow.clone(), state)).or_default() += 1;
    }
}

/// Lists runs that fit, newest first, as readers see them. `fresh` was taken before the snapshot of the file, so the
/// file has at least the events that it names.
pub(crate) fn list_summaries(
    connection: &Connection,
    fresh: &FreshRuns,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunSummary>, StoreError> {
    if filter.key.is_some() || filter.has_error_criteria() {
        return list_candidate_summaries(connection, fresh, filter, (before, limit));
    }
    let fits = |(id, run): &(RunId, &FreshRun)| {
        before.is_none_or(|before| *id < before) && filter.accepts(&run.filtered(*id))
    };
    let mut told: Vec<(RunId, &FreshRun)> = fresh.iter().filter(fits).collect();
    told.sort_unstable_by_key(|(id, _)| Reverse(*id));
    let mut found = Vec::new();
    for (id, run) in told {
        if found.len() >= limit {
            break;
        }
        found.extend(load_fresh_summary(connection, filter, id, run)?);
    }
    for_each_row(
        connection,
        filter,
        (before, limit),
        |id| fresh.get(id).is_some(),
        |row| {
            found.push(load_summary(connection, &row)?);
            Ok(())
        },
    )?;
    found.sort_unstable_by_key(|run| Reverse(run.id));
    found.truncate(limit);
    Ok(found)
}

/// As [`list_summaries`], for filters by key or error: these indexes are always up to date, so fresh runs need not be
/// searched.
fn list_candidate_summaries(
    connection: &Connection,
    fresh: &FreshRuns,
    filter: &RunFilter,
    (before, limit): (Option<RunId>, usize),
) -> Result<Vec<RunSummary>, StoreError> {
    let mut candidates = Candidates::for_filter(connection, filter, before)?;
    let mut found = Vec::new();
    loop {
        let wanted = limit.saturating_add(SLACK);
        let page = candidates.next_page(connection, wanted)?;
        let is_end = page.len() < wanted;
        for id in page {
            if found.len() >= limit {
                return Ok(found);
            }
            let summary = match fresh.get(id) {
                Some(run) => load_fresh_summary(connection, filter, id, run)?,
                None => match run::load_listed_row(connection, id)? {
                    Some(row) if row_matches(connection, filter, &row)? => {
                        Some(load_summary(connection, &row)?)
                    }
                    Some(_) | None => None,
                },
            };
            found.extend(summary);
        }
        if is_end {
            return Ok(found);
        }
    }
}

/// Calls `each` with the newest rows that fit, at most `limit`; leaves out runs for which `is_elsewhere` is true.
fn for_each_row(
    connection: &Connection,
    filter: &RunFilter,
    (before, limit): (Option<RunId>, usize),
    is_elsewhere: impl Fn(RunId) -> bool,
    mut each: impl FnMut(ListedRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut candidates = Candidates::for_filter(connection, filter, before)?;
    let mut count = 0;
    while count < limit {
        let wanted = limit.saturating_add(SLACK);
        let page = candidates.next_page(connection, wanted)?;
        let is_end = page.len() < wanted;
        for id in page.into_iter().filter(|id| !is_elsewhere(*id)) {
            if count < limit
                && let Some(row) = run::load_listed_row(connection, id)?
                && row_matches(connection, filter, &row)?
            {
                count += 1;
                each(row)?;
            }
        }
        if is_end {
            return Ok(());
        }
    }
    Ok(())
}

/// Tests a row against the filter. A row from before a filtered column existed does not say enough, and the run is
/// loaded.
fn row_matches(connection: &Connection, filter: &RunFilter, row: &ListedRow) -> Result<bool, StoreError> {
    let has_key = RunFilter { key: None, ..filter.clone() };
    let accepted = match row.filtered() {
        // Who has a key was found by it.
        Some(known) => has_key.accepts(&known),
        // A row from before all of that was kept does not say all of it.
        None => filter.matches(&run_snapshot::load_run_at(connection, row.id, row.head)?.run, &row.flow),
    };
    Ok(accepted && error::has_error(connection, filter, row.id)?)
}

/// Builds the summary from the row, or from the loaded run if the row is from before summaries were stored.
fn load_summary(connection: &Connection, row: &ListedRow) -> Result<RunSummary, StoreError> {
    match row.summary()? {
        Some(summary) => Ok(summary),
        None => Ok(RunSummary::of(&run_snapshot::load_run_at(connection, row.id, row.head)?.run)),
    }
}

/// Loads the summary of a run whose row is behind, if it fits.
fn load_fresh_summary(
    connection: &Connection,
    filter: &RunFilter,
    id: RunId,
    told: &FreshRun,
) -> Result<Option<RunSummary>, StoreError> {
    if !error::has_error(connection, filter, id)? {
        return Ok(None);
    }
    let head = match run::load_run_row(connection, id)? {
        // It may have gone on since it was told.
        Some(row) => Some(row.head.max(told.head)),
        None => head_if_present(connection, Some(told.head))?,
    };
    let Some(head) = head else { return Ok(None) };
    let run = run_snapshot::load_run_at(connection, id, head)?.run;
    Ok(filter.matches(&run, &told.flow).then(|| RunSummary::of(&run)))
}

/// Returns the position if its event still exists: the run may have been forgotten after the overlay was read.
pub(crate) fn head_if_present(connection: &Connection, head: Option<u64>) -> Result<Option<u64>, StoreError> {
    match head {
        Some(head) => Ok(event::has_event(connection, head)?.then_some(head)),
        None => Ok(None),
    }
}

/// Counts root runs by flow and state as readers see them; of the final ones only those started at `since` or later.
/// `None` if a stage was written between reading the overlay and the file: the two cannot be combined by counts then.
pub(crate) fn count_roots(
    connection: &Connection,
    told: &Told,
    since: Time,
) -> Result<Option<RunCounts>, StoreError> {
    if run_count::load_last_stage(connection)? != told.stage {
        return Ok(None);
    }
    let mut counts = run_count::count_rows(connection, since)?;
    for (id, run) in told.fresh.iter().filter(|(_, run)| run.parent.is_none()) {
        recount_run(&mut counts, &run.flow, (id, since), run.row, Some(run.state));
    }
    Ok(Some(counts))
}

/// As [`count_roots`], but looks up the row of every fresh run, which is right whatever was written in between.
pub(crate) fn count_roots_one_by_one(
    connection: &Connection,
    told: &Told,
    since: Time,
) -> Result<RunCounts, StoreError> {
    let mut counts = run_count::count_rows(connection, since)?;
    for (id, run) in told.fresh.iter().filter(|(_, run)| run.parent.is_none()) {
        let (row, now) = load_states(connection, id, run)?;
        recount_run(&mut counts, &run.flow, (id, since), row, now);
    }
    Ok(counts)
}

/// Loads the state that the row of a fresh run has, and the state that it is in, whatever was written since it was told.
fn load_states(
    connection: &Connection,
    id: RunId,
    run: &FreshRun,
) -> Result<(Option<RunState>, Option<RunState>), StoreError> {
    Ok(match run::load_row_state(connection, id)? {
        // It may have gone on since it was told.
        Some((head, state)) if head >= run.head => (Some(state), Some(state)),
        Some((_, state)) => (Some(state), Some(run.state)),
        None => (None, event::has_event(connection, run.head)?.then_some(run.state)),
    })
}

/// Counts runs of these flow versions that are not final; `None` as for [`count_roots`].
pub(crate) fn count_open(
    connection: &Connection,
    told: &Told,
    flows: &[FlowId],
) -> Result<Option<OpenRuns>, StoreError> {
    if run_count::load_last_stage(connection)? != told.stage {
        return Ok(None);
    }
    let mut counts = run_count::count_open_rows(connection, flows)?;
    for (_, run) in told.fresh.iter().filter(|(_, run)| flows.contains(&run.version)) {
        recount_open(&mut counts, run.version, run.row, Some(run.state));
    }
    Ok(Some(counts))
}

/// As [`count_open`], but looks up the row of every fresh run, which is right whatever was written in between.
pub(crate) fn count_open_one_by_one(
    connection: &Connection,
    told: &Told,
    flows: &[FlowId],
) -> Result<OpenRuns, StoreError> {
    let mut counts = run_count::count_open_rows(connection, flows)?;
    for (id, run) in told.fresh.iter().filter(|(_, run)| flows.contains(&run.version)) {
        let (row, now) = load_states(connection, id, run)?;
        recount_open(&mut counts, run.version, row, now);
    }
    Ok(counts)
}

/// Counts an open run that has no row or a final one, and leaves one out whose row says that it is open. A run changes
/// its version only while it is final.
fn recount_open(counts: &mut OpenRuns, version: FlowId, row: Option<RunState>, now: Option<RunState>) {
    let is_open = |state: Option<RunState>| state.is_some_and(|state| !state.is_final());
    match (is_open(row), is_open(now)) {
        (false, true) => *counts.entry(version).or_default() += 1,
        (true, false) => {
            if let Some(count) = counts.get_mut(&version) {
                *count = count.saturating_sub(1);
            }
            counts.retain(|_, count| *count > 0);
        }
        (true, true) | (false, false) => {}
    }
}

/// Encodes which steps need attention as the column `rests`: bit 0 for error, bit 1 for held.
pub(crate) fn encode_rests(rests: Attention) -> i64 {
    i64::from(rests.error) | (i64::from(rests.held) << 1)
}
