//! What comes with a request from outside: a condition, a key under which it may be repeated, and what the audit is told.

use std::sync::Arc;

use serde_json::Value;
use unstuck_core::command::Command;
use unstuck_core::event::Actor;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::policy::Policies;
use unstuck_core::schedule::ScheduleCommand;
use unstuck_core::time::Time;
use unstuck_store::contract::{
    AuditChange, AuditRecord, CallOrigin, CallOutcome, IdempotencyKey, IdempotencyRecord, Ledger, Store,
};

use crate::bulk::BulkCommand;
use crate::engine::Engine;
use crate::request::{EngineError, Request};

/// What comes with a request. Without any of it a request costs and leaves nothing more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// Only if this is the last event of the run: else it is refused as [`EngineError::Changed`].
    pub expected: Option<RunMark>,
    /// Only if policies are still so: else it is refused as [`EngineError::PoliciesChanged`].
    pub expected_policies: Option<PolicyMark>,
    /// If this stands for what was done before, that is the answer: [`EngineError::Replayed`].
    pub idempotency: Option<IdempotencyKey>,
    /// The entry of the audit, if it is to have one.
    pub audit: Option<AuditContext>,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMark {
    pub generation: u32,
    /// The number of its last event.
    pub seq: u64,
}

/// Where policies stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyMark {
    /// All of them: the number of their last change.
    Set(u64),
    /// One of them.
    One { id: Arc<str>, version: u32 },
}

impl PolicyMark {
    /// Returns whether policies with this last change are still so.
    pub fn fits(&self, policies: &Policies, last_change: u64) -> bool {
        match self {
            PolicyMark::Set(number) => *number == last_change,
            PolicyMark::One { id, version } => {
                policies.by_id(id).is_some_and(|policy| policy.version == *version)
            }
        }
    }
}

/// What the audit is told of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditContext {
    pub by: Actor,
    /// The reason, where the request itself has none.
    pub reason: Option<Arc<str>>,
    pub origin: CallOrigin,
}

/// The key of one of several things that are asked in one request: each is decided by itself, and repeated by itself.
pub fn key_of_item(key: &IdempotencyKey, place: usize) -> IdempotencyKey {
    // A key has no line breaks, so that this is nobody else's.
    IdempotencyKey { key: format!("{}\n{place}", key.key).into(), ..key.clone() }
}

/// What a request is about, for the audit and for its repeat.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Start,
    Run { run: RunId, verb: &'static str, reason: Option<Arc<str>> },
    Forget(Vec<RunId>),
    Bulk { bulk: BulkId, verb: &'static str },
    Schedule { flow: Arc<str>, verb: &'static str, reason: Option<Arc<str>> },
}

impl Subject {
    /// Of a request that somebody waits for.
    pub(crate) fn of(request: &Request) -> Option<Subject> {
        match request {
            Request::Start { .. } => Some(Subject::Start),
            Request::Command { run, command, .. } => {
                let reason = command.reason().map(Arc::from);
                Some(Subject::Run { run: *run, verb: verb(command), reason })
            }
            Request::Forget { runs, .. } => Some(Subject::Forget(runs.iter().map(|(run, _)| *run).collect())),
            Request::Bulk { bulk, command, .. } => {
                Some(Subject::Bulk { bulk: *bulk, verb: bulk_verb(*command) })
            }
            Request::Schedule { flow, command, .. } => {
                let (verb, reason) = match command {
                    ScheduleCommand::Pause { reason, .. } => ("schedule.pause", reason.clone()),
                    ScheduleCommand::Unpause => ("schedule.unpause", None),
                    ScheduleCommand::Fire { .. } => ("schedule.fire", None),
                };
                Some(Subject::Schedule { flow: flow.clone(), verb, reason })
            }
            Request::Executor(_) | Request::Lost { .. } => None,
        }
    }
}

fn verb(command: &Command) -> &'static str {
    match command {
        Command::Start(_) => "run.start",
        Command::Choose { .. } => "run.choose",
        Command::Resume { .. } => "run.resume",
        Command::Acknowledge { .. } => "run.ack",
        Command::Complete { .. } => "run.complete",
        Command::Skip { .. } => "run.skip",
        Command::ApplyPolicies { .. } => "run.applyPolicies",
        Command::Pause { .. } => "run.pause",
        Command::Unpause { .. } => "run.unpause",
        Command::Cancel { .. } => "run.cancel",
        Command::Amend { .. } => "run.amend",
        Command::Migrate { .. } => "run.migrate",
        Command::Signal { .. } => "run.signal",
        Command::Rerun { .. } => "run.rerun",
        Command::Admit
        | Command::Claim { .. }
        | Command::Report { .. }
        | Command::Lost { .. }
        | Command::Due { .. }
        | Command::Notice(_) => "run.work",
    }
}

fn bulk_verb(command: BulkCommand) -> &'static str {
    match command {
        BulkCommand::Pause => "bulk.pause",
        BulkCommand::Unpause => "bulk.unpause",
        BulkCommand::Cancel => "bulk.cancel",
    }
}

