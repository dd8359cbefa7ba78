//! Batches under way in memory: all that one asks for is found at once, and given when it is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::thing::{Thing, ThingRef};

use crate::contract::{
    BatchId, IdempotencyRecord, KeyUse, Loaded, LoadedPayload, Locked, LockedThing, More, Settled, Stage,
    StageId, Store, StoreError, Wants,
};
use crate::memory::MemoryStore;
use crate::memory::deferred::StagedBy;
use crate::memory::state::LockedByBatch;

/// The batches that are under way.
pub(super) type Batches = BTreeMap<BatchId, OpenBatch>;

/// A batch that is under way.
#[derive(Debug, Default)]
pub(super) struct OpenBatch {
    /// What it has taken out and locked.
    pub(super) locked: LockedByBatch,
    /// What it has asked for, until it is given.
    loaded: Option<Loaded>,
    /// The answer is still on its way.
    is_held: bool,
    /// The limits that it may let runs in to: nobody else does until it ends.
    limits: Vec<Arc<str>>,
    /// What it was built on has failed.
    void: Option<StoreError>,
}

impl OpenBatch {
    /// Fails a batch because a stage that it was built on has failed: its runs are no longer its own.
    pub(super) fn fail(&mut self, error: &StoreError) {
        self.locked = LockedByBatch::default();
        self.void = Some(error.clone());
    }

    fn check_not_failed(&self) -> Result<(), StoreError> {
        match &self.void {
            None => Ok(()),
            Some(error) => {
                Err(StoreError::Conflict(format!("what the batch was built on has failed ({error})")))
            }
        }
    }
}

impl MemoryStore {
    /// Opens a batch and loads what it wants; with held loads it is given later.
    pub(super) fn begin_batch(&mut self, wants: &Wants) -> Result<BatchId, StoreError> {
        self.check_session()?;
        if self.batches.len() >= self.lanes {
            return Err(StoreError::Conflict("a batch is under way: end it before the next".into()));
        }
        if self.batches.is_empty() {
            self.state.ready.put_back();
        }
        let now = if self.tells_time { self.sessions.now } else { wants.now };
        let mut loaded = Loaded {
            now,
            candidates: if wants.claims == 0 {
                Vec::new()
            } else {
                self.state.ready.pick(&wants.offers, wants.claims)
            },
            admissible: self.state.slots.admissible_beside(wants.admissions, &self.locked_limits()),
            due: self.state.timers.due(now, wants.due),
            notices: self.state.notices.list_due(now, wants.notices),
            things: self.state.things.due(now, wants.things),
            keys: wants.keys.iter().map(|(flow, key)| self.state.run_of_key(flow, key)).collect(),
            idempotency: wants.idempotency.iter().map(|(scope, key)| self.find_key_use(scope, key)).collect(),
            versions: self.versions,
            last_seen: self.last_seen()?,
            has_older_session: self.session.is_some_and(|session| self.sessions.has_older(session)),
            ..Loaded::default()
        };
        loaded.waiting = self.state.ready.highest_waiting(&wants.queues);
        let is_noticed = |run: &&RunId| self.state.notices.has_any_about(**run);
        loaded.noticed = wants.about.iter().filter(is_noticed).copied().collect();
        let limits = loaded.admissible.iter().filter_map(|run| self.state.slots.limit_of(*run).cloned());
        let mut batch = OpenBatch { limits: limits.collect(), ..OpenBatch::default() };
        let runs = wants.runs_of(&loaded);
        loaded.backlog = self.state.notices.backlog(&runs, &loaded.notices);
        let locked = self.lock_free_runs(&runs, &mut batch.locked.runs)?;
        loaded.runs = runs.into_iter().zip(locked).collect();
        (batch.loaded, batch.is_held) = (Some(loaded), self.holds_loads);
        self.last_batch += 1;
        let id = BatchId(self.last_batch);
        self.batches.insert(id, batch);
        Ok(id)
    }

    /// What a key stands for. What another handle has staged under it is not known to have happened until it is durable.
    fn find_key_use(&self, scope: &str, key: &str) -> KeyUse {
        let is_this = |record: &IdempotencyRecord| *record.key.scope == *scope && *record.key.key == *key;
        let others = self.deferred.as_ref().filter(|_| !self.others.is_empty());
        if others.is_some_and(|deferred| deferred.uses_key(self.current, is_this)) {
            return KeyUse::Busy;
        }
        self.state.ledger.find(scope, key).map_or(KeyUse::Free, KeyUse::Used)
    }

