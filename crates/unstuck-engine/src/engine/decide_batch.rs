//! A batch whose runs are loaded is decided: everything once, then what lacked something that had to be loaded.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustc_hash::FxHashSet;
use unstuck_core::command::Command;
use unstuck_core::decide::Withheld;
use unstuck_core::id::RunId;
use unstuck_core::time::Time;
use unstuck_store::contract::{BatchId, Due, Loaded, NoticeId, Stage, Store, StoreError};

use super::isolation::{BatchFailure, Suspect, WorkKind, panic_message};
use super::settling::OutstandingBatch;
use super::under_way::{BatchPlan, UnderWay};
use super::{Engine, flow_unusable, telemetry};
use crate::batch::{Batch, Deferred, Undecided};
use crate::executor::ExecutorReport;
use crate::request::{EngineError, Output, Request};

impl<S: Store> Engine<S> {
    /// Decides and stages the batches that are loaded.
    pub(super) fn decide_loaded(&mut self, outputs: &mut Vec<Output>) {
        while let Some((id, loaded)) = self.store.loaded() {
            let Some(place) = self.under_way.iter().position(|batch| batch.id == id) else {
                // Nobody knows of it any more.
                self.store.rollback(id);
                continue;
            };
            let UnderWay { plan, .. } = self.under_way.remove(place);
            match loaded {
                Ok(loaded) => self.decide_and_stage(id, plan, loaded, outputs),
                Err(error) => self.ask_failed(plan, BatchFailure::Store(error), outputs),
            }
        }
    }

    fn decide_and_stage(
        &mut self,
        id: BatchId,
        mut plan: BatchPlan,
        mut loaded: Loaded,
        outputs: &mut Vec<Output>,
    ) {
        let interrupts = std::mem::take(&mut loaded.interrupts);
        outputs.extend(interrupts.into_iter().map(super::keep_session::interrupt));
        let requests = std::mem::take(&mut plan.requests);
        let mut done = OutstandingBatch { requests, ..OutstandingBatch::default() };
        let watch = telemetry::Stopwatch::start();
        match self.decide_contained(id, &plan, loaded, &mut done) {
            Ok(()) => {
                telemetry::staged(&done, &watch);
                self.staged(done);
            }
            Err(failure) => {
                self.store.rollback(id);
                self.more |= plan.had_more;
                self.session.restore_downtime(done.downtime);
                self.clock.undo_work(&done.clock);
                self.restore_offers(&done);
                self.put_back_in_line(std::mem::take(&mut done.requests));
                self.failed(failure, &done, outputs);
            }
        }
    }

    /// One batch. A panic in it is a defect of ours, and takes nothing but this batch with it: whatever was changed in
    /// memory is read again from the store. The store itself is another matter, so that its stage is not within.
    fn decide_contained(
        &mut self,
        id: BatchId,
        plan: &BatchPlan,
        loaded: Loaded,
        done: &mut OutstandingBatch,
    ) -> Result<(), BatchFailure> {
        let decided = catch_unwind(AssertUnwindSafe(|| self.decide_batch(id, plan, loaded, done)));
        self.decided_at = None;
        let stage = decided
            .map_err(|panic| BatchFailure::Panic(panic_message(&*panic)))?
            .map_err(BatchFailure::Store)?;
        if let Some(stage) = stage {
            done.stage = Some(self.store.stage(id, stage).map_err(BatchFailure::Store)?);
        }
        for (due, until) in done.withheld.drain(..) {
            self.store.withhold(&due, until);
            self.has_waiting |= until == Withheld::ForTurn;
        }
        Ok(())
    }

    /// One batch: what waits for executors, who may be admitted, what runs have to tell each other, what was asked and
    /// said, what is due (after what was said: who has ended in time has ended), and what bulk actions do next. Or one
    /// thing of one of these kinds.
    fn decide_batch(
        &mut self,
        id: BatchId,
        plan: &BatchPlan,
        mut loaded: Loaded,
        done: &mut OutstandingBatch,
    ) -> Result<Option<Stage>, StoreError> {
        self.follow_clock_of_store(plan.wants.now, loaded.now);
        self.refresh_for_batch(loaded.versions)?;
        self.set_decision_time(loaded.now);
        if loaded.has_older_session != self.turns.is_elsewhere() {
            self.turns.restart(loaded.has_older_session);
        }
        let taken = loaded.last_seen.filter(|_| self.session.lease.is_some());
        done.downtime = self.session.end_downtime(self.current_store_time(), taken);
        let mut batch = Batch::new(id, self.is_watched, self.ids.last(), &plan.wants, &mut loaded);
        self.decide_first_round(plan, loaded, &mut batch, done)?;
        if batch.lacks_something() {
            self.decide_last_round(id, &mut batch, done)?;
        }
        batch.fold_results(&mut self.batch_context())?;
        for (run, flow, error) in std::mem::take(&mut batch.unusable) {
            match error {
                _ if batch.has_ended(run) => {}
                EngineError::Damaged(what) => self.set_aside(run, None, &what),
                error => self.set_aside(run, flow, &flow_unusable(&error.to_string())),
            }
        }
        self.finish_batch(id, batch, done)
    }

