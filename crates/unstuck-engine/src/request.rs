//! What goes into the engine, and what comes out of it.

use std::fmt;
use std::sync::Arc;

use unstuck_core::api_token::TokenRefusal;
use unstuck_core::bulk::BulkRef;
use unstuck_core::command::{Command, OnDuplicate};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::labels::Labels;
use unstuck_core::refusal::Refusal;
use unstuck_core::schedule::ScheduleCommand;
use unstuck_core::time::Time;
use unstuck_store::contract::{CallOutcome, PutFlowError, StoreError};

use crate::bulk::BulkCommand;
use crate::executor::{ExecutorReport, Job, LeftOver};
use crate::policies::BadPolicy;

/// Names a request until it is answered.
pub type Ticket = u64;

/// Something that is asked of the engine.
#[derive(Clone, Debug)]
pub enum Request {
    /// Start a run.
    Start {
        /// Answered with this.
        ticket: Ticket,
        /// What to start.
        start: StartRun,
    },
    /// A command for one run.
    Command {
        /// Answered with this.
        ticket: Ticket,
        run: RunId,
        /// What is asked of it.
        command: Command,
    },
    /// Remove a final run for good, with all that belongs to it.
    Forget {
        /// Answered with this.
        ticket: Ticket,
        /// The run, then its children and handlers, each with the number of its last event as it was seen.
        runs: Vec<(RunId, u64)>,
    },
    /// Somebody changes how a bulk action goes on.
    Bulk {
        /// Answered with this.
        ticket: Ticket,
        bulk: BulkId,
        /// What is done to it.
        command: BulkCommand,
    },
    /// Somebody pauses the schedule of a flow, lets it go on, or starts a run of it now.
    Schedule {
        /// Answered with this.
        ticket: Ticket,
        flow: Arc<str>,
        command: ScheduleCommand,
    },
    /// What an executor of this process says.
    Executor(ExecutorReport),
    /// The engine that had this attempt is gone, and its executors with it.
    Lost {
        attempt: AttemptId,
        /// Whether its worker had others too.
        with_others: bool,
    },
}

impl Request {
    /// Whom to answer, if somebody asked.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        match self {
            Request::Start { ticket, .. }
            | Request::Command { ticket, .. }
            | Request::Forget { ticket, .. }
            | Request::Bulk { ticket, .. }
            | Request::Schedule { ticket, .. } => Some(*ticket),
            Request::Executor(_) | Request::Lost { .. } => None,
        }
    }

    /// The run that it is about, if it is about one that is there.
    pub(crate) fn run(&self) -> Option<RunId> {
        match self {
            Request::Start { .. }
            | Request::Forget { .. }
            | Request::Bulk { .. }
            | Request::Schedule { .. } => None,
            Request::Command { run, .. } => Some(*run),
            Request::Lost { attempt, .. }
            | Request::Executor(
                ExecutorReport::Report(attempt, _)
                | ExecutorReport::Lost(attempt)
                | ExecutorReport::Freed(attempt),
            ) => Some(attempt.run),
        }
    }
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct StartRun {
    pub flow: Arc<str>,
    /// A version of it, if not the newest.
    pub version: Option<Arc<str>>,
    /// Unique in its flow, if given.
    pub key: Option<Arc<str>>,
    pub input: Json,
    /// Its own labels, beside those of its flow.
    pub labels: Option<Arc<Labels>>,
    /// Higher first.
    pub priority: i32,
    /// Its deadline, if not the flow's.
    pub deadline: Option<Time>,
    /// What to do when the key has a run already.
    pub on_duplicate: OnDuplicate,
    /// Where its local steps are executed, if not wherever the store is served.
    pub home: Option<Arc<str>>,
    /// Who starts it.
    pub by: Actor,
}

