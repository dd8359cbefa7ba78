//! Durable apart from visible: stages that are seen but would not survive a crash, and how they settle or fail.

use std::collections::{BTreeMap, VecDeque};

use unstuck_core::bulk::{Bulk, Target};
use unstuck_core::id::{BulkId, RunId};

use crate::contract::{Settled, Stage, StageId, StoreError};
use crate::flows::Flows;
use crate::memory::MemoryStore;
use crate::memory::policies::Policies;
use crate::memory::sessions::Sessions;
use crate::memory::state::MemoryState;

/// What is durable, and what waits to be.
#[derive(Debug)]
pub(super) struct Deferred {
    durable: MemoryState,
    outstanding: VecDeque<Outstanding>,
}

/// A stage that is not durable yet.
#[derive(Debug)]
struct Outstanding {
    id: StageId,
    stage: Stage,
    last_notice: u64,
    /// Who staged it, and whether nobody is told what becomes of it.
    by: usize,
    is_unknown: bool,
}

impl MemoryStore {
    /// How many stages are neither durable nor failed.
    pub fn outstanding(&self) -> usize {
        self.deferred.as_ref().map_or(0, |deferred| deferred.outstanding.len())
    }

    /// The oldest `n` outstanding stages become durable.
    pub fn make_durable(&mut self, n: usize) {
        for _ in 0..n {
            let Some(deferred) = &mut self.deferred else { return };
            let Some(Outstanding { id, stage, last_notice, by, is_unknown }) =
                deferred.outstanding.pop_front()
            else {
                return;
            };
            let interrupts = stage.interrupts.clone();
            let result = deferred.durable.make_stage_durable(stage, last_notice);
            self.sessions.interrupt(interrupts);
            self.tell(by, is_unknown, Settled { stage: id, result });
        }
    }

    fn tell(&mut self, by: usize, is_unknown: bool, settled: Settled) {
        if is_unknown {
            self.unknown.push((by, settled));
        } else {
            self.settled_of(by).push(settled);
        }
    }

    /// Where the one who staged something is told what came of it.
    pub(super) fn settled_of(&mut self, by: usize) -> &mut Vec<Settled> {
        match self.others.get_mut(&by) {
            Some(other) if by != self.current => &mut other.settled,
            // Whoever has let go of the store is not there to be told: what it had staged is the next one's to hear of.
            Some(_) | None => &mut self.settled,
        }
    }

    /// The oldest outstanding stage fails, and all that were staged on top of it: the store shows what is durable.
    /// Gives how many failed.
    pub fn fail_next(&mut self, error: &StoreError) -> usize {
        let Some(deferred) = &mut self.deferred else { return 0 };
        let failed = std::mem::take(&mut deferred.outstanding);
        if failed.is_empty() {
            return 0;
        }
        let durable = deferred.durable.clone();
        let count = failed.len();
        for Outstanding { id, by, is_unknown, .. } in failed {
            self.tell(by, is_unknown, Settled { stage: id, result: Err(error.clone()) });
        }
        self.state = durable;
        self.versions.downtimes += 1;
        let others = self.others.values_mut().map(|other| &mut other.batches);
        for batches in others.chain([&mut self.batches]) {
            for batch in batches.values_mut() {
                batch.fail(error);
            }
        }
        self.aside.keys().for_each(|run| self.state.set_aside(*run));
        count
    }

    /// The store as it is found after the process died at this moment: what was not durable is gone, nobody has
    /// locked anything, turns begin again.
    #[must_use]
    pub fn crash(mut self) -> MemoryStore {
        if let Some(deferred) = &mut self.deferred {
            deferred.outstanding.clear();
            self.state = deferred.durable.clone();
        }
        let others = self.others.into_values().map(|other| other.batches);
        let batches = others.chain([std::mem::take(&mut self.batches)]);
        let locked = batches.flat_map(BTreeMap::into_values).flat_map(|batch| batch.locked).collect();
        let broken = self.state.take_back(locked).err();
        self.state.ready.forget_turns();
        MemoryStore {
            last_stage: self.last_stage,
            last_notice: self.last_notice,
            sessions: self.sessions,
            alive: self.alive,
            broken,
            versions: self.versions,
            last_batch: self.last_batch,
            lanes: self.lanes,
            tells_time: self.tells_time,
            holds_loads: self.holds_loads,
            ..MemoryStore::with(self.state, self.deferred)
        }
    }
}

impl Deferred {
    pub(super) fn new() -> Deferred {
        Deferred { durable: MemoryState::new(true), outstanding: VecDeque::new() }
    }

    pub(super) fn add_outstanding(
        &mut self,
        id: StageId,
        stage: Stage,
        last_notice: u64,
        by: usize,
        is_unknown: bool,
    ) {
        self.outstanding.push_back(Outstanding { id, stage, last_notice, by, is_unknown });
    }

    /// Flows are durable when [`put_flow`](crate::contract::Store::put_flow) returns.
    pub(super) fn keep_flows(&mut self, flows: &Flows) {
        self.durable.flows = flows.clone();
    }

    /// So are policies when [`put_policies`](crate::contract::Store::put_policies) does.
    pub(super) fn keep_policies(&mut self, policies: &Policies) {
        self.durable.policies = policies.clone();
    }

    /// And bulk actions when [`put_bulk`](crate::contract::Store::put_bulk) does. What was refused is refused here too.
    pub(super) fn keep_targets(&mut self, bulk: BulkId, targets: Vec<Target>, session: Option<u64>) {
        let _ = self.durable.bulks.put_targets(bulk, targets, session);
    }

    pub(super) fn keep_bulk(&mut self, bulk: Bulk) {
        let _ = self.durable.put_bulk(bulk);
    }

    pub(super) fn drop_drafts(&mut self, sessions: &Sessions) {
        self.durable.bulks.drop_drafts(sessions);
    }
}

impl MemoryState {
    /// Takes over a stage that was accepted before, in a transaction of its own.
    fn make_stage_durable(&mut self, stage: Stage, last_notice: u64) -> Result<(), StoreError> {
        let changed = stage.runs.iter().map(|change| change.run.id);
        let unchanged = stage.unchanged.iter().map(|run| run.id);
        let runs: Vec<RunId> = changed.chain(unchanged).chain(stage.forgotten.iter().copied()).collect();
        let mut locked = Vec::with_capacity(runs.len());
        self.lock(&runs, &mut locked)?;
        self.stage(stage, last_notice, &locked)
    }
}