    /// A store that has no clock of its own gives back the time that it was asked with, whatever was set since.
    fn follow_clock_of_store(&mut self, asked: Time, now: Time) {
        if self.session.store_time.is_some() {
            self.ahead = Some(now.0.saturating_sub(asked.0));
        }
    }

    /// A batch is decided at the time that it was loaded at, on what it was given then: others may have changed things since.
    /// Where this server knows of such a change, it is decided after that.
    fn set_decision_time(&mut self, loaded: Time) {
        if self.session.store_time.is_some() {
            self.decided_at = Some(loaded.max(self.known_at.min(self.current_store_time())));
        }
    }

    fn decide_first_round(
        &mut self,
        plan: &BatchPlan,
        loaded: Loaded,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
    ) -> Result<(), StoreError> {
        let Loaded { candidates, admissible, notices, due, .. } = loaded;
        done.counts.add(WorkKind::Claim, candidates.len());
        done.counts.add(WorkKind::Admission, admissible.len());
        let runs = candidates.iter().map(|candidate| candidate.ready.run).chain(admissible.iter().copied());
        done.suspect = runs.into_iter().next().map(Suspect::Run);
        for candidate in candidates {
            let worker = plan.wants.offers[candidate.offer].worker.clone();
            if !self.offers.take_from(&worker, &candidate.ready.entry()) {
                // Another batch has handed it something since this one has asked.
                self.more = true;
                continue;
            }
            let command = Command::Claim { unit: candidate.ready.unit, worker };
            self.decide_claim(batch, done, candidate.ready.run, command)?;
        }
        self.admit_in_order(batch, admissible)?;
        self.deliver_notices(batch, done, notices, plan.wants.notices)?;
        batch.stores_notices |= plan.alone.is_some();
        batch.deliver_all(&mut self.batch_context())?;
        if plan.looks_around && plan.alone.is_none() {
            self.follow_flows(batch, &done.requests)?;
        }
        self.decide_requests(batch, done)?;
        self.fire_due(batch, done, due)?;
        self.sweep_clock(batch, done, &plan.sweep)?;
        let bulk_limit = if plan.looks_around && plan.alone.is_none_or(|alone| alone == WorkKind::Bulk) {
            if plan.alone.is_some() { 1 } else { self.batch_limit }
        } else {
            0
        };
        self.advance_bulks(batch, done, bulk_limit)
    }