/// What the engine wants done, in order. Everything in it is durable.
#[derive(Debug)]
pub enum Output {
    /// Answer a request.
    Reply { ticket: Ticket, result: Result<Answer, EngineError> },
    /// Hand an attempt to an executor.
    Dispatch { worker: Worker, job: Job },
    /// Tell an executor that an attempt is no longer its own.
    Interrupt {
        worker: Worker,
        /// Which attempt.
        attempt: AttemptId,
        why: String,
    },
    /// A server on this host is gone: an executor of this name ends what it left running.
    CleanUp { worker: Arc<str>, left: Vec<LeftOver> },
    /// Something happened to a run.
    Happened { run: RunId, event: Event },
    /// A run is gone for good, with all that belonged to it.
    Forgotten {
        /// The run, then the others.
        runs: Vec<RunId>,
        /// The target of a bulk action that it was.
        target: Option<BulkRef>,
    },
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// It was refused; nothing was changed.
    Refused(Refusal),
    /// There is no such flow.
    UnknownFlow(Arc<str>),
    /// The flow has no such version that can be started.
    UnknownVersion { flow: Arc<str>, version: Arc<str> },
    /// The version of a flow is there with other content; nothing was changed.
    VersionTaken { flow: Arc<str>, version: Arc<str> },
    /// A flow, or a version of it, is not deleted, because so many runs of it are open.
    FlowInUse { flow: Arc<str>, version: Option<Arc<str>>, runs: u64 },
    /// The flow is there but cannot be used.
    BadFlow(String),
    /// The store could not keep it; nothing was changed. Of a broken one nobody knows: what was asked may be there when it is
    /// opened again.
    Store(StoreError),
    /// Something that it needs is damaged, in a sentence; nothing was changed, and everything else goes on.
    Damaged(String),
    /// Policies were refused; nothing was changed.
    BadPolicies(Vec<BadPolicy>),
    /// An order about tokens was refused; nothing was changed.
    BadToken(TokenRefusal),
    /// An order about a bulk action was refused, in a sentence; nothing was changed.
    BadBulk(String),
    /// The flow is not started by the clock.
    NoSchedule(Arc<str>),
    /// A schedule was to be fired, and its flow refuses the run, in a sentence.
    NotFired(Arc<str>),
    /// The run has changed since it was looked at; nothing was done.
    Changed(RunId),
    /// Policies have changed since they were looked at; nothing was done.
    PoliciesChanged,
    /// It was done before under the same idempotency key, and came to this; nothing was done now.
    Replayed(Box<CallOutcome>),
    /// The idempotency key stands for another request; nothing was done.
    KeyReused(Arc<str>),
    /// Deciding it panicked, as told; nothing was changed.
    Defect(String),
    /// Too much is waiting to be decided: try again later.
    Busy,
    /// The engine has stopped.
    Stopped,
}

impl EngineError {
    /// Whether the flow of a run cannot be used.
    pub(crate) fn is_unusable_flow(&self) -> bool {
        matches!(self, EngineError::BadFlow(_) | EngineError::UnknownFlow(_) | EngineError::Damaged(_))
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Refused(refusal) => refusal.fmt(f),
            EngineError::UnknownFlow(name) => write!(f, "there is no flow `{name}`; load its file first"),
            EngineError::UnknownVersion { flow, version } => {
                write!(f, "flow `{flow}` has no version {version} that can be started")
            }
            EngineError::VersionTaken { flow: name, version } => {
                PutFlowError::VersionTaken { name: name.clone(), version: version.clone() }.fmt(f)
            }
            EngineError::FlowInUse { flow, version, runs } => {
                let version =
                    version.as_ref().map_or_else(String::new, |version| format!("version {version} of "));
                let (open, them) = match *runs {
                    1 => ("1 run of it is".to_owned(), "it"),
                    runs => (format!("{runs} runs of it are"), "them"),
                };
                write!(
                    f,
                    "{version}flow `{flow}` is in use: {open} not final. Nothing was changed. Wait for {them}, or cancel {them} first"
                )
            }
            EngineError::BadFlow(problem) => write!(f, "the stored flow cannot be used: {problem}"),
            EngineError::Store(error) => error.fmt(f),
            EngineError::BadPolicies(problems) => {
                for (place, problem) in problems.iter().enumerate() {
                    let between = if place > 0 { "\n" } else { "" };
                    write!(f, "{between}{problem}")?;
                }
                Ok(())
            }
            EngineError::BadToken(refusal) => refusal.fmt(f),
            EngineError::Damaged(sentence) | EngineError::BadBulk(sentence) => f.write_str(sentence),
            EngineError::NoSchedule(flow) => {
                write!(f, "flow `{flow}` has no schedule. Add `schedule:` to its file and apply it")
            }
            EngineError::NotFired(why) => write!(f, "no run was started: {why}"),
            EngineError::Changed(run) => {
                write!(f, "{run} changed in the meantime. Nothing was done. Repeat the command")
            }
            EngineError::PoliciesChanged => f.write_str(
                "the policies changed in the meantime. Nothing was done. Look at them again, and repeat the command",
            ),
            EngineError::Replayed(_) => {
                f.write_str("this was done before under the same idempotency key. Nothing was changed")
            }
            EngineError::KeyReused(key) => write!(
                f,
                "idempotency key `{key}` was used for another request. Nothing was changed. Use a new key"
            ),
            EngineError::Defect(message) => write!(
                f,
                "Unstuck has a bug here: {message}. Nothing was changed. Please report it with this text"
            ),
            EngineError::Busy => f.write_str("too many requests are waiting; try again in a moment"),
            EngineError::Stopped => f.write_str("the engine has stopped"),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> EngineError {
        match error {
            StoreError::Damaged(what) => EngineError::Damaged(what),
            StoreError::Conflict(_)
            | StoreError::Full(_)
            | StoreError::Away(_)
            | StoreError::Broken(_)
            | StoreError::SessionEnded
            | StoreError::Closed => EngineError::Store(error),
        }
    }
}

impl From<PutFlowError> for EngineError {
    fn from(error: PutFlowError) -> EngineError {
        match error {
            PutFlowError::VersionTaken { name: flow, version } => EngineError::VersionTaken { flow, version },
            PutFlowError::Store(error) => error.into(),
        }
    }
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> EngineError {
        EngineError::Refused(refusal)
    }
}
