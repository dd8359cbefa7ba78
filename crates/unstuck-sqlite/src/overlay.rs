//! What is durable and newer than the rows of runs, for readers: published when a stage settles.
//!
//! The row of a run that something happens to is behind the log. Which of its events is its last one, and what lists look
//! at, is here until its row is written again. A reader takes a view first and begins to read the file then: whatever the
//! view names is in the file, and a row that is newer than the view says so by its head.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::labels::Labels;
use unstuck_core::model::run::{Attention, Run, RunState, Slot};
use unstuck_core::model::unit::{Items, StepRun, Unit, UnitCounts, UnitState};
use unstuck_core::policy::PolicyRef;
use unstuck_core::summary::worker_of;
use unstuck_core::time::Time;
use unstuck_store::contract::{Filtered, RunFilter, SetAside, StepMark, StoreError, Watchers};

use crate::hot_runs::HotRun;

/// A run whose row is behind.
#[derive(Clone, Debug)]
pub(crate) struct FreshRun {
    /// The position of its last event.
    pub(crate) head: u64,
    /// The name of its flow, and its version.
    pub(crate) flow: Arc<str>,
    pub(crate) version: FlowId,
    pub(crate) state: RunState,
    pub(crate) attention: Attention,
    pub(crate) parent: Option<RunId>,
    /// The state that its row says, if it has one.
    pub(crate) row: Option<RunState>,
    /// When something is due in it.
    pub(crate) due: Option<Time>,
    /// The limit that it has a slot of.
    pub(crate) slot: Option<Arc<str>>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) labels: Option<Arc<Labels>>,
    pub(crate) updated_at: Time,
    pub(crate) open: OpenHints,
}

impl FreshRun {
    /// A run as it is now.
    pub(crate) fn of(run: &Run, hot: &HotRun, due: Option<Time>) -> FreshRun {
        FreshRun {
            head: hot.head,
            flow: hot.flow.clone(),
            row: hot.row,
            version: run.flow,
            state: run.state(),
            attention: run.attention(),
            parent: run.origin.parent(),
            due,
            slot: match &run.slot {
                Slot::Taken(limit) => Some(limit.name.clone()),
                Slot::Unlimited | Slot::Wanted(_) => None,
            },
            key: run.key.clone(),
            labels: run.labels.clone(),
            updated_at: run.updated_at,
            open: OpenHints::of(run),
        }
    }

    /// Returns whether the run may fit a filter; one that does fit always may.
    pub(crate) fn may_match(&self, id: RunId, filter: &RunFilter) -> bool {
        filter.accepts(&self.filtered(id))
            && filter.accepts_key(self.key.as_deref())
            && filter.labels.iter().all(|label| label.accepts(self.labels.as_deref(), self.version))
            && filter.accepts_time(self.updated_at)
            && self.open.may_match(self.version, filter)
    }

    /// Returns the fields that filters test.
    pub(crate) fn filtered(&self, id: RunId) -> Filtered<'_> {
        Filtered {
            id,
            flow: &self.flow,
            version: self.version,
            key: self.key.as_deref(),
            state: self.state,
            attention: self.attention,
            parent: self.parent,
        }
    }
}

/// What is open in a run, as far as it is known without a visit to every item of a fan-out.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenHints {
    /// One bit for each step that may have an open attempt; steps share bits if there are more than 64.
    steps: u64,
    worker: Hint<Arc<str>>,
    /// When a policy resumes something next.
    pub(crate) resume: Hint<(Time, PolicyRef)>,
    may_be_acknowledged: bool,
}

/// Something that is known only in part.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Hint<T> {
    #[default]
    None,
    One(T),
    /// The run itself must be read.
    Unknown,
}

impl<T> Hint<T> {
    /// Returns whether it may be something that `fits`.
    fn may_be(&self, fits: impl Fn(&T) -> bool) -> bool {
        match self {
            Hint::None => false,
            Hint::One(one) => fits(one),
            Hint::Unknown => true,
        }
    }
}

impl OpenHints {
    fn of(run: &Run) -> OpenHints {
        let mut hints = OpenHints::default();
        if run.is_final() {
            return hints;
        }
        for (place, step) in run.steps.iter().enumerate() {
            match step {
                StepRun::Single(unit) => hints.add_unit(place, unit),
                StepRun::Items(items) => hints.add_items(place, items),
            }
        }
        hints
    }