impl Call {
    /// What was done before under its key, or that the key stands for something else.
    pub(crate) fn check_replay(
        &self,
        known: Option<&IdempotencyRecord>,
        now: Time,
    ) -> Result<(), EngineError> {
        let (Some(key), Some(known)) = (&self.idempotency, known) else { return Ok(()) };
        if known.is_expired(now) {
            return Ok(());
        }
        if known.key.digest != key.digest {
            return Err(EngineError::KeyReused(key.key.clone()));
        }
        Err(EngineError::Replayed(Box::new(known.outcome.clone())))
    }

    /// The record of its key.
    pub(crate) fn record(&self, at: Time, outcome: CallOutcome) -> Option<IdempotencyRecord> {
        let key = self.idempotency.clone()?;
        Some(IdempotencyRecord { key, at, outcome })
    }

    /// The entry of the audit.
    pub(crate) fn entry(
        &self,
        at: Time,
        what: &str,
        about: (Option<RunId>, Option<Arc<str>>),
        reason: Option<Arc<str>>,
        change: AuditChange,
    ) -> Option<AuditRecord> {
        let AuditContext { by, reason: given, origin } = self.audit.clone()?;
        let (run, thing) = about;
        Some(AuditRecord { at, by, origin, what: what.into(), run, thing, reason: reason.or(given), change })
    }

    /// What is recorded of a change that is made between batches.
    pub(crate) fn ledger(&self, at: Time, outcome: CallOutcome, audit: Vec<AuditRecord>) -> Ledger {
        Ledger { idempotency: self.record(at, outcome), audit }
    }

    /// Where the request came from.
    pub(crate) fn origin(&self) -> CallOrigin {
        self.audit.as_ref().map(|audit| audit.origin.clone()).unwrap_or_default()
    }
}

/// What something was and is, as JSON.
pub(crate) fn values(before: Option<&Value>, after: Option<&Value>) -> AuditChange {
    AuditChange::Values { before: before.map(Json::of), after: after.map(Json::of) }
}

impl<S: Store> Engine<S> {
    /// Puts a request in line, with what comes with it.
    pub fn submit_call(&mut self, request: Request, call: Call) {
        if let Some(ticket) = request.ticket() {
            self.calls.insert(ticket, Arc::new(call));
        }
        self.submit(request);
    }

    /// Refuses what was done before under the same key, before something is changed between batches.
    pub(crate) fn check_key(&mut self, call: &Call) -> Result<(), EngineError> {
        let Some(key) = &call.idempotency else { return Ok(()) };
        let known = self.store.idempotency(&key.scope, &key.key)?;
        call.check_replay(known.as_ref(), self.store_time())
    }

    /// Records a request that came to nothing, because it was so already: a repeat comes to nothing too.
    pub(crate) fn record_unchanged(&mut self, call: &Call, outcome: CallOutcome) -> Result<(), EngineError> {
        if call.idempotency.is_some() {
            let ledger = call.ledger(self.store_time(), outcome, Vec::new());
            self.store.record(ledger)?;
        }
        Ok(())
    }
}
