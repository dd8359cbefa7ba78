//! Durable apart from visible: stages that are seen but would not survive a crash, and how they settle or fail.

use std::collections::{BTreeMap, VecDeque};

use unstuck_core::event::Event;
use unstuck_core::id::RunId;
use unstuck_core::thing::ThingRef;

use crate::contract::{IdempotencyRecord, RunChange, Settled, Stage, StageId, StoreError};
use crate::memory::MemoryStore;
use crate::memory::batches::list_locked;
use crate::memory::state::LockedByBatch;

/// What waits to be durable.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    outstanding: VecDeque<Outstanding>,
    /// What has become durable, from the moment on that somebody wants to know.
    log: Option<Vec<DurableStage>>,
}

/// What a stage has changed for good.
#[derive(Clone, Debug, PartialEq)]
pub struct DurableStage {
    /// The session that it is of.
    pub session: Option<u64>,
    /// What happened, by run, and in order for each.
    pub events: Vec<(RunId, Event)>,
    /// The runs that are gone.
    pub forgotten: Vec<RunId>,
    /// Whether whoever staged it does not know that it is durable, until that is looked up.
    pub is_unknown: bool,
}

/// Who staged something.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagedBy {
    pub(super) side: usize,
    pub(super) session: Option<u64>,
}

/// A stage that is not durable yet.
#[derive(Debug)]
struct Outstanding {
    id: StageId,
    stage: Stage,
    last_notice: u64,
    /// Who staged it, and whether nobody is told what becomes of it.
    by: StagedBy,
    is_unknown: bool,
}

impl DurableStage {
    fn of(session: Option<u64>, stage: &Stage, is_unknown: bool) -> DurableStage {
        let of_run = |change: &RunChange| -> Vec<(RunId, Event)> {
            change.events.iter().map(|event| (change.run.id, event.clone())).collect()
        };
        let events = stage.runs.iter().flat_map(of_run).collect();
        DurableStage { session, events, forgotten: stage.forgotten.clone(), is_unknown }
    }
}

impl MemoryStore {
    /// How many stages are neither durable nor failed.
    pub fn outstanding(&self) -> usize {
        self.deferred.as_ref().map_or(0, |deferred| deferred.outstanding.len())
    }

    /// Returns whether something that this handle has staged is neither durable nor failed, or is still to be reported.
    pub fn is_awaiting_disk(&self) -> bool {
        let mut outstanding = self.deferred.iter().flat_map(|deferred| &deferred.outstanding);
        !self.settled.is_empty() || outstanding.any(|outstanding| outstanding.by.side == self.current)
    }

    /// Makes the oldest `n` outstanding stages durable.
    pub fn make_durable(&mut self, n: usize) {
        for _ in 0..n {
            let (Some(deferred), Some(durable)) = (&mut self.deferred, &self.durable) else { return };
            let Some(Outstanding { id, stage, last_notice, by, is_unknown }) =
                deferred.outstanding.pop_front()
            else {
                return;
            };
            let interrupts = stage.interrupts.clone();
            if let Some(log) = &mut deferred.log {
                log.push(DurableStage::of(by.session, &stage, is_unknown));
            }
            let result = durable.add_stage(stage, last_notice);
            if !interrupts.is_empty() {
                // Whoever has these executors is told now, and not when it is staged.
                self.sessions.interrupt(interrupts);
                self.wake_all_but(by.side);
            }
            self.report_settled(by.side, is_unknown, Settled { stage: id, result });
        }
    }

    /// Reports a settled stage to its handle; keeps the report back if the answer is to be lost.
    fn report_settled(&mut self, by: usize, is_unknown: bool, settled: Settled) {
        if is_unknown {
            self.unknown.push((by, settled));
        } else {
            self.settled_queue(by).push(settled);
        }
    }

    /// Returns the queue of reports for the handle that staged something.
    pub(super) fn settled_queue(&mut self, by: usize) -> &mut Vec<Settled> {
        match self.others.get_mut(&by) {
            Some(other) if by != self.current => &mut other.settled,
            // Whoever has let go of the store is not there to be told: what it had staged is the next one's to hear of.
            Some(_) | None => &mut self.settled,
        }
    }

    /// Returns what has become durable since the last call; the first call returns nothing, and starts recording.
    pub fn take_durable(&mut self) -> Vec<DurableStage> {
        let log = self.deferred.as_mut().map(|deferred| deferred.log.get_or_insert_default());
        log.map(std::mem::take).unwrap_or_default()
    }

    /// Fails the oldest outstanding stage and all after it, which were built on it, and returns to what is durable.
    /// Returns how many failed.
    pub fn fail_next(&mut self, error: &StoreError) -> usize {
        let (Some(deferred), Some(durable)) = (&mut self.deferred, &self.durable) else { return 0 };
        let failed = std::mem::take(&mut deferred.outstanding);
        if failed.is_empty() {
            return 0;
        }
        let mut durable = durable.state().clone();
        durable.things.fire_schedules_as(&self.state.things);
        let count = failed.len();
        for Outstanding { id, by, is_unknown, .. } in failed {
            self.report_settled(by.side, is_unknown, Settled { stage: id, result: Err(error.clone()) });
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

    /// Returns the store as the next process finds it: without what was not durable, without locks, and with turns
    /// forgotten.
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
        let broken = self.state.restore_locked(LockedByBatch { runs: locked, things: Vec::new() }).err();
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
            tells_time: self.tells_time,
            holds_loads: self.holds_loads,
            ..MemoryStore::with_state(self.state, self.durable, self.deferred)
        }
    }
}

impl Deferred {
    pub(super) fn add_outstanding(
        &mut self,
        id: StageId,
        stage: Stage,
        last_notice: u64,
        by: StagedBy,
        is_unknown: bool,
    ) {
        self.outstanding.push_back(Outstanding { id, stage, last_notice, by, is_unknown });
    }

    /// Returns whether a stage of another handle that is not durable yet uses such an idempotency key.
    pub(super) fn uses_key(&self, side: usize, is_such: impl Fn(&IdempotencyRecord) -> bool) -> bool {
        let others = self.outstanding.iter().filter(|outstanding| outstanding.by.side != side);
        others.into_iter().any(|outstanding| outstanding.stage.idempotency.iter().any(&is_such))
    }

    /// Returns whether a stage of another handle that is not durable yet has this.
    pub(super) fn has_locked(&self, thing: ThingRef, side: usize) -> bool {
        let others = self.outstanding.iter().filter(|outstanding| outstanding.by.side != side);
        others.into_iter().any(|outstanding| list_locked(&outstanding.stage).any(|locked| locked == thing))
    }
}