    fn add_unit(&mut self, place: usize, unit: &Unit) {
        match &unit.state {
            UnitState::Ready(_) => self.steps |= bit_of(place),
            UnitState::Active(_) => {
                self.steps |= bit_of(place);
                if let Some(worker) = worker_of(unit) {
                    let is_first = self.worker == Hint::None;
                    self.worker = if is_first { Hint::One(worker.clone()) } else { Hint::Unknown };
                }
            }
            UnitState::Error { resume, acknowledged, .. } => {
                self.steps |= bit_of(place);
                self.may_be_acknowledged |= acknowledged.is_some();
                if let Some(resume) = resume
                    && self.resume.may_be_later_than(resume.due)
                {
                    self.resume = Hint::One((resume.due, resume.policy.clone()));
                }
            }
            UnitState::Pending
            | UnitState::Waiting(_)
            | UnitState::Held { .. }
            | UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => {}
        }
    }

    /// A fan-out counts its items, so that nobody visits them here.
    fn add_items(&mut self, place: usize, items: &Items) {
        let UnitCounts { ready, running, held, error, waiting } = items.tally;
        if ready + running + held + error + waiting + items.in_motion > 0 {
            self.steps |= bit_of(place);
        }
        if running > 0 {
            self.worker = Hint::Unknown;
        }
        if error > 0 {
            self.resume = Hint::Unknown;
            self.may_be_acknowledged = true;
        }
    }

    fn may_match(&self, version: FlowId, filter: &RunFilter) -> bool {
        let is_open = |(flow, step): &(FlowId, StepIndex)| {
            *flow == version && self.steps & bit_of(usize::from(step.0)) != 0
        };
        let is_marked = |mark: &StepMark| match mark {
            // What the filter has tested already.
            StepMark::Error | StepMark::Held => true,
            StepMark::Acknowledged => self.may_be_acknowledged,
            StepMark::Scheduled => self.resume.may_be(|_| true),
        };
        let is_wanted = |(_, policy): &(Time, PolicyRef)| {
            filter.policies.iter().any(|wanted| *wanted == policy.name || *wanted == policy.id)
        };
        filter.steps.as_ref().is_none_or(|steps| steps.iter().any(is_open))
            && (filter.workers.is_empty() || self.worker.may_be(|worker| filter.workers.contains(worker)))
            && (filter.has.is_empty() || filter.has.iter().any(is_marked))
            && (filter.policies.is_empty() || self.resume.may_be(is_wanted))
    }
}

impl Hint<(Time, PolicyRef)> {
    /// Returns whether a resume at this time comes first, as far as is known.
    fn may_be_later_than(&self, due: Time) -> bool {
        match self {
            Hint::None => true,
            Hint::One((first, _)) => due < *first,
            Hint::Unknown => false,
        }
    }
}

/// Returns the bit of a step.
fn bit_of(place: usize) -> u64 {
    1 << (place % 64)
}

/// A run whose row is behind from then on, or no more.
pub(crate) type OverlayChange = (RunId, Option<FreshRun>);

/// What a stage changes.
pub(crate) type OverlayChanges = Vec<OverlayChange>;

/// Runs are spread over so many parts, each of which is copied when it changes while somebody reads it.
const PARTS: usize = 512;

/// All runs whose rows are behind, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct FreshRuns(Arc<Vec<Arc<FxHashMap<RunId, FreshRun>>>>);

impl Default for FreshRuns {
    fn default() -> FreshRuns {
        FreshRuns(Arc::new(vec![Arc::default(); PARTS]))
    }
}

impl FreshRuns {
    pub(crate) fn get(&self, run: RunId) -> Option<&FreshRun> {
        self.0[part_of(run)].get(&run)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RunId, &FreshRun)> {
        self.0.iter().flat_map(|part| part.iter().map(|(id, run)| (*id, run)))
    }

    /// Applies changes copy-on-write: a part that a reader still holds is copied, the others are changed in place.
    fn apply(&mut self, changes: impl IntoIterator<Item = OverlayChange>) {
        let parts = Arc::make_mut(&mut self.0);
        for (run, fresh) in changes {
            let part = Arc::make_mut(&mut parts[part_of(run)]);
            match fresh {
                Some(fresh) => part.insert(run, fresh),
                None => part.remove(&run),
            };
        }
    }
}

