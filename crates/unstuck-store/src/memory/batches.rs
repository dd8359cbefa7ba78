//! Batches under way in memory: all that one asks for is found at once, and given when it is asked for.

use std::collections::BTreeMap;

use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::thing::ThingRef;

use crate::contract::{
    BatchId, Loaded, LoadedPayload, LockedThing, More, Settled, Stage, StageId, Store, StoreError, Wants,
};
use crate::memory::MemoryStore;
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
    /// What it was built on has failed.
    void: Option<StoreError>,
}

impl OpenBatch {
    /// What it was built on has failed: what it has taken out is somebody else's.
    pub(super) fn fail(&mut self, error: &StoreError) {
        self.locked = LockedByBatch::default();
        self.void = Some(error.clone());
    }

    fn check(&self) -> Result<(), StoreError> {
        match &self.void {
            None => Ok(()),
            Some(error) => {
                Err(StoreError::Conflict(format!("what the batch was built on has failed ({error})")))
            }
        }
    }
}

impl MemoryStore {
    pub(super) fn begin_batch(&mut self, wants: &Wants) -> Result<BatchId, StoreError> {
        self.check_session()?;
        if self.batches.len() >= self.lanes {
            return Err(StoreError::Conflict("a batch is under way: end it before the next".into()));
        }
        if self.batches.is_empty() {
            self.state.ready.put_back();
        }
        let mut loaded = Loaded {
            now: wants.now,
            candidates: if wants.claims == 0 {
                Vec::new()
            } else {
                self.state.ready.pick(&wants.offers, wants.claims)
            },
            admissible: self.state.slots.admissible(wants.admissions),
            due: self.state.timers.due(wants.now, wants.due),
            notices: self.state.notices.first(wants.now, wants.notices),
            things: self.state.things.due(wants.now, wants.things),
            keys: wants.keys.iter().map(|(flow, key)| self.state.run_of_key(flow, key)).collect(),
            versions: self.versions,
            last_seen: self.last_seen()?,
            interrupts: self
                .session
                .map(|session| self.sessions.take_interrupts(session))
                .unwrap_or_default(),
            ..Loaded::default()
        };
        loaded.waiting = self.state.ready.highest_waiting(&wants.queues);
        let is_noticed = |run: &&RunId| self.state.notices.has_any_about(**run);
        loaded.noticed = wants.about.iter().filter(is_noticed).copied().collect();
        let mut batch = OpenBatch::default();
        let runs = wants.runs_of(&loaded);
        loaded.backlog = self.state.notices.backlog(&runs, &loaded.notices);
        let locked = self.state.lock(&runs, &mut batch.locked.runs)?;
        loaded.runs = runs.into_iter().zip(locked).collect();
        batch.loaded = Some(loaded);
        self.last_batch += 1;
        let id = BatchId(self.last_batch);
        self.batches.insert(id, batch);
        Ok(id)
    }

    pub(super) fn next_loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        let (id, loaded) =
            self.batches.iter_mut().find_map(|(id, batch)| Some((*id, batch.loaded.take()?)))?;
        let checked = self.batches.get(&id).map_or(Ok(()), OpenBatch::check);
        if let Err(error) = checked {
            self.batches.remove(&id);
            return Some((id, Err(error)));
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
        batch.check()?;
        let payload = |id: &PayloadId| {
            self.state
                .payloads
                .get(id)
                .map_or(LoadedPayload::Absent, |json| LoadedPayload::Here(json.clone()))
        };
        let payloads = payloads.iter().map(payload).collect();
        let backlog = self.state.notices.backlog(runs, &[]);
        Ok(More { runs: self.state.lock(runs, &mut batch.locked.runs)?, payloads, backlog })
    }

    pub(super) fn lock_things_for(
        &mut self,
        id: BatchId,
        things: &[ThingRef],
    ) -> Result<Vec<LockedThing>, StoreError> {
        self.check_session()?;
        let batch = self.batches.get_mut(&id).ok_or_else(unknown_batch)?;
        batch.check()?;
        self.state.things.lock(things, &mut batch.locked.things)
    }

    pub(super) fn stage_batch(&mut self, id: BatchId, stage: Stage) -> Result<StageId, StoreError> {
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
        let last_notice = self.last_notice;
        self.last_notice += notices;
        match (&mut self.deferred, &self.durable, kept) {
            (Some(deferred), _, Some(kept)) => {
                deferred.add_outstanding(id, kept, last_notice, self.current);
                return Ok(id);
            }
            // It was accepted, so it is accepted again.
            (None, Some(durable), Some(kept)) => durable.add_stage(kept, last_notice)?,
            (_, _, None) | (None, None, Some(_)) => {}
        }
        self.sessions.interrupt(interrupts);
        self.settled.push(Settled { stage: id, result: Ok(()) });
        Ok(id)
    }

    fn try_stage(&mut self, id: BatchId, stage: Stage) -> Result<(), StoreError> {
        self.check_session()?;
        let batch = self.batches.get(&id).ok_or_else(unknown_batch)?;
        batch.check()?;
        if let Some(error) = self.refusal(&stage) {
            return Err(error);
        }
        let Some(batch) = self.batches.get(&id) else { return Err(unknown_batch()) };
        self.state.stage(stage, self.last_notice, &batch.locked)
    }

    /// Ends a batch; the runs that did not come back are as they were before.
    pub(super) fn end_batch(&mut self, id: BatchId) {
        let Some(batch) = self.batches.remove(&id) else { return };
        if let Err(error) = self.state.take_back(batch.locked) {
            self.broken = Some(error);
        }
    }
}

fn unknown_batch() -> StoreError {
    StoreError::Conflict("no batch of this number is under way: ask for what it wants first".into())
}
