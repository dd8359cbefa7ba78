//! Pages of runs as readers see them: each looks at a bounded number of runs, and tells where the list goes on.
//!
//! `fresh` was taken before the snapshot of the file, so the file has at least the events that it names.

use std::cmp::Reverse;

use rusqlite::Connection;
use unstuck_core::id::RunId;
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_store::contract::{RunFilter, RunPage, RunPlace, RunSort, StoreError, next_resume_of};

use crate::list_runs::{Budget, Looked, Search, for_each_candidate, load_fresh_summary, load_summary};
use crate::overlay::{FreshRun, FreshRuns, Hint};
use crate::table::event;
use crate::table::wake;

/// A run whose row is behind is read from its history: so many rows are read in that time.
const FRESH_COST: usize = 8;

/// So many events or timers are read at once.
const STRIDE: usize = 256;

/// A page that is looked for.
pub(crate) struct PageSearch<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) fresh: &'a FreshRuns,
    pub(crate) filter: &'a RunFilter,
    pub(crate) limit: usize,
    /// So many candidates that do not fit are looked at, at most.
    pub(crate) max_candidates: usize,
}

impl PageSearch<'_> {
    /// Finds a page in this order, after this place.
    pub(crate) fn find(&self, sort: RunSort, after: Option<RunPlace>) -> Result<RunPage, StoreError> {
        let parents = self.fresh.iter().map(|(id, run)| (id, run.parent));
        let search = Search::new(self.connection, self.filter, parents)?;
        match (sort, after) {
            (RunSort::Created, Some(RunPlace::Created(before))) => self.by_start(&search, Some(before)),
            (RunSort::Created, _) => self.by_start(&search, None),
            (RunSort::Updated, Some(RunPlace::Updated(before))) => self.by_update(&search, before),
            (RunSort::Updated, _) => self.by_update(&search, u64::MAX),
            (RunSort::NextResume, Some(RunPlace::NextResume(due, run))) => {
                self.by_resume(&search, Some((due, run)))
            }
            (RunSort::NextResume, _) => self.by_resume(&search, None),
        }
    }

    /// Finds the runs that were started last, among those whose rows are behind and among rows.
    fn by_start(&self, search: &Search<'_>, before: Option<RunId>) -> Result<RunPage, StoreError> {
        // One more tells whether there are more.
        let wanted = self.limit.saturating_add(1);
        let mut found = Vec::new();
        let candidates = search.find_candidates(self.connection, before)?;
        // Some indexes are always up to date: no other runs need to be looked at then.
        let are_all = candidates.have_fresh_runs;
        let fresh_end = if are_all { None } else { self.find_fresh(search, before, wanted, &mut found)? };
        let mut budget = Budget::new(self.max_candidates);
        let row_end = for_each_candidate(self.connection, candidates, wanted, &mut budget, |id| {
            let summary = match self.fresh.get(id) {
                Some(_) if !are_all => return Ok(Looked::Elsewhere),
                Some(run) => self.load_fresh(search, id, run)?,
                None => self.load_row(search, id)?.map(|(_, run)| run),
            };
            let looked = if summary.is_some() { Looked::Fits } else { Looked::DoesNotFit };
            found.extend(summary);
            Ok(looked)
        })?;
        // Whatever is older than the place at which either search has ended was not looked for in both.
        let end = fresh_end.max(row_end);
        found.retain(|run| end.is_none_or(|end| run.id >= end));
        found.sort_unstable_by_key(|run| Reverse(run.id));
        let next = if found.len() > self.limit {
            found.truncate(self.limit);
            found.last().map(|run| run.id).or(before)
        } else {
            end
        };
        Ok(RunPage { runs: found, next: next.map(RunPlace::Created) })
    }

    /// Adds the newest of the runs whose rows are behind, at most `wanted`. Returns the last that was looked at where the
    /// budget came to its end.
    fn find_fresh(
        &self,
        search: &Search<'_>,
        before: Option<RunId>,
        wanted: usize,
        found: &mut Vec<RunSummary>,
    ) -> Result<Option<RunId>, StoreError> {
        let mut budget = Budget::new(self.max_candidates);
        let is_candidate = |(id, run): &(RunId, &FreshRun)| {
            before.is_none_or(|before| *id < before) && self.may_match(search, *id, run)
        };
        let mut told: Vec<(RunId, &FreshRun)> = self.fresh.iter().filter(is_candidate).collect();
        told.sort_unstable_by_key(|(id, _)| Reverse(*id));
        for (id, run) in told {
            if found.len() >= wanted {
                break;
            }
            let summary = load_fresh_summary(self.connection, self.filter, id, run)?;
            if summary.is_none() && !budget.spend(FRESH_COST) {
                return Ok(Some(id));
            }
            found.extend(summary);
        }
        Ok(None)
    }

    /// Loads the summary of a run whose row is behind, if it fits.
    fn load_fresh(
        &self,
        search: &Search<'_>,
        id: RunId,
        run: &FreshRun,
    ) -> Result<Option<RunSummary>, StoreError> {
        if !self.may_match(search, id, run) {
            return Ok(None);
        }
        load_fresh_summary(self.connection, self.filter, id, run)
    }

    /// Loads the summary of a run by its row, if it fits, with the position of the last event that the row covers.
    fn load_row(&self, search: &Search<'_>, id: RunId) -> Result<Option<(u64, RunSummary)>, StoreError> {
        match search.load_row(self.connection, id)? {
            Some(row) => Ok(Some((row.head, load_summary(self.connection, &row)?))),
            None => Ok(None),
        }
    }

    fn may_match(&self, search: &Search<'_>, id: RunId, run: &FreshRun) -> bool {
        search.is_below(id) && run.may_match(id, self.filter)
    }

    /// Finds the runs whose last events became durable last: the log has all events in this order, so it is read from its
    /// end, and an event counts that is the last one of its run.
    fn by_update(&self, search: &Search<'_>, before: u64) -> Result<RunPage, StoreError> {
        let mut budget = Budget::new(self.max_candidates);
        let mut page = RunPage::default();
        let mut end = before;
        loop {
            let events = event::list_events_before(self.connection, end, STRIDE)?;
            let is_end = events.len() < STRIDE;
            for (position, run) in events {
                if page.runs.len() >= self.limit {
                    page.next = Some(RunPlace::Updated(end));
                    return Ok(page);
                }
                end = position;
                let summary = self.load_if_last(search, position, run)?;
                if summary.is_none() && !budget.spend(1) {
                    page.next = Some(RunPlace::Updated(end));
                    return Ok(page);
                }
                page.runs.extend(summary);
            }
            if is_end {
                return Ok(page);
            }
        }
    }

    /// Loads the summary of a run that fits, if the event at this position is its last one.
    fn load_if_last(
        &self,
        search: &Search<'_>,
        position: u64,
        id: RunId,
    ) -> Result<Option<RunSummary>, StoreError> {
        match self.fresh.get(id) {
            Some(run) if run.head == position => self.load_fresh(search, id, run),
            Some(_) => Ok(None),
            None => {
                let row = self.load_row(search, id)?.filter(|(head, _)| *head == position);
                Ok(row.map(|(_, run)| run))
            }
        }
    }

    /// Finds the runs that a policy resumes first. Of rows, the timers are read in order: that of the next resume is one of
    /// them.
    fn by_resume(&self, search: &Search<'_>, after: Option<(Time, RunId)>) -> Result<RunPage, StoreError> {
        let wanted = self.limit.saturating_add(1);
        let mut found: Vec<((Time, RunId), RunSummary)> = Vec::new();
        let fresh_end = self.find_fresh_resumes(search, after, wanted, &mut found)?;
        let row_end = self.find_row_resumes(search, after, wanted, &mut found)?;
        let end = match (fresh_end, row_end) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        found.retain(|(place, _)| end.is_none_or(|end| *place <= end));
        found.sort_unstable_by_key(|(place, _)| *place);
        let next = if found.len() > self.limit {
            found.truncate(self.limit);
            found.last().map(|(place, _)| *place).or(after)
        } else {
            end
        };
        let next = next.map(|(due, run)| RunPlace::NextResume(due, run));
        Ok(RunPage { runs: found.into_iter().map(|(_, run)| run).collect(), next })
    }

    fn find_fresh_resumes(
        &self,
        search: &Search<'_>,
        after: Option<(Time, RunId)>,
        wanted: usize,
        found: &mut Vec<((Time, RunId), RunSummary)>,
    ) -> Result<Option<(Time, RunId)>, StoreError> {
        let mut budget = Budget::new(self.max_candidates);
        let mut told: Vec<(Time, RunId, &FreshRun)> = Vec::new();
        for (id, run) in self.fresh.iter().filter(|(id, run)| self.may_match(search, *id, run)) {
            match &run.open.resume {
                Hint::None => {}
                Hint::One((due, _)) if after.is_none_or(|after| (*due, id) > after) => {
                    told.push((*due, id, run));
                }
                Hint::One(_) => {}
                // Few runs have items in error: they are read to be put in their place.
                Hint::Unknown => {
                    let summary = load_fresh_summary(self.connection, self.filter, id, run)?;
                    found.extend(summary.and_then(|run| resume_of(run, after)));
                }
            }
        }
        told.sort_unstable_by_key(|(due, id, _)| (*due, *id));
        let mut count = 0;
        for (due, id, run) in told {
            if count >= wanted {
                break;
            }
            let summary = load_fresh_summary(self.connection, self.filter, id, run)?;
            let resume = summary.and_then(|run| resume_of(run, after));
            if resume.is_none() && !budget.spend(FRESH_COST) {
                return Ok(Some((due, id)));
            }
            count += usize::from(resume.is_some());
            found.extend(resume);
        }
        Ok(None)
    }

    fn find_row_resumes(
        &self,
        search: &Search<'_>,
        after: Option<(Time, RunId)>,
        wanted: usize,
        found: &mut Vec<((Time, RunId), RunSummary)>,
    ) -> Result<Option<(Time, RunId)>, StoreError> {
        let mut budget = Budget::new(self.max_candidates);
        let (mut last, mut count) = (after, 0);
        loop {
            let timers = wake::list_timers_after(self.connection, last, STRIDE)?;
            let is_end = timers.len() < STRIDE;
            for (due, id) in timers {
                if count >= wanted {
                    return Ok(None);
                }
                last = Some((due, id));
                let resume = if self.fresh.get(id).is_none() {
                    let summary = self.load_row(search, id)?.map(|(_, run)| run);
                    let resume = summary.and_then(|run| resume_of(run, after));
                    resume.filter(|(place, _)| *place == (due, id))
                } else {
                    None
                };
                if resume.is_none() && !budget.spend(1) {
                    return Ok(last);
                }
                count += usize::from(resume.is_some());
                found.extend(resume);
            }
            if is_end {
                return Ok(None);
            }
        }
    }
}

/// Returns a run with its place in the order of resumes, if it has one after this.
fn resume_of(run: RunSummary, after: Option<(Time, RunId)>) -> Option<((Time, RunId), RunSummary)> {
    let place = (next_resume_of(&run)?, run.id);
    after.is_none_or(|after| place > after).then_some((place, run))
}