/// Spreads ids over parts by multiplicative hashing: the low bits of ids are nearly all the same.
fn part_of(run: RunId) -> usize {
    (run.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize
}

/// What the store tells its readers.
#[derive(Debug, Default)]
pub(crate) struct Published {
    told: Mutex<AllTold>,
    pub(crate) watchers: Watchers,
}

/// What is durable at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) fresh: FreshRuns,
    /// The last stage of it.
    pub(crate) stage: u64,
}

#[derive(Debug, Default)]
struct AllTold {
    now: Told,
    aside: BTreeMap<RunId, SetAside>,
    /// Why nothing is said any more.
    broken: Option<StoreError>,
}

impl Published {
    /// Locks what is published. A panic of another thread does not make it wrong, so poisoning is ignored.
    fn told(&self) -> MutexGuard<'_, AllTold> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the changes of durable stages up to `stage`, in order, and wakes those who watch.
    pub(crate) fn publish<C: IntoIterator<Item = OverlayChange>>(
        &self,
        stage: u64,
        changes: impl IntoIterator<Item = C>,
    ) {
        let mut told = self.told();
        for changes in changes {
            told.now.fresh.apply(changes);
        }
        told.now.stage = stage;
        drop(told);
        self.watchers.tell();
    }

    /// Publishes that a run is set aside, or is not any more: known to this process only, so not in the file.
    pub(crate) fn set_aside(&self, run: RunId, aside: Option<SetAside>) {
        let mut told = self.told();
        match aside {
            Some(aside) => told.aside.insert(run, aside),
            None => told.aside.remove(&run),
        };
    }

    /// Fails every read from now on with the error that stopped the store.
    pub(crate) fn stop(&self, error: &StoreError) {
        self.told().broken.get_or_insert_with(|| error.clone());
    }

    /// Returns what is published, as one consistent copy.
    pub(crate) fn now(&self) -> Result<Told, StoreError> {
        let told = self.told();
        told.broken.clone().map_or_else(|| Ok(told.now.clone()), Err)
    }

    /// Returns the runs whose rows are behind.
    pub(crate) fn fresh(&self) -> Result<FreshRuns, StoreError> {
        self.now().map(|now| now.fresh)
    }

    /// Returns the position of a run's last event, if its row is behind.
    pub(crate) fn head(&self, run: RunId) -> Result<Option<u64>, StoreError> {
        let told = self.told();
        let head = told.now.fresh.get(run).map(|fresh| fresh.head);
        told.broken.clone().map_or(Ok(head), Err)
    }

    /// Fails if the store has stopped.
    pub(crate) fn check_usable(&self) -> Result<(), StoreError> {
        self.told().broken.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn set_aside_record(&self, run: RunId) -> Option<SetAside> {
        self.told().aside.get(&run).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(head: u64) -> FreshRun {
        FreshRun {
            head,
            flow: "f".into(),
            version: FlowId(1),
            state: RunState::Running,
            attention: Attention::default(),
            parent: None,
            row: None,
            due: None,
            slot: None,
            key: None,
            labels: None,
            updated_at: Time(0),
            open: OpenHints::default(),
        }
    }

    #[test]
    fn a_view_stays_as_it_was_taken() {
        let published = Published::default();
        let ids: Vec<RunId> = (1..2_000).map(|id| RunId(id << 12)).collect();
        published.publish(1, [ids.iter().map(|id| (*id, Some(fresh(1))))]);
        let view = published.fresh().expect("usable");
        let half = ids.iter().step_by(2).map(|id| (*id, None)).collect();
        published.publish(2, [half, vec![(ids[1], Some(fresh(7)))]]);
        assert_eq!(view.iter().count(), ids.len());
        assert!(ids.iter().all(|id| view.get(*id).is_some_and(|run| run.head == 1)));
        let next = published.fresh().expect("usable");
        assert_eq!(next.iter().count(), ids.len() / 2);
        assert_eq!(published.head(ids[0]), Ok(None));
        assert_eq!(published.head(ids[1]), Ok(Some(7)));
        published.stop(&StoreError::Broken("the disk failed".into()));
        assert!(published.fresh().is_err() && published.head(ids[1]).is_err());
    }
}
