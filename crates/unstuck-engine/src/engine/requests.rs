//! What was asked, and what executors say: taken in order, and in line again where the batch comes to nothing.

use std::sync::Arc;

use unstuck_core::command::{Command, Start, StartInput};
use unstuck_core::decide::Answer;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::run::Origin;
use unstuck_store::contract::{Store, StoreError};

use super::Engine;
use super::isolation::{Suspect, WorkKind};
use super::settling::OutstandingBatch;
use crate::batch::{Batch, Deferred, Undecided};
use crate::call::{Call, Subject};
use crate::executor::ExecutorReport;
use crate::request::{EngineError, Output, Request, StartRun};

impl<S: Store> Engine<S> {
    /// What was asked, in order.
    pub(super) fn decide_requests(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
    ) -> Result<(), StoreError> {
        done.counts.add(WorkKind::Request, done.requests.len());
        if !done.requests.is_empty() {
            done.suspect = Some(Suspect::Request);
        }
        for place in 0..done.requests.len() {
            let request = done.requests[place].clone();
            self.decide_request(batch, done, request, place)?;
            batch.deliver_all(&mut self.batch_context())?;
        }
        Ok(())
    }

    pub(super) fn decide_request(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        request: Request,
        place: usize,
    ) -> Result<(), StoreError> {
        // Whoever is answered was decided about after this.
        done.take_happened(batch);
        let call = self.call_of(&request).cloned().zip(Subject::of(&request));
        if let Some((call, subject)) = &call
            && let Err(undecided) = batch.check_call(call, subject, self.store_time())
        {
            refuse_call(done, &request, place, undecided);
            return Ok(());
        }
        let before = call.as_ref().and(request.run()).and_then(|run| batch.mark_of(run));
        let (ticket, result) = match request {
            Request::Start { ticket, start } => (Some(ticket), self.decide_start(batch, start)),
            Request::Command { ticket, run, command } => {
                (Some(ticket), self.decide_command(batch, done, run, command))
            }
            Request::Forget { ticket, runs } => (Some(ticket), self.decide_forget(batch, done, &runs)),
            Request::Bulk { ticket, bulk, command } => {
                (Some(ticket), batch.change_bulk(&mut self.batch_context(), bulk, command))
            }
            Request::Schedule { ticket, flow, command } => {
                (Some(ticket), self.change_schedule(batch, &flow, command))
            }
            Request::Lost { attempt, with_others } => {
                let command = Command::Lost { attempt, with_others };
                let result = self.decide_unless_set_aside(batch, attempt.run, command);
                if must_be_kept(&result) {
                    done.held.push((attempt.run, Request::Lost { attempt, with_others }));
                }
                (None, result)
            }
            Request::Executor(word) => (None, self.decide_report(batch, done, word, place)),
        };
        let result = match result {
            Err(Undecided::Busy) => {
                done.busy.push(place);
                return Ok(());
            }
            Err(Undecided::Lacking) => {
                if !batch.defer(Deferred::Request(place)) {
                    done.later.push(place);
                }
                return Ok(());
            }
            Err(Undecided::Aside) => return Ok(()),
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Err(Undecided::Error(error)) => Err(error),
            Ok(answer) => {
                if let Some((call, subject)) = &call {
                    batch.record_call(call, subject, answer, before, self.store_time());
                }
                Ok(answer)
            }
        };
        if let Some(ticket) = ticket {
            done.outputs.push(Output::Reply { ticket, result });
        }
        Ok(())
    }

    /// Somebody removes a run, with all that belongs to it.
    fn decide_forget(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        runs: &[(RunId, u64)],
    ) -> Result<Answer, Undecided> {
        let result = batch.forget(runs, None);
        if result.is_ok() && self.set_aside_count() > 0 {
            done.released.extend(runs.iter().map(|(run, _)| *run));
        }
        result
    }

    /// What comes with a request, if anything does.
    pub(super) fn call_of(&self, request: &Request) -> Option<&Arc<Call>> {
        if self.calls.is_empty() {
            return None;
        }
        self.calls.get(&request.ticket()?)
    }

    pub(super) fn decide_start(&mut self, batch: &mut Batch, start: StartRun) -> Result<Answer, Undecided> {
        let flow = match &start.version {
            None => self.flows.newest(&mut self.store, &start.flow),
            Some(version) => self.flows.version(&mut self.store, &start.flow, version),
        };
        let flow = flow.map_err(Undecided::Error)?;
        let known = start.key.as_ref().and_then(|key| batch.run_of_key(&flow.name, key));
        let run = known.unwrap_or_else(|| RunId(self.ids.next(self.store_time())));
        if known.is_none() {
            batch.expect_new(run);
        }
        let command = Command::Start(Box::new(Start {
            run,
            key: start.key.clone(),
            input: StartInput::New(start.input),
            labels: start.labels,
            priority: start.priority,
            deadline: start.deadline,
            origin: Origin::Root,
            root_flow: None,
            nesting: None,
            home: start.home,
            on_duplicate: start.on_duplicate,
            by: start.by,
        }));
        let name = flow.name.clone();
        let answer = batch.decide(&mut self.batch_context(), run, command, Some(flow))?;
        if let Some(key) = &start.key {
            batch.register_key(&name, key, run);
        }
        Ok(answer)
    }

