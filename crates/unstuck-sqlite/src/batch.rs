//! The batch that is under way: all that it asks for is found at once, and given when it is asked for.

use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::run::Run;
use unstuck_core::thing::ThingRef;
use unstuck_store::contract::{
    BatchId, KeyUse, Loaded, LoadedPayload, Locked, LockedThing, More, Store, StoreError, Wants,
};
use unstuck_store::invariants::RunPosition;

use crate::cold_runs::load_runs;
use crate::hot_runs::Residency;
use crate::open;
use crate::store::SqliteStore;
use crate::table::{payload, run_snapshot};

/// A batch that is under way.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    pub(crate) id: BatchId,
    /// The runs that it has taken out.
    pub(crate) locked: Vec<RunId>,
    /// What is no run and it has locked.
    pub(crate) locked_things: Vec<ThingRef>,
    /// What it has asked for, until it is given.
    pub(crate) loaded: Option<Loaded>,
}

impl SqliteStore {
    /// Opens a batch, of which there is one at a time, and loads all that it wants. After a full disk it first tests
    /// whether there is room again.
    pub(crate) fn begin_batch(&mut self, wants: &Wants) -> Result<BatchId, StoreError> {
        self.check_usable()?;
        if self.batch.is_some() {
            return Err(StoreError::Conflict("a batch is under way: end it before the next".into()));
        }
        if self.full {
            self.probe_disk_space()?;
        }
        self.last_batch += 1;
        let id = BatchId(self.last_batch);
        self.batch = Some(OpenBatch { id, locked: Vec::new(), locked_things: Vec::new(), loaded: None });
        let loaded = self.load_wanted(wants);
        if loaded.is_err() {
            self.end_batch(id);
        }
        let loaded = Some(loaded?);
        if let Some(batch) = &mut self.batch {
            batch.loaded = loaded;
        }
        Ok(id)
    }

    /// Loads what a batch wants: first the answers that need no run (keys, due timers, notices), then the runs that
    /// these name, which are locked.
    fn load_wanted(&mut self, wants: &Wants) -> Result<Loaded, StoreError> {
        let mut keys = Vec::with_capacity(wants.keys.len());
        for (flow, key) in &wants.keys {
            keys.push(self.find_key(flow, key)?);
        }
        let mut idempotency = Vec::with_capacity(wants.idempotency.len());
        for (scope, key) in &wants.idempotency {
            let known = self.find_idempotency(scope, key)?;
            idempotency.push(known.map_or(KeyUse::Free, KeyUse::Used));
        }
        let last_seen = self.last_seen()?;
        let state = &mut self.state;
        let candidates =
            if wants.claims == 0 { Vec::new() } else { state.ready.pick(&wants.offers, wants.claims) };
        let is_noticed = |run: &&RunId| state.notices.has_any_about(**run);
        let mut loaded = Loaded {
            now: wants.now,
            keys,
            idempotency,
            candidates,
            waiting: state.ready.highest_waiting(&wants.queues),
            admissible: state.slots.admissible(wants.admissions),
            due: state.timers.due(wants.now, wants.due),
            notices: state.notices.list_due(wants.now, wants.notices),
            things: state.things.due(wants.now, wants.things),
            noticed: wants.about.iter().filter(is_noticed).copied().collect(),
            versions: self.versions,
            last_seen,
            ..Loaded::default()
        };
        let runs = wants.runs_of(&loaded);
        loaded.backlog = self.state.notices.backlog(&runs, &loaded.notices);
        let locked = self.lock_runs(&runs)?;
        loaded.runs = runs.into_iter().zip(locked).collect();
        Ok(loaded)
    }

    /// Locks further runs of an open batch, and loads payloads.
    pub(crate) fn load_more(
        &mut self,
        batch: BatchId,
        runs: &[RunId],
        payloads: &[PayloadId],
    ) -> Result<More, StoreError> {
        self.check_batch(batch)?;
        let mut found = Vec::with_capacity(payloads.len());
        for id in payloads {
            found.push(match self.payload(*id) {
                Ok(Some(json)) => LoadedPayload::Here(json),
                Ok(None) => LoadedPayload::Absent,
                Err(StoreError::Damaged(what)) => LoadedPayload::Damaged(what),
                Err(error) => return Err(error),
            });
        }
        let backlog = self.state.notices.backlog(runs, &[]);
        Ok(More { runs: self.lock_runs(runs)?, payloads: found, backlog })
    }

    /// Locks things for an open batch; they are free again when it ends.
    pub(crate) fn lock_things_for(
        &mut self,
        batch: BatchId,
        things: &[ThingRef],
    ) -> Result<Vec<LockedThing>, StoreError> {
        self.check_batch(batch)?;
        let Some(open) = &mut self.batch else { return Ok(Vec::new()) };
        self.state.things.lock(things, &mut open.locked_things)
    }

