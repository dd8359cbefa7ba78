//! Durable apart from visible: stages that are seen but would not survive a crash, and how they settle or fail.

use std::collections::{BTreeMap, VecDeque};

use crate::contract::{Settled, Stage, StageId, StoreError};
use crate::memory::state::LockedByBatch;
use crate::memory::{HandleState, MemoryStore};

/// What waits to be durable.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    outstanding: VecDeque<Outstanding>,
}

/// A stage that is not durable yet.
#[derive(Debug)]
struct Outstanding {
    id: StageId,
    stage: Stage,
    last_notice: u64,
    /// Who staged it.
    by: usize,
}

impl MemoryStore {
    /// How many stages are neither durable nor failed.
    pub fn outstanding(&self) -> usize {
        self.deferred.as_ref().map_or(0, |deferred| deferred.outstanding.len())
    }

    /// The oldest `n` outstanding stages become durable.
    pub fn make_durable(&mut self, n: usize) {
        let (Some(deferred), Some(durable)) = (&mut self.deferred, &self.durable) else { return };
        for _ in 0..n {
            let Some(Outstanding { id, stage, last_notice, by }) = deferred.outstanding.pop_front() else {
                return;
            };
            let interrupts = stage.interrupts.clone();
            let result = durable.add_stage(stage, last_notice);
            self.sessions.interrupt(interrupts);
            let settled = Settled { stage: id, result };
            settled_of(&mut self.settled, self.current, &mut self.others, by).push(settled);
        }
    }

    /// The oldest outstanding stage fails, and all that were staged on top of it: the store shows what is durable.
    /// Gives how many failed.
    pub fn fail_next(&mut self, error: &StoreError) -> usize {
        let (Some(deferred), Some(durable)) = (&mut self.deferred, &self.durable) else { return 0 };
        let failed = deferred.outstanding.len();
        if failed == 0 {
            return 0;
        }
        for Outstanding { id, by, .. } in deferred.outstanding.drain(..) {
            let settled = Settled { stage: id, result: Err(error.clone()) };
            settled_of(&mut self.settled, self.current, &mut self.others, by).push(settled);
        }
        self.state = durable.state().clone();
        self.versions.downtimes += 1;
        let others = self.others.values_mut().map(|other| &mut other.batches);
        for batches in others.chain([&mut self.batches]) {
            for batch in batches.values_mut() {
                batch.fail(error);
            }
        }
        self.aside.keys().for_each(|run| self.state.set_aside(*run));
        failed
    }

    /// The store as it is found after the process died at this moment: what was not durable is gone, nobody has
    /// locked anything, turns begin again.
    #[must_use]
    pub fn crash(mut self) -> MemoryStore {
        if let (Some(deferred), Some(durable)) = (&mut self.deferred, &self.durable) {
            deferred.outstanding.clear();
            self.state = durable.state().clone();
        }
        if let Some(durable) = &self.durable {
            durable.clear_aside();
        }
        let others = self.others.into_values().map(|other| other.batches);
        let batches = others.chain([std::mem::take(&mut self.batches)]);
        let locked = batches.flat_map(BTreeMap::into_values).flat_map(|batch| batch.locked.runs).collect();
        let broken = self.state.take_back(LockedByBatch { runs: locked, things: Vec::new() }).err();
        self.state.ready.forget_turns();
        self.state.things.unlock_all();
        MemoryStore {
            last_stage: self.last_stage,
            last_notice: self.last_notice,
            sessions: self.sessions,
            alive: self.alive,
            broken,
            versions: self.versions,
            last_batch: self.last_batch,
            lanes: self.lanes,
            ..MemoryStore::with(self.state, self.durable, self.deferred)
        }
    }
}

/// Where the one who staged something is told what came of it.
fn settled_of<'a>(
    current: &'a mut Vec<Settled>,
    is_current: usize,
    others: &'a mut BTreeMap<usize, HandleState>,
    by: usize,
) -> &'a mut Vec<Settled> {
    match others.get_mut(&by) {
        Some(other) if by != is_current => &mut other.settled,
        // Whoever has let go of the store is not there to be told: what it had staged is the next one's to hear of.
        Some(_) | None => current,
    }
}

impl Deferred {
    pub(super) fn add_outstanding(&mut self, id: StageId, stage: Stage, last_notice: u64, by: usize) {
        self.outstanding.push_back(Outstanding { id, stage, last_notice, by });
    }
}
