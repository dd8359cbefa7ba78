//! What comes with the requests of a batch: conditions, what was done before under their keys, and what is recorded of them.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use unstuck_core::decide::Answer;
use unstuck_core::id::RunId;
use unstuck_core::time::Time;
use unstuck_store::contract::{
    AuditChange, AuditRecord, CallOutcome, IdempotencyRecord, KeyUse, Loaded, Wants,
};

use super::{Batch, Undecided};
use crate::call::{Call, RunMark, Subject, values};
use crate::request::EngineError;

/// What is known and recorded of requests.
#[derive(Default)]
pub(super) struct BatchCalls {
    /// What was done under keys, by scope and key: those that the store has told, and those of this batch.
    known: HashMap<(Arc<str>, Arc<str>), KeyUse>,
    pub(super) idempotency: Vec<IdempotencyRecord>,
    pub(super) audit: Vec<AuditRecord>,
}

impl BatchCalls {
    pub(super) fn of(wants: &Wants, loaded: &mut Loaded) -> BatchCalls {
        let found = std::mem::take(&mut loaded.idempotency);
        let known = wants.idempotency.iter().cloned().zip(found);
        BatchCalls { known: known.collect(), ..BatchCalls::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.idempotency.is_empty() && self.audit.is_empty()
    }
}

impl Batch {
    /// Refuses a request that was carried out before under its key, or whose run has another last event than it expects.
    pub(crate) fn check_call(&self, call: &Call, subject: &Subject, now: Time) -> Result<(), Undecided> {
        let key = call.idempotency.as_ref().map(|key| (key.scope.clone(), key.key.clone()));
        match key.and_then(|key| self.calls.known.get(&key)) {
            Some(KeyUse::Busy) => return Err(Undecided::Busy),
            Some(KeyUse::Used(record)) => call.check_replay(Some(record), now).map_err(Undecided::Error)?,
            Some(KeyUse::Free) | None => {}
        }
        match (subject, call.expected) {
            (Subject::Run { run, .. }, Some(expected)) => match self.mark_of(*run) {
                Some(mark) if mark != expected => Err(Undecided::Error(EngineError::Changed(*run))),
                // Whatever is not loaded is refused, or looked at again when it is.
                Some(_) | None => Ok(()),
            },
            (
                Subject::Start
                | Subject::Run { .. }
                | Subject::Forget(_)
                | Subject::Bulk { .. }
                | Subject::Schedule { .. },
                _,
            ) => Ok(()),
        }
    }

    /// Where a run stands as this batch leaves it.
    pub(crate) fn mark_of(&self, run: RunId) -> Option<RunMark> {
        let run = self.runs.get(&run)?.run.as_deref()?;
        Some(RunMark { generation: run.generation, seq: run.seq })
    }

    /// A request was not refused: what comes with it is recorded. What has changed nothing has no entry in the audit.
    pub(crate) fn record_call(
        &mut self,
        call: &Call,
        subject: &Subject,
        answer: Answer,
        before: Option<RunMark>,
        at: Time,
    ) {
        let already = answer == Answer::Already;
        let outcome = match (subject, answer) {
            (Subject::Start, Answer::Started(run)) => CallOutcome::Started { run, already: false },
            (Subject::Start, Answer::Exists(run)) => CallOutcome::Started { run, already: true },
            (Subject::Start, Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled) => {
                return;
            }
            (Subject::Schedule { .. }, Answer::Started(run)) => CallOutcome::Started { run, already: false },
            (Subject::Schedule { .. }, Answer::Exists(run)) => CallOutcome::Started { run, already: true },
            (Subject::Schedule { flow, .. }, _) => {
                CallOutcome::ScheduleChanged { flow: flow.clone(), already }
            }
            (Subject::Run { run, .. }, _) => CallOutcome::Changed { run: *run, already },
            (Subject::Forget(runs), _) => CallOutcome::Forgotten { runs: runs.clone() },
            (Subject::Bulk { bulk, .. }, _) => CallOutcome::BulkChanged { bulk: *bulk, already },
        };
        let entry = self.entry_of(call, subject, answer, before, at);
        self.calls.audit.extend(entry);
        if let Some(record) = call.record(at, outcome) {
            let name = (record.key.scope.clone(), record.key.key.clone());
            self.calls.known.insert(name, KeyUse::Used(record.clone()));
            self.calls.idempotency.push(record);
        }
    }

    fn entry_of(
        &self,
        call: &Call,
        subject: &Subject,
        answer: Answer,
        before: Option<RunMark>,
        at: Time,
    ) -> Option<AuditRecord> {
        match subject {
            Subject::Start => {
                let Answer::Started(run) = answer else { return None };
                let event = AuditChange::Event(self.mark_of(run)?.seq);
                call.entry(at, "run.start", (Some(run), None), None, event)
            }
            Subject::Run { run, verb, reason } => {
                let mark = self.mark_of(*run).filter(|mark| Some(*mark) != before)?;
                call.entry(at, verb, (Some(*run), None), reason.clone(), AuditChange::Event(mark.seq))
            }
            Subject::Forget(runs) => {
                let all: Vec<String> = runs.iter().map(ToString::to_string).collect();
                let change = values(Some(&json!({ "runs": all })), None);
                call.entry(at, "run.forget", (runs.first().copied(), None), None, change)
            }
            Subject::Schedule { flow, verb, reason } => {
                let (run, change) = match answer {
                    Answer::Started(run) => (Some(run), AuditChange::Event(self.mark_of(run)?.seq)),
                    Answer::Done => {
                        let was = *verb == "schedule.unpause";
                        let state = |is_paused: bool| json!({ "paused": is_paused });
                        (None, values(Some(&state(was)), Some(&state(!was))))
                    }
                    Answer::Already | Answer::Exists(_) | Answer::Scheduled(_) | Answer::Unscheduled => {
                        return None;
                    }
                };
                call.entry(at, verb, (run, Some(flow.clone())), reason.clone(), change)
            }
            Subject::Bulk { bulk, verb } => {
                let (was, is) = self.things.states_of(*bulk).filter(|_| answer == Answer::Done)?;
                let change = values(Some(&json!({ "state": was })), Some(&json!({ "state": is })));
                call.entry(at, verb, (None, Some(bulk.to_string().into())), None, change)
            }
        }
    }
}
