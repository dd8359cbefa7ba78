//! Lists of runs: those whose rows are behind, and those that have a row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rusqlite::Connection;
use unstuck_core::id::RunId;
use unstuck_core::model::run::{Attention, Run, RunState};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_store::contract::{RunCounts, RunFilter, Store, StoreError};

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
    /// Runs that fit, newest first.
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
        each_row(
            reader,
            filter,
            (before, limit),
            |id| memory.get(id).is_some(),
            |row| {
                found.push(run_snapshot::run_at(reader, row.id, row.head)?.run);
                Ok(())
            },
        )?;
        found.sort_unstable_by_key(|run| Reverse(run.id));
        found.truncate(limit);
        Ok(found)
    }

    /// How many root runs are in each state; of the final ones those since a time.
    pub(crate) fn count_root_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError> {
        let mut counts = run_count::count(&self.reader, since)?;
        for (id, entry) in self.state.hot.iter() {
            let Residency::Here(run) = &entry.run else { return Err(conflict(*id, "is locked")) };
            if run.origin.parent().is_none() {
                let row = run::row_state(&self.reader, *id)?.map(|(_, state)| state);
                move_count(&mut counts, &entry.flow, (*id, since), row, Some(run.state()));
            }
        }
        Ok(of_all_flows(&counts))
    }
}

fn of_all_flows(counts: &RunCounts) -> BTreeMap<RunState, u64> {
    let mut all = BTreeMap::new();
    for ((_, state), count) in counts {
        *all.entry(*state).or_default() += count;
    }
    all
}

/// A run that is counted by its row is counted as it is. Of those that are final, those since a time count.
fn move_count(
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

/// Runs that fit, newest first, as readers see them: what is fresh was told before the file was read.
pub(crate) fn summaries(
    connection: &Connection,
    fresh: &FreshRuns,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunSummary>, StoreError> {
    if filter.key.is_some() || filter.has_error_criteria() {
        return summaries_of_candidates(connection, fresh, filter, (before, limit));
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
        found.extend(summary_of_fresh(connection, filter, id, run)?);
    }
    each_row(
        connection,
        filter,
        (before, limit),
        |id| fresh.get(id).is_some(),
        |row| {
            found.push(summary_of(connection, &row)?);
            Ok(())
        },
    )?;
    found.sort_unstable_by_key(|run| Reverse(run.id));
    found.truncate(limit);
    Ok(found)
}

/// The same where keys or errors lead to the runs, whether their rows are behind or not: what is fresh is not looked through.
fn summaries_of_candidates(
    connection: &Connection,
    fresh: &FreshRuns,
    filter: &RunFilter,
    (before, limit): (Option<RunId>, usize),
) -> Result<Vec<RunSummary>, StoreError> {
    let mut candidates = Candidates::of(connection, filter, before)?;
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
                Some(run) => summary_of_fresh(connection, filter, id, run)?,
                None => match run::listed_row(connection, id)? {
                    Some(row) if fits(connection, filter, &row)? => Some(summary_of(connection, &row)?),
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

/// Calls `each` with the newest rows that fit, at most so many, those apart that are known elsewhere.
fn each_row(
    connection: &Connection,
    filter: &RunFilter,
    (before, limit): (Option<RunId>, usize),
    is_elsewhere: impl Fn(RunId) -> bool,
    mut each: impl FnMut(ListedRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut candidates = Candidates::of(connection, filter, before)?;
    let mut count = 0;
    while count < limit {
        let wanted = limit.saturating_add(SLACK);
        let page = candidates.next_page(connection, wanted)?;
        let is_end = page.len() < wanted;
        for id in page.into_iter().filter(|id| !is_elsewhere(*id)) {
            if count < limit
                && let Some(row) = run::listed_row(connection, id)?
                && fits(connection, filter, &row)?
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

fn fits(connection: &Connection, filter: &RunFilter, row: &ListedRow) -> Result<bool, StoreError> {
    let has_key = RunFilter { key: None, ..filter.clone() };
    let accepted = match row.filtered() {
        // Who has a key was found by it.
        Some(known) => has_key.accepts(&known),
        // A row from before all of that was kept does not say all of it.
        None => filter.matches(&run_snapshot::run_at(connection, row.id, row.head)?.run, &row.flow),
    };
    Ok(accepted && error::has_error(connection, filter, row.id)?)
}

fn summary_of(connection: &Connection, row: &ListedRow) -> Result<RunSummary, StoreError> {
    match row.summary()? {
        Some(summary) => Ok(summary),
        None => Ok(RunSummary::of(&run_snapshot::run_at(connection, row.id, row.head)?.run)),
    }
}

/// What a list tells of a run whose row is behind, if it fits.
fn summary_of_fresh(
    connection: &Connection,
    filter: &RunFilter,
    id: RunId,
    told: &FreshRun,
) -> Result<Option<RunSummary>, StoreError> {
    if !error::has_error(connection, filter, id)? {
        return Ok(None);
    }
    let head = match run::run_row(connection, id)? {
        // It may have gone on since it was told.
        Some(row) => Some(row.head.max(told.head)),
        None => if_there(connection, Some(told.head))?,
    };
    let Some(head) = head else { return Ok(None) };
    let run = run_snapshot::run_at(connection, id, head)?.run;
    Ok(filter.matches(&run, &told.flow).then(|| RunSummary::of(&run)))
}

/// This position, unless the run that it was told of has been forgotten since.
pub(crate) fn if_there(connection: &Connection, head: Option<u64>) -> Result<Option<u64>, StoreError> {
    match head {
        Some(head) => Ok(event::is_there(connection, head)?.then_some(head)),
        None => Ok(None),
    }
}

/// How many root runs of each flow are in each state, as readers see them; of the final ones those since a time. `None` if
/// something was written after what is fresh was told, and nobody says how the two fit together.
pub(crate) fn count_roots(
    connection: &Connection,
    told: &Told,
    since: Time,
) -> Result<Option<RunCounts>, StoreError> {
    if run_count::stage(connection)? != told.stage {
        return Ok(None);
    }
    let mut counts = run_count::count(connection, since)?;
    for (id, run) in told.fresh.iter().filter(|(_, run)| run.parent.is_none()) {
        move_count(&mut counts, &run.flow, (id, since), run.row, Some(run.state));
    }
    Ok(Some(counts))
}

/// The same, where everything is looked up.
pub(crate) fn count_roots_one_by_one(
    connection: &Connection,
    told: &Told,
    since: Time,
) -> Result<RunCounts, StoreError> {
    let mut counts = run_count::count(connection, since)?;
    for (id, run) in told.fresh.iter().filter(|(_, run)| run.parent.is_none()) {
        let (row, now) = match run::row_state(connection, id)? {
            // It may have gone on since it was told.
            Some((head, state)) if head >= run.head => (Some(state), Some(state)),
            Some((_, state)) => (Some(state), Some(run.state)),
            None => (None, event::is_there(connection, run.head)?.then_some(run.state)),
        };
        move_count(&mut counts, &run.flow, (id, since), row, now);
    }
    Ok(counts)
}

/// As the column `rests` keeps it.
pub(crate) fn bits(rests: Attention) -> i64 {
    i64::from(rests.error) | (i64::from(rests.held) << 1)
}
