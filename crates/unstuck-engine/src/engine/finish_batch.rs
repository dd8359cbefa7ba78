//! What comes of a batch: its transaction, and what is done once that is durable.

use unstuck_core::command::Report;
use unstuck_core::decide::Effect;
use unstuck_core::id::PayloadId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::error::{Error, Reason};
use unstuck_store::contract::{BatchId, Interrupt, Stage, Store, StoreError};

use super::settling::OutstandingBatch;
use super::{Engine, key_of};
use crate::batch::{Batch, PayloadRead, dispatches};
use crate::document::JobDetails;
use crate::executor::{ExecutorReport, Job};
use crate::request::{Output, Request};
use crate::session;

/// What is made for a worker that is handed an attempt.
enum NewJob {
    Job(Job),
    /// The attempt is not there any more.
    Gone,
    /// Nobody can work on it: its input is damaged.
    Damaged(String),
    /// These payloads are to be loaded first.
    Lacks(Vec<PayloadId>),
}

impl<S: Store> Engine<S> {
    /// The transaction of the batch, if there is anything to make durable; its outputs wait until it is.
    pub(super) fn finish_batch(
        &mut self,
        id: BatchId,
        mut batch: Batch,
        done: &mut OutstandingBatch,
    ) -> Result<Option<Stage>, StoreError> {
        done.take_happened(&mut batch);
        for (target, runs) in std::mem::take(&mut batch.gone) {
            done.outputs.push(Output::Forgotten { runs, target });
        }
        let effects = std::mem::take(&mut batch.effects);
        for (attempt, worker, load) in dispatches(&effects) {
            self.handed_out.insert(attempt, (worker.clone(), load));
            done.handed_out.push((attempt, worker.clone(), load));
        }
        if done.is_claim_void {
            // The room that it was to take is free.
            self.offers.reset_room(self.handed_out.values().map(|(worker, load)| (worker, *load)));
        }
        let interrupts = self.take_effects(id, &mut batch, done, effects)?;
        done.met_busy = batch.take_busy();
        done.released.append(&mut batch.released);
        // A run that is set aside can end: the store offers its notices again.
        done.released.extend(batch.runs_told_to_end().filter(|run| self.is_set_aside(*run)));
        let downtime = done.downtime.filter(session::is_worth_recording);
        // A store that was in trouble is over it when it has taken something, if only nothing at all.
        let is_probe = self.trouble.is_some() && self.outstanding.is_empty();
        let clock = self.clock.unrecorded();
        done.clock.is_recorded = clock.is_some();
        let uses = !self.token_uses.is_empty();
        if batch.has_changes() || downtime.is_some() || is_probe || clock.is_some() || uses {
            let stage = batch.into_stage(self.store_time(), self.ids.last());
            // What is lost with a stage was used once more than is known: that is for people, to a minute.
            let token_uses = self.token_uses.drain().collect();
            return Ok(Some(Stage { downtime, clock, interrupts, token_uses, ..stage }));
        }
        self.store.abandon(id, batch.into_runs());
        Ok(None)
    }

    /// Makes outputs of what decisions want done. Gives whom other servers are to interrupt.
    fn take_effects(
        &mut self,
        id: BatchId,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        effects: Vec<Effect>,
    ) -> Result<Vec<Interrupt>, StoreError> {
        let (mut interrupts, mut lacking, mut lacked) = (Vec::new(), Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Dispatch { attempt, worker, .. } => {
                    let job = self.job_for(batch, attempt, &worker);
                    if let Some(payloads) = self.take_job(done, attempt, &worker, job) {
                        lacked.extend(payloads);
                        lacking.push((attempt, worker));
                    }
                }
                Effect::Interrupt { attempt, worker, why } if self.is_elsewhere(&worker) => {
                    interrupts.push(Interrupt { worker, attempt, why });
                }
                Effect::Interrupt { attempt, worker, why } => {
                    done.outputs.push(Output::Interrupt { worker, attempt, why });
                }
            }
        }
        if !lacking.is_empty() {
            batch.load_payloads(&mut self.store, id, lacked)?;
        }
        for (attempt, worker) in lacking {
            let job = self.job_for(batch, attempt, &worker);
            self.take_job(done, attempt, &worker, job);
        }
        Ok(interrupts)
    }

    /// Gives the payloads that the job lacks, if it does.
    fn take_job(
        &mut self,
        done: &mut OutstandingBatch,
        attempt: AttemptId,
        worker: &Worker,
        job: NewJob,
    ) -> Option<Vec<PayloadId>> {
        match job {
            NewJob::Job(job) => done.outputs.push(Output::Dispatch { worker: worker.clone(), job }),
            NewJob::Gone => {}
            // It has failed, and is told as its worker would.
            NewJob::Damaged(what) => self.inbox.push_back(report_unreadable_input(attempt, what)),
            NewJob::Lacks(payloads) => return Some(payloads),
        }
        None
    }

    fn job_for(&self, batch: &Batch, attempt: AttemptId, worker: &Worker) -> NewJob {
        let Some((run, flow)) = batch.run(attempt.run) else { return NewJob::Gone };
        let Some(unit) = run.unit(attempt.unit) else { return NewJob::Gone };
        let (mut lacks, mut damaged) = (Vec::new(), None);
        let mut read = |payload: &_| match batch.read_payload(payload) {
            PayloadRead::Here(json) => json,
            PayloadRead::Damaged(what) => {
                damaged = Some(what);
                Json::NULL
            }
            PayloadRead::Missing(id) => {
                lacks.push(id);
                Json::NULL
            }
        };
        let input = read(unit.input.as_ref().unwrap_or(&run.input));
        let details = self.want_details.get(&key_of(worker)).map(|history| {
            let signer = &self.session.signer;
            Box::new(JobDetails::gather(run, attempt, worker, signer, *history, &mut read))
        });
        if let Some(what) = damaged {
            return NewJob::Damaged(what);
        }
        if !lacks.is_empty() {
            return NewJob::Lacks(lacks);
        }
        NewJob::Job(Job { attempt, flow: flow.clone(), input, deadline: run.deadline, details })
    }
}

/// What is said of an attempt whose input is damaged.
fn report_unreadable_input(attempt: AttemptId, what: String) -> Request {
    let error = Error { reason: Reason::Data, ..Error::new(what) };
    Request::Executor(ExecutorReport::Report(attempt, Report::Fail { error: Box::new(error), fatal: true }))
}