    /// What was missing is loaded, once: then the rest is decided, and what still lacks something waits for the next batch.
    fn decide_last_round(
        &mut self,
        id: BatchId,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
    ) -> Result<(), StoreError> {
        let deferred = batch.load_missing(&mut self.store, id)?;
        let mut has_bulks = false;
        for deferred in deferred {
            match deferred {
                Deferred::Claim(run, command) => self.decide_claim(batch, done, run, command)?,
                Deferred::Admission(run) => drop(self.decide_admission(batch, run)?),
                Deferred::Notice(id, notice) => {
                    batch.deliver_stored(&mut self.batch_context(), id, notice)?;
                }
                Deferred::Request(place) => {
                    let request = done.requests[place].clone();
                    self.decide_request(batch, done, request, place)?;
                }
                Deferred::Due(due) => self.decide_due(batch, done, due)?,
                Deferred::Sweep(run) => self.decide_sweep(batch, done, run)?,
                Deferred::Bulks => has_bulks = true,
            }
        }
        batch.deliver_again(&mut self.batch_context())?;
        let limit = match (has_bulks, self.isolation.is_some()) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => self.batch_limit,
        };
        self.advance_bulks(batch, done, limit)
    }

    /// What waits for an executor. A command that is refused is stale: nobody's loss.
    fn decide_claim(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        run: RunId,
        command: Command,
    ) -> Result<(), StoreError> {
        let mut tools = self.batch_context();
        let decided = match batch.prepare(&mut tools, run, &command, None) {
            Err(Undecided::Lacking) => {
                done.is_claim_void |= !batch.defer(Deferred::Claim(run, command));
                return Ok(());
            }
            Err(undecided) => Err(undecided),
            Ok(flow) => batch.decide_prepared(&mut tools, run, command, &flow),
        };
        match decided {
            Ok(_) => {}
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Err(Undecided::Busy | Undecided::Aside | Undecided::Lacking | Undecided::Error(_)) => {
                done.is_claim_void = true;
            }
        }
        Ok(())
    }

    /// Admits runs to their slots in the order in which they were found: each was found with room for those before it, and
    /// versions of a flow may differ in their limits. So behind one that lacks something, all wait for the last round.
    fn admit_in_order(&mut self, batch: &mut Batch, admissible: Vec<RunId>) -> Result<(), StoreError> {
        let mut is_decided = true;
        for run in admissible {
            if is_decided {
                is_decided = self.decide_admission(batch, run)?;
            } else {
                batch.defer(Deferred::Admission(run));
            }
        }
        Ok(())
    }

    /// Admits a run to its slot; false if it lacks something that must be loaded first.
    fn decide_admission(&mut self, batch: &mut Batch, run: RunId) -> Result<bool, StoreError> {
        match batch.decide(&mut self.batch_context(), run, Command::Admit, None) {
            Err(Undecided::Error(EngineError::Store(error))) => Err(error),
            Err(Undecided::Lacking) => {
                batch.defer(Deferred::Admission(run));
                Ok(false)
            }
            Ok(_) | Err(Undecided::Busy | Undecided::Aside | Undecided::Error(_)) => Ok(true),
        }
    }

    /// Notices that were stored. When there may be more than these, what is new waits behind them.
    fn deliver_notices(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        notices: Vec<(NoticeId, unstuck_core::command::Notice)>,
        limit: usize,
    ) -> Result<(), StoreError> {
        done.counts.add(WorkKind::Notice, notices.len());
        if let Some((id, notice)) = notices.first() {
            done.suspect = Some(Suspect::notice(*id, notice));
        }
        batch.stores_notices = limit > 0 && notices.len() == limit;
        for (id, notice) in notices {
            match self.condemned.get(&id) {
                Some(why) => batch.refuse_stored(id, &notice, why),
                None => batch.deliver_stored(&mut self.batch_context(), id, notice)?,
            }
        }
        Ok(())
    }

    /// What is due, but for runs about which somebody has said something that is still in line, or in a batch that is not
    /// loaded yet: that comes first.
    fn fire_due(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        mut due: Vec<Due>,
    ) -> Result<(), StoreError> {
        if !due.is_empty() && self.backlog() > 0 {
            let under_way = self.under_way.iter().flat_map(|batch| &batch.plan.requests);
            let in_line = self.inbox.iter().chain(self.busy.iter()).chain(under_way);
            let said: FxHashSet<RunId> = in_line.filter_map(reported_run).collect();
            due.retain(|due| !said.contains(&due.run));
        }
        done.counts.add(WorkKind::Due, due.len());
        if let Some(first) = due.first() {
            done.suspect = Some(Suspect::Run(first.run));
        }
        for due in due {
            self.decide_due(batch, done, due)?;
        }
        batch.deliver_all(&mut self.batch_context())
    }

    fn decide_due(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        due: Due,
    ) -> Result<(), StoreError> {
        let command = Command::Due { unit: due.unit, heard: due.heard };
        match batch.decide(&mut self.batch_context(), due.run, command, None) {
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Err(Undecided::Lacking) => drop(batch.defer(Deferred::Due(due))),
            Ok(_) | Err(Undecided::Busy | Undecided::Aside | Undecided::Error(_)) => {}
        }
        if let Some(until) = batch.withheld.take() {
            done.withheld.push((due, until));
        }
        Ok(())
    }
}

/// The run about which a worker says something.
fn reported_run(request: &Request) -> Option<RunId> {
    match request {
        Request::Executor(
            ExecutorReport::Report(attempt, _)
            | ExecutorReport::Lost(attempt)
            | ExecutorReport::Freed(attempt),
        )
        | Request::Lost { attempt, .. }
        | Request::Command { command: Command::Report { attempt, .. }, .. } => Some(attempt.run),
        Request::Start { .. }
        | Request::Command { .. }
        | Request::Forget { .. }
        | Request::Bulk { .. }
        | Request::Schedule { .. } => None,
    }
}
