//! Batches that are decided and not known to be durable: what comes of them when they are, and when they are lost.

use std::time::Instant;

use rustc_hash::FxHashSet;
use unstuck_core::decide::Withheld;
use unstuck_core::downtime::Downtime;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::thing::ThingRef;
use unstuck_core::time::Millis;
use unstuck_store::contract::{Due, StageId, Store, StoreError};

use super::Engine;
use super::busy::BusyRequests;
use super::clock::ClockWork;
use super::isolation::{Suspect, WorkCounts};
use super::telemetry;
use crate::batch::Batch;
use crate::metrics::Tally;
use crate::request::{EngineError, Output, Request, Ticket};

/// How long to wait before asking a store again that is full or away.
pub(crate) const STORE_RETRY: Millis = Millis(200);

/// A batch that is decided, and not yet known to be durable.
#[derive(Default)]
pub(crate) struct OutstandingBatch {
    /// What is due and not done now, and what it waits for.
    pub(super) withheld: Vec<(Due, Withheld)>,
    /// `None`: it changed nothing, but what it saw may not be durable yet.
    pub(super) stage: Option<StageId>,
    pub(super) outputs: Vec<Output>,
    /// When it was staged, and what is counted of it when it is durable.
    pub(super) staged_at: Option<Instant>,
    pub(super) tally: Tally,
    /// The requests that it has taken from the line. Once it is staged, those that nobody waits for: what executors say, and
    /// losses of sessions that have ended, to be heard again if it is lost.
    pub(super) requests: Vec<Request>,
    /// The places of those whose runs somebody else has, and of those that lack something: they wait for another batch.
    pub(super) busy: Vec<usize>,
    pub(super) later: Vec<usize>,
    /// Attempts that it hands out.
    pub(super) handed_out: Vec<(AttemptId, Worker, u32)>,
    /// Attempts whose last word it has heard.
    pub(super) ended: Vec<(AttemptId, Worker, u32)>,
    /// A time without answers that ends with it.
    pub(super) downtime: Option<Downtime>,
    /// What it does about the clock.
    pub(super) clock: ClockWork,
    /// What somebody else had: what could not be done with it is tried again, also when nothing else is to be done.
    pub(super) met_busy: FxHashSet<ThingRef>,
    /// How much of each kind it has taken, and what it has decided if that is one thing.
    pub(crate) counts: WorkCounts,
    pub(crate) suspect: Option<Suspect>,
    /// A claim came to nothing, so that the room for it is free again.
    pub(super) is_claim_void: bool,
    /// What is said about runs that are set aside, and is heard when they are not any more.
    pub(super) held: Vec<(RunId, Request)>,
    /// Runs that were set aside and are not any more.
    pub(super) released: Vec<RunId>,
}

impl OutstandingBatch {
    /// Takes over what has happened in the batch so far, so that events and answers are told in the order of their decisions.
    pub(super) fn take_happened(&mut self, batch: &mut Batch) {
        self.tally.append(&mut batch.tally);
        self.outputs.extend(batch.happened.drain(..).map(|(run, event)| Output::Happened { run, event }));
    }
}

impl<S: Store> Engine<S> {
    /// A batch is staged: its requests have left the line, but for those that wait for another batch.
    pub(super) fn staged(&mut self, mut done: OutstandingBatch) {
        self.clock.staged(&done.clock, self.set_aside_count() > 0);
        let (mut busy, mut later) = (Vec::new(), Vec::new());
        for (place, request) in std::mem::take(&mut done.requests).into_iter().enumerate() {
            if done.busy.contains(&place) {
                busy.push(request);
            } else if done.later.contains(&place) {
                later.push(request);
            } else if request.ticket().is_none() {
                done.requests.push(request);
            }
        }
        if !done.met_busy.is_empty() || !busy.is_empty() {
            self.busy.wait(busy, &done.met_busy, self.now);
        } else {
            self.busy.forget_earlier_tries();
        }
        self.put_back_in_line(later);
        self.batch_limit = self.batch_limit.saturating_mul(2).min(self.settings.max_batch);
        self.more |= done.stage.is_some() || !done.ended.is_empty();
        self.record_staged_aside(&mut done);
        self.passed(&done);
        if done.stage.is_some() || !done.outputs.is_empty() {
            done.staged_at = Some(Instant::now());
            self.outstanding.push_back(done);
        }
    }

    /// A batch was not staged: who has room is as it was before.
    pub(super) fn restore_offers(&mut self, done: &OutstandingBatch) {
        for (attempt, _, _) in &done.handed_out {
            self.handed_out.remove(attempt);
        }
        for (attempt, worker, load) in &done.ended {
            self.handed_out.insert(*attempt, (worker.clone(), *load));
        }
        self.offers.set_answering(None);
        self.offers.reset_room(self.handed_out.values().map(|(worker, load)| (worker, *load)));
    }