    /// Refuses a batch that has ended: its locks are gone.
    pub(crate) fn check_batch(&self, batch: BatchId) -> Result<(), StoreError> {
        self.check_usable()?;
        if self.batch.as_ref().is_some_and(|open| open.id == batch) {
            return Ok(());
        }
        let unknown = "no batch of this number is under way: ask for what it wants first";
        Err(StoreError::Conflict(unknown.into()))
    }

    /// Takes these runs out of memory for the batch. If one fails, those taken before it stay out until the batch
    /// ends and gives them back.
    fn lock_runs(&mut self, runs: &[RunId]) -> Result<Vec<Locked>, StoreError> {
        let cold: Vec<RunId> = runs.iter().copied().filter(|id| self.state.hot.get(*id).is_none()).collect();
        if cold.len() > 1 {
            self.begin_reading()?;
            // What is in the way of reading them together is found, and told, when each is loaded alone.
            let _ = load_runs(&mut self.state, &self.reader, &cold, self.options.many_units);
        }
        let mut given = Vec::with_capacity(runs.len());
        for id in runs {
            match self.lock_run(*id) {
                Ok(locked) => given.push(locked),
                Err(error) => {
                    let taken = given.into_iter().filter_map(|locked| match locked {
                        Locked::Here(run) => Some(*run),
                        Locked::Absent | Locked::Busy | Locked::Damaged(_) => None,
                    });
                    self.give_back(taken.collect());
                    return Err(error);
                }
            }
        }
        Ok(given)
    }

    /// Takes a run out of memory; one that is parked is loaded from its row first.
    fn lock_run(&mut self, id: RunId) -> Result<Locked, StoreError> {
        if self.state.hot.get(id).is_none() {
            self.begin_reading()?;
            match open::load_run(&mut self.state, &self.reader, id, self.options.many_units) {
                Ok(true) => {}
                Ok(false) => return Ok(Locked::Absent),
                Err(StoreError::Damaged(what)) => return Ok(Locked::Damaged(what)),
                Err(error) => return Err(error),
            }
        }
        let Some(hot) = self.state.hot.get_mut(id) else { return Ok(Locked::Absent) };
        let Residency::Here(run) = &hot.run else {
            return Err(StoreError::Conflict(format!("{id} is locked twice in one batch")));
        };
        let mark = RunPosition { seq: run.seq, generation: run.generation, is_final: run.is_final() };
        let Residency::Here(run) = std::mem::replace(&mut hot.run, Residency::Out(mark)) else {
            return Ok(Locked::Busy);
        };
        if let Some(batch) = &mut self.batch {
            batch.locked.push(id);
        }
        Ok(Locked::Here(run))
    }

    /// Puts unchanged runs back; one that was changed stays out.
    pub(crate) fn give_back(&mut self, unchanged: Vec<Run>) {
        for run in unchanged {
            if let Some(hot) = self.state.hot.get_mut(run.id)
                && matches!(hot.run, Residency::Out(mark) if mark.seq == run.seq)
            {
                hot.run = Residency::Here(Box::new(run));
            }
        }
    }

    /// Loads a payload, and caches it for whoever reads it again.
    pub(crate) fn payload(&mut self, id: PayloadId) -> Result<Option<Json>, StoreError> {
        let json = match self.state.payloads.get(id) {
            Some(json) => Some(json.clone()),
            None => payload::load_payload(&self.reader, id)?,
        };
        if let Some(json) = &json {
            self.state.payloads.put(id, json.clone(), 0);
        }
        Ok(json)
    }

    /// Ends the batch; the runs that did not come back are as they were before.
    pub(crate) fn end_batch(&mut self, batch: BatchId) {
        let Some(OpenBatch { locked, locked_things, .. }) = self.batch.take_if(|open| open.id == batch)
        else {
            return;
        };
        self.end_reading();
        self.state.ready.put_back();
        self.state.things.unlock(&locked_things);
        let is_out =
            |id: &RunId| self.state.hot.get(*id).is_some_and(|hot| matches!(hot.run, Residency::Out(_)));
        let out: Vec<RunId> = locked.into_iter().filter(is_out).collect();
        if out.is_empty() {
            return;
        }
        // What is out was changed and is gone: it is read again, once the file has all of its history.
        if self.settle_all().is_err() {
            return;
        }
        for id in out {
            // After a failure all of memory was read again.
            let Some(hot) = self.state.hot.get_mut(id) else { continue };
            if matches!(hot.run, Residency::Here(_)) {
                continue;
            }
            match run_snapshot::load_run_at(&self.reader, id, hot.head) {
                Ok(loaded) => hot.run = Residency::Here(Box::new(loaded.run)),
                Err(error) => self.stop_after_failure(error),
            }
        }
    }
}