    /// Lists the limits that batches of any handle may let runs in to.
    fn locked_limits(&self) -> Vec<Arc<str>> {
        let others = self.others.values().flat_map(|other| other.batches.values());
        self.batches.values().chain(others).flat_map(|batch| batch.limits.iter().cloned()).collect()
    }

    /// Returns the load of a batch that is not held back; one that has failed meanwhile returns its error.
    pub(super) fn next_loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        let mut answered = self.batches.iter_mut().filter(|(_, batch)| !batch.is_held);
        let (id, mut loaded) = answered.find_map(|(id, batch)| Some((*id, batch.loaded.take()?)))?;
        let checked = self.batches.get(&id).map_or(Ok(()), OpenBatch::check_not_failed);
        if let Err(error) = checked {
            self.batches.remove(&id);
            return Some((id, Err(error)));
        }
        // Not before: a batch that is never given anything must not take them with it.
        if let Some(session) = self.session {
            loaded.interrupts = self.sessions.take_interrupts(session);
        }
        Some((id, Ok(loaded)))
    }

    pub(super) fn load_more(
        &mut self,
        id: BatchId,
        runs: &[RunId],
        payloads: &[PayloadId],
    ) -> Result<More, StoreError> {
        self.check_session()?;
        let batch = self.batches.get_mut(&id).ok_or_else(unknown_batch)?;
        batch.check_not_failed()?;
        let payload = |id: &PayloadId| {
            self.state
                .payloads
                .get(id)
                .map_or(LoadedPayload::Absent, |json| LoadedPayload::Here(json.clone()))
        };
        let payloads = payloads.iter().map(payload).collect();
        let mut locked = std::mem::take(&mut batch.locked);
        let backlog = self.state.notices.backlog(runs, &[]);
        let runs = self.lock_free_runs(runs, &mut locked.runs);
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.locked = locked;
        }
        Ok(More { runs: runs?, payloads, backlog })
    }

    pub(super) fn lock_things_for(
        &mut self,
        id: BatchId,
        things: &[ThingRef],
    ) -> Result<Vec<LockedThing>, StoreError> {
        self.check_session()?;
        self.batches.get(&id).ok_or_else(unknown_batch)?.check_not_failed()?;
        let free: Vec<ThingRef> = things.iter().copied().filter(|thing| !self.is_elsewhere(*thing)).collect();
        let batch = self.batches.get_mut(&id).ok_or_else(unknown_batch)?;
        let mut given = self.state.things.lock(&free, &mut batch.locked.things)?.into_iter();
        let of = |thing: &ThingRef| if free.contains(thing) { given.next() } else { Some(LockedThing::Busy) };
        Ok(things.iter().filter_map(of).collect())
    }

    /// Locks runs; those that another handle has are returned as busy.
    fn lock_free_runs(&mut self, runs: &[RunId], locked: &mut Vec<RunId>) -> Result<Vec<Locked>, StoreError> {
        let are_all_here = self.deferred.is_none() || self.others.is_empty();
        if are_all_here && self.unknown_locks.is_empty() {
            return self.state.lock(runs, locked);
        }
        let is_free = |run: &RunId| !self.is_elsewhere(ThingRef::Run(*run));
        let free: Vec<RunId> = runs.iter().copied().filter(is_free).collect();
        let mut given = self.state.lock(&free, locked)?.into_iter();
        let of = |run: &RunId| if free.contains(run) { given.next() } else { Some(Locked::Busy) };
        Ok(runs.iter().filter_map(of).collect())
    }

    /// Returns whether another handle's stage has this until it is durable, or a stage whose outcome is unknown.
    fn is_elsewhere(&self, thing: ThingRef) -> bool {
        let deferred = self.deferred.as_ref().filter(|_| !self.others.is_empty());
        deferred.is_some_and(|deferred| deferred.has_locked(thing, self.current))
            || self.unknown_locks.values().any(|locked| locked.contains(&thing))
    }

    pub(super) fn stage_batch(&mut self, id: BatchId, stage: Stage) -> Result<StageId, StoreError> {
        let lost_answer = self.lost_answer.take();
        if lost_answer == Some(false) {
            return Ok(self.lose_stage(id, &stage));
        }
        let unknown = lost_answer.map(|_| list_locked(&stage).collect());
        let kept = self.durable.as_ref().map(|_| stage.clone());
        let notices = stage.notices.len() as u64;
        let interrupts = stage.interrupts.clone();
        let changes_downtimes = stage.downtime.is_some() || stage.clock.is_some();
        if let Err(error) = self.try_stage(id, stage) {
            self.end_batch(id);
            return Err(error);
        }
        if let Some(batch) = self.batches.remove(&id) {
            self.state.things.unlock(&batch.locked.things);
        }
        self.versions.downtimes += u64::from(changes_downtimes);
        self.wake_others();
        self.last_stage += 1;
        let id = StageId(self.last_stage);
        self.unknown_locks.extend(unknown.map(|locked| (id, locked)));
        let last_notice = self.last_notice;
        self.last_notice += notices;
        match (&mut self.deferred, &self.durable, kept) {
            (Some(deferred), _, Some(kept)) => {
                let by = StagedBy { side: self.current, session: self.session };
                deferred.add_outstanding(id, kept, last_notice, by, lost_answer.is_some());
                return Ok(id);
            }
            // It was accepted, so it is accepted again.
            (None, Some(durable), Some(kept)) => durable.add_stage(kept, last_notice)?,
            (_, _, None) | (None, None, Some(_)) => {}
        }
        self.sessions.interrupt(interrupts);
        let settled = Settled { stage: id, result: Ok(()) };
        if lost_answer.is_some() {
            self.unknown.push((self.current, settled));
        } else {
            self.settled.push(settled);
        }
        Ok(id)
    }

    fn try_stage(&mut self, id: BatchId, stage: Stage) -> Result<(), StoreError> {
        self.check_session()?;
        let batch = self.batches.get(&id).ok_or_else(unknown_batch)?;
        batch.check_not_failed()?;
        if let Some(error) = self.take_refusal(&stage) {
            return Err(error);
        }
        let Some(batch) = self.batches.get(&id) else { return Err(unknown_batch()) };
        self.state.stage(stage, self.last_notice, &batch.locked)
    }

    /// Takes a stage that does not happen, and reports nothing about it until its outcome is looked up.
    fn lose_stage(&mut self, id: BatchId, stage: &Stage) -> StageId {
        self.end_batch(id);
        self.last_stage += 1;
        let id = StageId(self.last_stage);
        self.unknown_locks.insert(id, list_locked(stage).collect());
        let lost = StoreError::Away("the connection was lost before the commit".into());
        self.unknown.push((self.current, Settled { stage: id, result: Err(lost) }));
        id
    }

    /// Gives every batch what it has asked for.
    pub fn give_loads(&mut self) {
        self.batches.values_mut().for_each(|batch| batch.is_held = false);
    }

    /// Returns whether a batch of this handle waits for what it has asked for.
    pub fn has_held_loads(&self) -> bool {
        self.batches.values().any(|batch| batch.is_held)
    }

    /// Gives the newest batch what it has asked for, before older ones; returns whether there is one.
    pub fn give_newest_load(&mut self) -> bool {
        let held = self.batches.values_mut().rev().find(|batch| batch.is_held);
        held.map(|batch| batch.is_held = false).is_some()
    }

    /// Leaves it unknown what becomes of the next stage until [`MemoryStore::look_up_outcomes`]. It happens, or it
    /// does not.
    pub fn lose_next_answer(&mut self, happens: bool) {
        self.lost_answer = Some(happens);
    }

    /// Keeps the answer to the next stage after all; returns whether it was to be lost.
    pub fn keep_next_answer(&mut self) -> bool {
        self.lost_answer.take().is_some()
    }

    /// Reports what became of the stages whose answers were lost to whoever staged them; returns how many.
    pub fn look_up_outcomes(&mut self) -> usize {
        let unknown = std::mem::take(&mut self.unknown);
        let count = unknown.len();
        for (by, settled) in unknown {
            self.unknown_locks.remove(&settled.stage);
            self.settled_queue(by).push(settled);
        }
        count
    }

    /// Ends a batch; the runs that did not come back are as they were before.
    pub(super) fn end_batch(&mut self, id: BatchId) {
        let Some(batch) = self.batches.remove(&id) else { return };
        if let Err(error) = self.state.restore_locked(batch.locked) {
            self.broken = Some(error);
        }
    }
}

/// Lists what a stage has locked or creates.
pub(super) fn list_locked(stage: &Stage) -> impl Iterator<Item = ThingRef> {
    let changed = stage.runs.iter().map(|change| change.run.id);
    let unchanged = stage.unchanged.iter().map(|run| run.id);
    let runs = changed.chain(unchanged).chain(stage.forgotten.iter().copied()).map(ThingRef::Run);
    runs.chain(stage.things.iter().map(Thing::address))
}

fn unknown_batch() -> StoreError {
    StoreError::Conflict("no batch of this number is under way: ask for what it wants first".into())
}
