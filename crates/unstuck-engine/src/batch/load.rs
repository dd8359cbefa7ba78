//! What a batch has been given, what decisions have turned up that it lacks, and what waits for that.

use rustc_hash::FxHashSet;
use unstuck_core::command::{Command, Notice};
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::{Json, Payload};
use unstuck_store::contract::{
    BatchId, Due, Loaded, LoadedPayload, Locked, NoticeId, Store, StoreError, Wants,
};

use super::calls::BatchCalls;
use super::{Batch, BatchRun, Undecided};
use crate::request::EngineError;

/// What decisions have turned up that was not loaded.
#[derive(Default)]
pub(super) struct Missing {
    runs: Vec<RunId>,
    payloads: Vec<PayloadId>,
    /// The runs that something waits for, so that whatever comes later for them waits too.
    waiting: FxHashSet<RunId>,
}

impl Missing {
    /// Whether something of this run waits for what is missing.
    pub(super) fn waits(&self, run: RunId) -> bool {
        !self.waiting.is_empty() && self.waiting.contains(&run)
    }

    pub(super) fn add_run(&mut self, run: RunId) {
        self.runs.push(run);
        self.waiting.insert(run);
    }

    pub(super) fn add_payload(&mut self, payload: PayloadId, of: RunId) {
        self.payloads.push(payload);
        self.waiting.insert(of);
    }
}

/// Something that could not be decided, for something was missing.
pub(crate) enum Deferred {
    Claim(RunId, Command),
    Admission(RunId),
    Notice(NoticeId, Notice),
    /// The place of the request.
    Request(usize),
    Due(Due),
    /// A run that takes in what the clock was set by.
    Sweep(RunId),
    /// The next targets of bulk actions.
    Bulks,
}

/// What reading a payload of one of the batch's runs gives.
pub(crate) enum PayloadRead {
    Here(Json),
    Damaged(String),
    Missing(PayloadId),
}

impl Batch {
    /// A batch with what it has been given. `is_watched`: whether anybody wants to know what happens; `last_id`: the last id
    /// that was given out before it.
    pub(crate) fn new(
        id: BatchId,
        is_watched: bool,
        last_id: u64,
        wants: &Wants,
        loaded: &mut Loaded,
    ) -> Batch {
        let mut batch = Batch { id, last_id, is_watched, ..Batch::default() };
        batch.runs.reserve(loaded.runs.len());
        batch.order.reserve(loaded.runs.len());
        for (id, locked) in std::mem::take(&mut loaded.runs) {
            batch.take_locked(id, locked);
        }
        for (key, run) in wants.keys.iter().zip(&loaded.keys) {
            batch.keys.extend(run.map(|run| (key.clone(), run)));
        }
        if !wants.idempotency.is_empty() {
            batch.calls = BatchCalls::of(wants, loaded);
        }
        batch.waiting = std::mem::take(&mut loaded.waiting);
        batch.noticed.extend(&loaded.noticed);
        batch.backlog.extend(std::mem::take(&mut loaded.backlog));
        batch.due_things = std::mem::take(&mut loaded.things);
        batch
    }

    fn take_locked(&mut self, id: RunId, locked: Locked) {
        let run = match locked {
            Locked::Here(run) => Some(run),
            Locked::Absent => None,
            Locked::Busy => {
                self.busy.insert(id);
                return;
            }
            Locked::Damaged(what) => {
                self.damaged.insert(id, what);
                return;
            }
        };
        self.order.push(id);
        self.runs.insert(id, BatchRun::new(run));
    }

    /// Why a run is not there to be decided about.
    pub(super) fn why_not_loaded(&mut self, id: RunId) -> Undecided {
        if self.busy.contains(&id) || self.forgotten.contains(&id) {
            return Undecided::Busy;
        }
        if let Some(what) = self.damaged.get(&id) {
            let error = EngineError::Damaged(what.clone());
            self.unusable.push((id, None, error.clone()));
            return Undecided::Error(error);
        }
        self.missing.add_run(id);
        Undecided::Lacking
    }

    /// Puts something off until what is missing is loaded; false where nothing more is, so that it waits for the next batch.
    pub(crate) fn defer(&mut self, what: Deferred) -> bool {
        if !self.is_last_round {
            self.deferred.push(what);
        }
        !self.is_last_round
    }

    /// Whether anything is missing.
    pub(crate) fn lacks_something(&self) -> bool {
        !self.missing.runs.is_empty() || !self.missing.payloads.is_empty()
    }

    /// Loads what is missing, for the last round. Gives what was put off.
    pub(crate) fn load_missing(
        &mut self,
        store: &mut dyn Store,
        id: BatchId,
    ) -> Result<Vec<Deferred>, StoreError> {
        self.is_last_round = true;
        let Missing { mut runs, payloads, .. } = std::mem::take(&mut self.missing);
        runs.sort_unstable();
        runs.dedup();
        self.load_more(store, id, runs, payloads)?;
        Ok(std::mem::take(&mut self.deferred))
    }

    /// Loads these payloads.
    pub(crate) fn load_payloads(
        &mut self,
        store: &mut dyn Store,
        id: BatchId,
        payloads: Vec<PayloadId>,
    ) -> Result<(), StoreError> {
        self.load_more(store, id, Vec::new(), payloads)
    }

    fn load_more(
        &mut self,
        store: &mut dyn Store,
        id: BatchId,
        runs: Vec<RunId>,
        mut payloads: Vec<PayloadId>,
    ) -> Result<(), StoreError> {
        payloads.sort_unstable();
        payloads.dedup();
        let more = store.more(id, &runs, &payloads)?;
        self.backlog.extend(more.backlog);
        for (id, locked) in runs.into_iter().zip(more.runs) {
            self.take_locked(id, locked);
        }
        for (id, payload) in payloads.into_iter().zip(more.payloads) {
            match payload {
                LoadedPayload::Here(json) => drop(self.payloads.insert(id, json)),
                LoadedPayload::Damaged(what) => drop(self.damaged_payloads.insert(id, what)),
                LoadedPayload::Absent => {
                    return Err(StoreError::Broken(format!("payload {id} is missing")));
                }
            }
        }
        Ok(())
    }

    /// The text of a payload of one of the batch's runs, if it is loaded.
    pub(crate) fn read_payload(&self, payload: &Payload) -> PayloadRead {
        let id = match payload {
            Payload::Inline(json) => return PayloadRead::Here(json.clone()),
            Payload::Stored(id) => *id,
        };
        match (self.payloads.get(&id), self.damaged_payloads.get(&id)) {
            (Some(json), _) => PayloadRead::Here(json.clone()),
            (None, Some(what)) => PayloadRead::Damaged(what.clone()),
            (None, None) => PayloadRead::Missing(id),
        }
    }
}