    /// Takes in what the store says of staged batches, each by its id: what became of one may be known long after what
    /// became of those that were staged after it.
    pub(super) fn settle(&mut self, wait: bool) -> Vec<Output> {
        let (mut outputs, mut again) = (Vec::new(), Vec::new());
        for settled in self.store.settle(wait) {
            telemetry::settled(&settled, self.trouble.as_ref());
            self.release_unstaged(&mut outputs);
            let is_this = |batch: &OutstandingBatch| batch.stage == Some(settled.stage);
            let Some(place) = self.outstanding.iter().position(is_this) else { continue };
            match &settled.result {
                Ok(()) => {
                    if let Some(mut done) = self.outstanding.remove(place) {
                        telemetry::handed_out(&done);
                        let took = done.staged_at.map(|at| at.elapsed()).unwrap_or_default();
                        self.metrics.add(done.counts.total(), took, std::mem::take(&mut done.tally));
                        outputs.append(&mut done.outputs);
                    }
                }
                Err(error) => again.extend(self.undo_from(place, error, &mut outputs)),
            }
            match settled.result {
                Ok(()) => self.trouble = None,
                Err(error) if error.is_transient() => {
                    self.session.begin_downtime(self.store_time());
                    self.retry_at = Some(self.now + STORE_RETRY);
                    self.trouble = Some(error);
                }
                Err(StoreError::SessionEnded) => self.lose_session(&mut outputs),
                Err(error) => self.stopped = Some(error),
            }
        }
        // Before all that came since, in the order in which it was heard first.
        self.put_back_in_line(again);
        self.release_unstaged(&mut outputs);
        outputs
    }

    /// Batches that changed nothing are answered once all that they may have seen is durable.
    fn release_unstaged(&mut self, outputs: &mut Vec<Output>) {
        while self.outstanding.front().is_some_and(|front| front.stage.is_none()) {
            if let Some(mut done) = self.outstanding.pop_front() {
                outputs.append(&mut done.outputs);
            }
        }
    }

    /// The batch at this place is gone, and what stood on it and changed nothing was seen on what never was. Gives what is to
    /// be heard again.
    fn undo_from(&mut self, place: usize, error: &StoreError, outputs: &mut Vec<Output>) -> Vec<Request> {
        let mut again = Vec::new();
        while let Some(done) = self.outstanding.remove(place) {
            again.extend(self.undo(done, error, outputs));
            if self.outstanding.get(place).is_none_or(|next| next.stage.is_some()) {
                break;
            }
        }
        again
    }

    /// A batch is gone: its callers are told, its hand-outs taken back. Gives what is to be heard again.
    fn undo(
        &mut self,
        done: OutstandingBatch,
        error: &StoreError,
        outputs: &mut Vec<Output>,
    ) -> Vec<Request> {
        for (attempt, worker, load) in done.handed_out {
            if self.handed_out.remove(&attempt).is_some() {
                self.offers.release_room(&worker, load);
            }
        }
        self.session.restore_downtime(done.downtime);
        self.clock.undo_work(&done.clock);
        for output in done.outputs {
            if let Output::Reply { ticket, .. } = output {
                outputs.push(refusal(ticket, error));
            }
        }
        done.requests
    }

    /// The store could not take a batch, whatever is in it: callers are told.
    pub(super) fn store_failed(&mut self, error: StoreError, outputs: &mut Vec<Output>) {
        telemetry::store_failed(&error, self.trouble.is_some());
        match error {
            StoreError::Conflict(_) | StoreError::Full(_) | StoreError::Away(_) => {
                self.refuse_commands(&error, outputs);
                self.session.begin_downtime(self.store_time());
                self.retry_at = Some(self.now + STORE_RETRY);
                self.trouble = Some(error);
            }
            StoreError::Damaged(_) | StoreError::Broken(_) | StoreError::Closed => {
                self.refuse_all(&error, outputs);
                self.stopped = Some(error);
            }
            StoreError::SessionEnded => {
                self.refuse_all(&error, outputs);
                self.lose_session(outputs);
            }
        }
    }

    pub(super) fn refuse_all(&mut self, error: &StoreError, outputs: &mut Vec<Output>) {
        self.refuse_commands(error, outputs);
        self.inbox.clear();
        self.busy = BusyRequests::default();
    }

    /// Callers are told; what executors say stays in line.
    fn refuse_commands(&mut self, error: &StoreError, outputs: &mut Vec<Output>) {
        let mut keeps = |request: &Request| {
            let ticket = request.ticket();
            outputs.extend(ticket.map(|ticket| refusal(ticket, error)));
            ticket.is_none()
        };
        self.busy.retain(&mut keeps);
        self.inbox.retain(keeps);
    }
}

fn refusal(ticket: Ticket, error: &StoreError) -> Output {
    Output::Reply { ticket, result: Err(EngineError::Store(error.clone())) }
}
