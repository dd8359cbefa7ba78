//! What is durable and newer than the rows of runs, for readers: published when a stage settles.
//!
//! The row of a run that something happens to is behind the log. Which of its events is its last one, and what lists look
//! at, is here until its row is written again. A reader takes a view first and begins to read the file then: whatever the
//! view names is in the file, and a row that is newer than the view says so by its head.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Attention, Run, RunState, Slot};
use unstuck_core::time::Time;
use unstuck_store::contract::{Filtered, SetAside, StoreError, Watchers};

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
        }
    }

    /// Returns the fields that filters test. The key is missing: it is found by its own table.
    pub(crate) fn filtered(&self, id: RunId) -> Filtered<'_> {
        Filtered {
            id,
            flow: &self.flow,
            version: self.version,
            key: None,
            state: self.state,
            attention: self.attention,
            parent: self.parent,
        }
    }
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