    /// What an executor of this process says. About a run that is set aside it is heard later.
    fn decide_report(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        word: ExecutorReport,
        place: usize,
    ) -> Result<Answer, Undecided> {
        let last = word.ended_attempt();
        let asked = match word {
            ExecutorReport::Report(attempt, report) => {
                Some((attempt.run, Command::Report { attempt, report }))
            }
            ExecutorReport::Lost(attempt) => {
                Some((attempt.run, Command::Lost { attempt, with_others: false }))
            }
            ExecutorReport::Freed(_) => None,
        };
        let result = match &asked {
            Some((run, _)) if self.is_set_aside(*run) => {
                self.release_room_of(batch, done, last);
                Err(Undecided::Aside)
            }
            Some(_) | None => self.decide_and_release(batch, done, last, asked),
        };
        self.offers.set_answering(None);
        if let Some(attempt) = last
            && must_be_kept(&result)
        {
            done.held.push((attempt.run, done.requests[place].clone()));
        }
        result
    }

    /// Decides what is said about an attempt. If it is the last word about it, its room is given back, whether it is believed
    /// or not, and its worker is the first to be handed what follows from it.
    fn decide_and_release(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        last: Option<AttemptId>,
        asked: Option<(RunId, Command)>,
    ) -> Result<Answer, Undecided> {
        let prepared = match &asked {
            Some((run, command)) => batch.prepare(&mut self.batch_context(), *run, command, None).map(Some),
            None => Ok(None),
        };
        if let Err(Undecided::Lacking) = prepared {
            return Err(Undecided::Lacking);
        }
        self.release_room_of(batch, done, last);
        let result = match (prepared, asked) {
            (Ok(Some(flow)), Some((run, command))) => {
                batch.decide_prepared(&mut self.batch_context(), run, command, &flow)
            }
            (Ok(_), _) => Ok(Answer::Done),
            (Err(undecided), _) => Err(undecided),
        };
        self.offers.set_answering(None);
        result
    }

    /// An attempt has ended: its worker has its room again, and answers until that is said to be over.
    fn release_room_of(&mut self, batch: &Batch, done: &mut OutstandingBatch, ended: Option<AttemptId>) {
        if let Some(attempt) = ended
            && let Some((worker, load)) = self.handed_out.remove(&attempt)
        {
            self.offers.release_room(&worker, load);
            let offer = self.offers.of(&worker);
            let waiting = offer.and_then(|offer| batch.highest_waiting(&offer.queues));
            self.offers.set_answering(Some((&worker, waiting)));
            done.ended.push((attempt, worker, load));
        }
    }

    /// Somebody asks something of a run. One that is set aside is tried all the same, and is set aside no longer if that can
    /// be decided.
    fn decide_command(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        run: RunId,
        command: Command,
    ) -> Result<Answer, Undecided> {
        let is_aside = self.is_set_aside(run);
        if is_aside {
            self.retry_flow_of(run);
        }
        let ended = self.attempt_ended_by_caller(&command);
        let decided = self.decide_and_release(batch, done, ended, Some((run, command)));
        // A refusal is a decision too: it did not go wrong.
        if is_aside && matches!(decided, Ok(_) | Err(Undecided::Error(EngineError::Refused(_)))) {
            done.released.push(run);
        }
        decided
    }

    /// The attempt whose room this command gives back: the last word of a worker that calls. Whoever is here all the time
    /// says by itself when it has room again.
    pub(super) fn attempt_ended_by_caller(&self, command: &Command) -> Option<AttemptId> {
        let Command::Report { attempt, report } = command else { return None };
        let (worker, _) = self.handed_out.get(attempt).filter(|_| report.ends_attempt())?;
        self.offers.is_caller(worker).then_some(*attempt)
    }

    /// Decides what was said about a run, unless that is set aside.
    fn decide_unless_set_aside(
        &mut self,
        batch: &mut Batch,
        run: RunId,
        command: Command,
    ) -> Result<Answer, Undecided> {
        if self.is_set_aside(run) {
            return Err(Undecided::Aside);
        }
        batch.decide(&mut self.batch_context(), run, command, None)
    }
}

/// A request is not decided, for what comes with it: it is answered, or tried again.
fn refuse_call(done: &mut OutstandingBatch, request: &Request, place: usize, undecided: Undecided) {
    match (undecided, request.ticket()) {
        (Undecided::Error(error), Some(ticket)) => {
            done.outputs.push(Output::Reply { ticket, result: Err(error) });
        }
        (Undecided::Busy | Undecided::Lacking | Undecided::Aside | Undecided::Error(_), _) => {
            done.busy.push(place);
        }
    }
}

/// Whether something that was said is to be heard later, when its run can be decided about.
fn must_be_kept(result: &Result<Answer, Undecided>) -> bool {
    match result {
        Err(Undecided::Aside) => true,
        Err(Undecided::Error(error)) => error.is_unusable_flow(),
        Ok(_) | Err(Undecided::Busy | Undecided::Lacking) => false,
    }
}
