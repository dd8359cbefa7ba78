//! Attempts: one execution of one step or item, numbered from 1.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::json::Payload;
use crate::model::error::Error;
use crate::model::unit::UnitRef;
use crate::time::{Millis, Time};

/// What names an attempt for good: the contents of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    pub run: RunId,
    pub generation: u32,
    pub unit: UnitRef,
    pub attempt: u32,
}

/// One start of a process that executes attempts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Worker {
    /// Its name, the same over restarts.
    pub name: Arc<str>,
    /// Which start of it.
    pub incarnation: u64,
    /// Whether it lives in the engine's own process: then a claim is a start, and it holds its lease as long
    /// as the engine lives.
    pub local: bool,
}

/// Why an attempt is a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResumedBy {
    /// The step's retry strategy.
    Retry,
    /// After a deferral.
    Defer,
    /// A resume policy.
    Policy,
    Operator,
    /// Its worker gave it back. Histories that are older than this say `Reclaim`.
    Release,
    /// It was stuck.
    Reclaim,
    /// A rerun of a final run.
    Rerun,
}

impl ResumedBy {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            ResumedBy::Retry => "retry",
            ResumedBy::Defer => "defer",
            ResumedBy::Policy => "policy",
            ResumedBy::Operator => "operator",
            ResumedBy::Release => "release",
            ResumedBy::Reclaim => "reclaim",
            ResumedBy::Rerun => "rerun",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The worker reported an output.
    Completed(Payload),
    /// An error that may pass.
    Stalled(Box<Error>),
    /// A fatal error.
    Failed(Box<Error>),
    /// Resources are lacking, for now.
    Deferred {
        /// How long, if the worker knows.
        asked: Option<Millis>,
        /// What is lacking, as the worker reported it.
        lacking: Option<Arc<str>>,
    },
    /// The engine found it unresponsive.
    Stuck(Stuck),
    /// It lost its run, or its worker gave it back.
    Cancelled(Cancelled),
}

impl Outcome {
    /// The word for it, as an attempt state.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Completed(_) => "completed",
            Outcome::Stalled(_) => "stalled",
            Outcome::Failed(_) => "failed",
            Outcome::Deferred { .. } => "deferred",
            Outcome::Stuck(_) => "stuck",
            Outcome::Cancelled(_) => "cancelled",
        }
    }

    /// The error, where there is one.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Outcome::Stalled(error) | Outcome::Failed(error) => Some(error),
            Outcome::Completed(_) | Outcome::Deferred { .. } | Outcome::Stuck(_) | Outcome::Cancelled(_) => {
                None
            }
        }
    }
}

/// Why an attempt was found unresponsive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    /// Which limit it ran into.
    pub limit: StuckLimit,
    /// The last sign of life.
    pub heard: Time,
    /// Whether its worker was lost with several attempts, and this is the step's first loss in its round: then
    /// it counts against nothing.
    pub free: bool,
}

/// The limits that make an attempt stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StuckLimit {
    /// Handed out, and not started in time.
    Start(Millis),
    /// No sign of life in time.
    Heartbeat(Millis),
    /// Not done in time.
    Total(Millis),
    /// Its process or worker is gone.
    Gone,
}

impl fmt::Display for StuckLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StuckLimit::Start(span) => write!(f, "not started within {span} (startTimeout)"),
            StuckLimit::Heartbeat(span) => write!(f, "no heartbeat for {span} (heartbeatTimeout)"),
            StuckLimit::Total(span) => write!(f, "not finished within {span} (timeout)"),
            StuckLimit::Gone => f.write_str("its worker is gone"),
        }
    }
}

/// Why an attempt was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cancelled {
    /// The run was cancelled.
    RunCancelled,
    /// The run was over its deadline.
    Deadline,
    /// The run is failing.
    RunFailing,
    /// The worker gave it back in good order.
    Released,
    /// An operator ended the step.
    Operator,
}

impl Cancelled {
    /// Why, as the end of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Cancelled::RunCancelled => "the run was cancelled",
            Cancelled::Deadline => "the run missed its deadline",
            Cancelled::RunFailing => "the run is failing",
            Cancelled::Released => "its worker released it",
            Cancelled::Operator => "an operator ended the step",
        }
    }
}

/// An attempt that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAttempt {
    pub attempt: u32,
    pub round: u32,
    /// Why it was a repeat, if it was one.
    pub resumed_by: Option<ResumedBy>,
    /// Who executed it, if anybody did.
    pub worker: Option<Worker>,
    /// When it became ready.
    pub queued_at: Time,
    /// When work began, if it did.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Time,
    /// Its last progress.
    pub progress: Option<Payload>,
    /// How it ended.
    pub outcome: Outcome,
}
