//! Ordering a bulk action: what is selected is found page by page, between batches, and frozen as a list.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use unstuck_core::bulk::{Bulk, BulkAction, Pace, Target, TargetResult};
use unstuck_core::decide::{Answer, check_words};
use unstuck_core::errors::OpenError;
use unstuck_core::event::Actor;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_store::contract::{Filter, OpenFilter, Store, StoreError};

use crate::bulk::{BulkDeed, BulkPut};
use crate::request::EngineError;
use crate::runtime::Handle;

/// So much is read or put between two batches.
const PAGE: usize = 1_000;
/// So many targets does a plan show.
const SHOWN: usize = 100;

/// An order for many runs.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkOrder {
    /// What is done.
    pub action: BulkAction,
    /// To what.
    pub selection: Selection,
    /// What was selected, in the words of whoever selected it.
    pub words: Arc<str>,
    /// At most so many targets, the first of them.
    pub max: Option<u64>,
    /// How fast.
    pub pace: Pace,
    /// Who orders it.
    pub by: Actor,
    /// In their words.
    pub reason: Option<Arc<str>>,
}

/// What is selected.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// These runs: whatever is in error in them, or they themselves where they are cancelled.
    Runs(Vec<RunId>),
    /// Open errors of this kind, or the runs that somebody started and that have them, where they are cancelled.
    Errors {
        /// Which errors.
        filter: OpenFilter,
        /// Only of runs that are in this state themselves: a run that goes on beside an error is running.
        state: Option<RunState>,
        /// Which of them.
        which: Which,
    },
    /// Runs that are not final, and nobody's children, of this flow and in this state: to be cancelled.
    Open {
        /// Of this flow.
        flow: Option<Arc<str>>,
        /// In this state.
        state: Option<RunState>,
    },
}

/// Which open errors are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// Those that somebody has acknowledged, too.
    pub acknowledged: bool,
    /// Only those that no policy resumes, so that a person must.
    pub needs_person: bool,
}

/// What an order would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkPlan {
    /// How many targets there are.
    pub total: u64,
    /// The first of them.
    pub first: Vec<(RunId, Option<UnitRef>)>,
}

impl Handle {
    /// What an order would do now. Nothing is changed.
    pub fn plan_bulk(&self, order: &BulkOrder) -> Result<BulkPlan, EngineError> {
        check_words(&order.by, order.reason.as_deref())?;
        let mut found = self.select(order)?;
        let total = found.len() as u64;
        found.truncate(SHOWN);
        Ok(BulkPlan { total, first: found })
    }

    /// Begins a bulk action, durable on return; `None` where nothing is selected.
    pub fn start_bulk(&self, order: BulkOrder) -> Result<Option<Bulk>, EngineError> {
        check_words(&order.by, order.reason.as_deref())?;
        let found = self.select(&order)?;
        if found.is_empty() {
            return Ok(None);
        }
        let (sender, receiver) = sync_channel(1);
        self.put_bulk(BulkPut::Id(sender));
        let (id, now) = receiver.recv().map_err(|_| EngineError::Stopped)?;
        let total = found.len() as u64;
        let mut targets = (0..).zip(found).map(|(place, (run, unit))| {
            let result = TargetResult::Pending;
            Target { place, run, unit, result }
        });
        loop {
            let part: Vec<Target> = targets.by_ref().take(PAGE).collect();
            if part.is_empty() {
                break;
            }
            self.put(|reply| BulkPut::Targets(id, part, reply))?;
        }
        let BulkOrder { action, words, pace, by, reason, .. } = order;
        let bulk = Bulk::new(id, action, (by, reason), words, pace, total, now);
        self.put(|reply| BulkPut::Begin(Box::new(bulk.clone()), reply))?;
        Ok(Some(bulk))
    }

    /// Pauses a bulk action, lets it go on, or cancels what is left of it.
    pub fn change_bulk(&self, bulk: BulkId, deed: BulkDeed) -> Result<Answer, EngineError> {
        let known = self.read(move |store, _| store.bulk(bulk))??;
        let Some(mut known) = known else {
            return Err(EngineError::BadBulk(format!("there is no bulk action {bulk}")));
        };
        if known.is_over() {
            let at = known.credited_at;
            return deed.apply(&mut known, at);
        }
        self.ask_bulk(bulk, deed)
    }

    fn put(
        &self,
        part: impl FnOnce(SyncSender<Result<(), EngineError>>) -> BulkPut,
    ) -> Result<(), EngineError> {
        let (sender, receiver) = sync_channel(1);
        self.put_bulk(part(sender));
        receiver.recv().unwrap_or(Err(EngineError::Stopped))
    }

    /// What is selected now, in the order in which it will be acted on.
    fn select(&self, order: &BulkOrder) -> Result<Vec<(RunId, Option<UnitRef>)>, EngineError> {
        let mut found = self.select_all(order)?;
        let max = order.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        found.truncate(max);
        Ok(found)
    }

