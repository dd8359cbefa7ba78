//! Lists of runs: those whose rows are behind, and those that have a row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Attention, Run, RunState};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_store::contract::{OpenRuns, RunCounts, RunFilter, Store, StoreError};

use crate::candidates::Candidates;
use crate::hot_runs::Residency;
use crate::overlay::{FreshRun, Told};
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

/// So many candidates are found at once, at most.
const MAX_PAGE: usize = 1_000;

impl SqliteStore {
    /// Lists runs that fit, newest first: those in memory merged with rows of those that are not.
    pub(crate) fn list_runs(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        let mut hot: Vec<RunId> = Vec::new();
        let mut parents = Vec::new();
        for (id, entry) in self.state.hot.iter() {
            let Residency::Here(run) = &entry.run else { return Err(conflict(*id, "is locked")) };
            parents.extend(filter.root.map(|_| (*id, run.origin.parent())));
            if before.is_none_or(|before| *id < before) && filter.matches(run, &entry.flow) {
                hot.push(*id);
            }
        }
        let search = Search::new(&self.reader, filter, parents.into_iter())?;
        hot.retain(|run| search.is_below(*run));
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
        let candidates = search.find_candidates(reader, before)?;
        for_each_candidate(reader, candidates, limit, &mut Budget::new(usize::MAX), |id| {
            if memory.get(id).is_some() {
                return Ok(Looked::Elsewhere);
            }
            match search.load_row(reader, id)? {
                Some(row) => {
                    found.push(run_snapshot::load_run_at(reader, row.id, row.head)?.run);
                    Ok(Looked::Fits)
                }
                None => Ok(Looked::DoesNotFit),
            }
        })?;
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

/// What was found when a candidate was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It is looked for in another way, and costs nothing here.
    Elsewhere,
    DoesNotFit,
    Fits,
}

/// Looks at candidates, the newest first, until `limit` fit or the budget has come to its end. In the latter case it returns
/// the last one that was looked at.
pub(crate) fn for_each_candidate(
    connection: &Connection,
    mut candidates: Candidates,
    limit: usize,
    budget: &mut Budget,
    mut look: impl FnMut(RunId) -> Result<Looked, StoreError>,
) -> Result<Option<RunId>, StoreError> {
    let mut left = limit;
    let mut wanted = limit.saturating_add(SLACK);
    loop {
        wanted = wanted.min(MAX_PAGE);
        let page = candidates.next_page(connection, wanted)?;
        let is_end = page.len() < wanted;
        wanted *= 2;
        for id in page {
            if left == 0 {
                return Ok(None);
            }
            match look(id)? {
                Looked::Elsewhere => {}
                Looked::Fits => left -= 1,
                Looked::DoesNotFit if budget.spend(1) => {}
                Looked::DoesNotFit => return Ok(Some(id)),
            }
        }
        if is_end || left == 0 {
            return Ok(None);
        }
    }
}

/// How many candidates that do not fit may still be looked at; those that do fit are as many as are wanted, at most.
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new(candidates: usize) -> Budget {
        Budget(candidates)
    }

    /// Takes what something costs; returns whether anything is left.
    pub(crate) fn spend(&mut self, cost: usize) -> bool {
        self.0 = self.0.saturating_sub(cost);
        self.0 > 0
    }
}

/// What is looked for.
pub(crate) struct Search<'a> {
    pub(crate) filter: &'a RunFilter,
    /// The same without the key, for rows: whoever has a key was found by it.
    keyless: RunFilter,
    /// The runs below the root that the filter names.
    pub(crate) below: Option<BTreeSet<RunId>>,
}

impl<'a> Search<'a> {
    /// `unwritten` are runs that may not have a row, each with its parent.
    pub(crate) fn new(
        connection: &Connection,
        filter: &'a RunFilter,
        unwritten: impl Iterator<Item = (RunId, Option<RunId>)>,
    ) -> Result<Search<'a>, StoreError> {
        let below = match filter.root {
            Some(root) => Some(find_descendants(connection, root, unwritten)?),
            None => None,
        };
        Ok(Search { filter, keyless: RunFilter { key: None, ..filter.clone() }, below })
    }

    /// Chooses where to look for runs before this one.
    pub(crate) fn find_candidates(
        &self,
        connection: &Connection,
        before: Option<RunId>,
    ) -> Result<Candidates, StoreError> {
        Candidates::for_filter(connection, self.filter, before, self.below.as_ref())
    }

    /// Returns whether a run is below the wanted root; true if none is wanted.
    pub(crate) fn is_below(&self, run: RunId) -> bool {
        self.below.as_ref().is_none_or(|below| below.contains(&run))
    }

    /// Loads the row of a run, if it has one that fits.
    pub(crate) fn load_row(
        &self,
        connection: &Connection,
        id: RunId,
    ) -> Result<Option<ListedRow>, StoreError> {
        match run::load_listed_row(connection, id)? {
            Some(row) if self.is_below(id) && self.row_matches(connection, &row)? => Ok(Some(row)),
            Some(_) | None => Ok(None),
        }
    }

    /// Tests a row against the filter. A row from before a filtered column existed does not say enough, and the run is
    /// loaded.
    fn row_matches(&self, connection: &Connection, row: &ListedRow) -> Result<bool, StoreError> {
        let accepted = match row.filtered() {
            Some(known) => {
                self.keyless.accepts(&known)
                    && (!self.filter.needs_summary()
                        || self.filter.accepts_summary(&load_summary(connection, row)?))
            }
            None => {
                self.filter.matches(&run_snapshot::load_run_at(connection, row.id, row.head)?.run, &row.flow)
            }
        };
        Ok(accepted && error::has_error(connection, self.filter, row.id)?)
    }
}

/// Finds all runs below a root, level by level, by the index of parents.
fn find_descendants(
    connection: &Connection,
    root: RunId,
    unwritten: impl Iterator<Item = (RunId, Option<RunId>)>,
) -> Result<BTreeSet<RunId>, StoreError> {
    let mut children: BTreeMap<RunId, Vec<RunId>> = BTreeMap::new();
    for (run, parent) in unwritten {
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(run);
        }
    }
    let mut below = BTreeSet::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        let mut found = children.remove(&parent).unwrap_or_default();
        found.extend(run::list_children(connection, parent)?);
        next.extend(found.into_iter().filter(|child| below.insert(*child)));
    }
    Ok(below)
}

/// Builds the summary from the row, or from the loaded run if the row is from before summaries were stored.
pub(crate) fn load_summary(connection: &Connection, row: &ListedRow) -> Result<RunSummary, StoreError> {
    match row.summary()? {
        Some(summary) => Ok(summary),
        None => Ok(RunSummary::of(&run_snapshot::load_run_at(connection, row.id, row.head)?.run)),
    }
}

/// Loads the summary of a run whose row is behind, if it fits.
pub(crate) fn load_fresh_summary(
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
