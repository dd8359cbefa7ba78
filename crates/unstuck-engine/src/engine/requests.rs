//! What was asked, and what executors say: taken in order, and kept in line until the batch is staged.

use unstuck_core::command::{Command, Start, StartInput};
use unstuck_core::decide::Answer;
use unstuck_core::id::RunId;
use unstuck_core::model::run::Origin;
use unstuck_store::contract::{Store, StoreError};

use super::Engine;
use super::isolation::{Suspect, WorkKind};
use super::settling::OutstandingBatch;
use crate::batch::{Batch, Undecided};
use crate::executor::ExecutorReport;
use crate::request::{EngineError, Output, Request, StartRun};

impl<S: Store> Engine<S> {
    /// What was asked, in order. It stays in line until the batch is staged.
    pub(super) fn decide_requests(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        limit: usize,
    ) -> Result<(), StoreError> {
        done.requests = self.inbox.len().min(limit);
        let requests: Vec<Request> = self.inbox.iter().take(done.requests).cloned().collect();
        done.counts.add(WorkKind::Request, requests.len());
        if !requests.is_empty() {
            done.suspect = Some(Suspect::Request);
        }
        let runs = requests.iter().filter_map(Request::run).collect();
        batch.lock(&mut self.batch_context(), runs)?;
        for (place, request) in requests.into_iter().enumerate() {
            self.decide_request(batch, done, request, place)?;
            batch.deliver_all(&mut self.batch_context())?;
        }
        Ok(())
    }

    fn decide_request(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        request: Request,
        place: usize,
    ) -> Result<(), StoreError> {
        let (ticket, result) = match request {
            Request::Start { ticket, start } => (Some(ticket), self.decide_start(batch, start)),
            Request::Command { ticket, run, command } => {
                (Some(ticket), self.decide_command(batch, done, run, command))
            }
            Request::Forget { ticket, runs } => {
                let result = batch.forget(&mut self.batch_context(), &runs, None);
                if result.is_ok() && self.set_aside_count() > 0 {
                    done.released.extend(runs.iter().map(|(run, _)| *run));
                }
                (Some(ticket), result)
            }
            Request::Bulk { ticket, bulk, command } => {
                (Some(ticket), batch.change_bulk(&mut self.batch_context(), bulk, command))
            }
            Request::Lost { attempt, with_others } => {
                done.losses.push((attempt, with_others));
                let command = Command::Lost { attempt, with_others };
                let result = self.decide_unless_set_aside(batch, attempt.run, command);
                if must_be_kept(&result) {
                    done.held.push((attempt.run, Request::Lost { attempt, with_others }));
                }
                (None, result)
            }
            Request::Executor(word) => {
                done.words.push(word.clone());
                (None, self.decide_report(batch, done, word)?)
            }
        };
        let result = match result {
            Err(Undecided::Busy) => {
                done.busy.push(place);
                return Ok(());
            }
            Err(Undecided::Aside) => return Ok(()),
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Err(Undecided::Error(error)) => Err(error),
            Ok(answer) => Ok(answer),
        };
        if let Some(ticket) = ticket {
            done.outputs.push(Output::Reply { ticket, result });
        }
        Ok(())
    }

    fn decide_start(&mut self, batch: &mut Batch, start: StartRun) -> Result<Answer, Undecided> {
        let flow = self.flows.newest(&mut self.store, &start.flow).map_err(Undecided::Error)?;
        let known = match &start.key {
            Some(key) => batch.run_of_key(&mut self.batch_context(), &flow.name, key)?,
            None => None,
        };
        let run = known.unwrap_or_else(|| RunId(self.ids.next(self.last)));
        if known.is_none() {
            batch.expect_new(run);
        }
        let command = Command::Start(Box::new(Start {
            run,
            key: start.key.clone(),
            input: StartInput::New(start.input),
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

    /// What an executor of this process says. Its last word gives its room back, whether it is believed or not.
    fn decide_report(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        word: ExecutorReport,
    ) -> Result<Result<Answer, Undecided>, StoreError> {
        if let Some(attempt) = word.ended_attempt()
            && let Some((worker, load)) = self.handed_out.remove(&attempt)
        {
            self.offers.release_room(&worker, load);
            let queues = self.offers.of(&worker).map(|offer| offer.queues.clone());
            let waiting = match queues {
                Some(queues) => self.store.highest_waiting_priority(&queues)?,
                None => None,
            };
            self.offers.set_answering(Some((&worker, waiting)));
            done.ended.push((attempt, worker, load));
        }
        let last = word.ended_attempt();
        let result = match word {
            ExecutorReport::Report(attempt, says) => {
                self.decide_unless_set_aside(batch, attempt.run, Command::Report { attempt, report: says })
            }
            ExecutorReport::Lost(attempt) => self.decide_unless_set_aside(
                batch,
                attempt.run,
                Command::Lost { attempt, with_others: false },
            ),
            ExecutorReport::Freed(_) => Ok(Answer::Done),
        };
        self.offers.set_answering(None);
        if let Some(attempt) = last
            && must_be_kept(&result)
            && let Some(word) = done.words.last()
        {
            done.held.push((attempt.run, Request::Executor(word.clone())));
        }
        Ok(result)
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
        let decided = batch.decide(&mut self.batch_context(), run, command, None);
        // A refusal is a decision too: it did not go wrong.
        if is_aside && matches!(decided, Ok(_) | Err(Undecided::Error(EngineError::Refused(_)))) {
            done.released.push(run);
        }
        decided
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

/// Whether something that was said is to be heard later, when its run can be decided about.
fn must_be_kept(result: &Result<Answer, Undecided>) -> bool {
    match result {
        Err(Undecided::Aside) => true,
        Err(Undecided::Error(error)) => error.is_unusable_flow(),
        Ok(_) | Err(Undecided::Busy) => false,
    }
}