    fn select_all(&self, order: &BulkOrder) -> Result<Vec<(RunId, Option<UnitRef>)>, EngineError> {
        match (&order.action, &order.selection) {
            (BulkAction::Cancel, Selection::Runs(runs)) => {
                Ok(each_once(runs).into_iter().map(|run| (run, None)).collect())
            }
            (BulkAction::Cancel, Selection::Open { flow, state }) => self.select_runs(flow.as_ref(), *state),
            (BulkAction::Cancel, Selection::Errors { filter, state, which }) => {
                let errors = self.select_errors(filter, *state, *which)?;
                let runs: Vec<RunId> = errors.into_iter().map(|(run, _)| run).collect();
                let roots = self.read(move |store, _| roots(store, &runs))??;
                Ok(each_once(&roots).into_iter().map(|run| (run, None)).collect())
            }
            (BulkAction::Resume { .. } | BulkAction::Acknowledge, Selection::Open { .. }) => {
                Err(EngineError::BadBulk(
                    "what is resumed or acknowledged is selected by its errors, not as runs".to_owned(),
                ))
            }
            (
                BulkAction::Resume { .. } | BulkAction::Acknowledge,
                Selection::Errors { filter, state, which },
            ) => self.select_errors(filter, *state, *which),
            (BulkAction::Resume { .. } | BulkAction::Acknowledge, Selection::Runs(runs)) => {
                self.select_errors_of(&each_once(runs))
            }
        }
    }

    fn select_errors(
        &self,
        filter: &OpenFilter,
        state: Option<RunState>,
        which: Which,
    ) -> Result<Vec<(RunId, Option<UnitRef>)>, EngineError> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let filter = filter.clone();
            let (page, last, is_end) =
                self.read(move |store, _| page_of_errors(store, &filter, (state, which), after))??;
            after = last;
            found.extend(page);
            if is_end {
                return Ok(found);
            }
        }
    }

    /// All that is in error in these runs; one with nothing in error is a target all the same, and will be told so.
    fn select_errors_of(&self, runs: &[RunId]) -> Result<Vec<(RunId, Option<UnitRef>)>, EngineError> {
        let mut found = Vec::new();
        for page in runs.chunks(PAGE) {
            let page = page.to_vec();
            let errors = move |store: &mut dyn Store| -> Result<Vec<_>, StoreError> {
                let mut found = Vec::new();
                for run in page {
                    let filter = OpenFilter { run: Some(run), ..OpenFilter::default() };
                    let errors = store.open_errors(&filter, None, usize::MAX)?;
                    if errors.is_empty() {
                        found.push((run, None));
                    }
                    found.extend(errors.iter().map(|error| (run, Some(error.record.unit))));
                }
                Ok(found)
            };
            found.extend(self.read(move |store, _| errors(store))??);
        }
        Ok(found)
    }

    fn select_runs(
        &self,
        flow: Option<&Arc<str>>,
        state: Option<RunState>,
    ) -> Result<Vec<(RunId, Option<UnitRef>)>, EngineError> {
        let states = state.into_iter().collect();
        let filter = Filter { states, flow: flow.cloned(), roots_only: true, ..Filter::default() };
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let filter = filter.clone();
            let page: Vec<Run> = self.read(move |store, _| store.list(&filter, before, PAGE))??;
            before = page.last().map(|run| run.id);
            found.extend(page.iter().filter(|run| !run.is_final()).map(|run| (run.id, None)));
            if page.len() < PAGE {
                found.reverse();
                return Ok(found);
            }
        }
    }
}

/// Targets, the place of the last error that was looked at, and whether there is no more.
type Page = (Vec<(RunId, Option<UnitRef>)>, Option<(RunId, UnitRef)>, bool);

fn page_of_errors(
    store: &mut dyn Store,
    filter: &OpenFilter,
    (state, which): (Option<RunState>, Which),
    after: Option<(RunId, UnitRef)>,
) -> Result<Page, StoreError> {
    let page = store.open_errors(filter, after, PAGE)?;
    let last = page.last().map(|error| (error.record.run, error.record.unit));
    let mut found = Vec::new();
    let is_one = |error: &&OpenError| {
        (which.acknowledged || !error.acknowledged) && !(which.needs_person && error.resume.is_some())
    };
    for error in page.iter().filter(is_one) {
        let run = error.record.run;
        let is_wanted = match state {
            None => true,
            Some(wanted) => store.run(run)?.is_some_and(|run| run.has_state(wanted)),
        };
        if is_wanted {
            found.push((run, Some(error.record.unit)));
        }
    }
    Ok((found, last, page.len() < PAGE))
}

/// The runs that somebody started, of these or of their children.
fn roots(store: &mut dyn Store, runs: &[RunId]) -> Result<Vec<RunId>, StoreError> {
    let mut roots = Vec::new();
    for run in runs {
        let mut root = *run;
        while let Some(parent) = store.run(root)?.and_then(|run| run.origin.parent()) {
            root = parent;
        }
        roots.push(root);
    }
    Ok(roots)
}

/// Without those that come again.
fn each_once(runs: &[RunId]) -> Vec<RunId> {
    let mut seen = HashSet::new();
    runs.iter().copied().filter(|run| seen.insert(*run)).collect()
}
