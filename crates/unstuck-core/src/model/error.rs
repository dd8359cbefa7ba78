//! What went wrong: the error of an attempt, and the error that ends a run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::model::unit::UnitRef;

/// Who is to blame, as far as the worker knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The processing: it may be the service's fault.
    #[default]
    Processing,
    /// The input is at fault, so no service is blamed.
    Data,
    /// No worker had room for it: queued or deferred for too long.
    Capacity,
    /// A limit or a deadline passed.
    Time,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 4] = [Reason::Processing, Reason::Data, Reason::Capacity, Reason::Time];

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Processing => "processing",
            Reason::Data => "data",
            Reason::Capacity => "capacity",
            Reason::Time => "time",
        }
    }
}

/// The error of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// Short: what policies match on.
    pub cause: Arc<str>,
    /// Long: the tail of stderr, a stack trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<str>>,
    /// Who is to blame.
    #[serde(default)]
    pub reason: Reason,
    /// Anything else that the worker wants to tell.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub details: Json,
    /// The engine-made action that found it, where it was no worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<Arc<str>>,
}

impl Error {
    /// An error with a cause and nothing else.
    pub fn new(cause: impl Into<Arc<str>>) -> Error {
        Error { cause: cause.into(), ..Error::default() }
    }

    /// Builds an error that the engine found in the data, under an engine-made action name.
    pub fn found_by(action: &str, cause: impl Into<Arc<str>>) -> Error {
        Error::found_with(action, Reason::Data, cause)
    }

    /// Builds an error that the engine found, under an engine-made action name.
    pub fn found_with(action: &str, reason: Reason, cause: impl Into<Arc<str>>) -> Error {
        Error { reason, found_by: Some(action.into()), ..Error::new(cause) }
    }
}

/// The engine-made action of expressions that fail at run time.
pub const EXPRESSION_ACTION: &str = "EvaluateExpressionAction";
/// The engine-made action of an output over the limit.
pub const OUTPUT_ACTION: &str = "RecordOutputAction";
/// The engine-made action of a child flow that is not there.
pub const CHILD_ACTION: &str = "StartChildAction";
/// The engine-made action of a queue timeout, and of a signal that did not arrive in time.
pub const TIMEOUT_ACTION: &str = "AwaitAction";
/// The engine-made action of an attempt that was deferred for too long.
pub const DEFER_ACTION: &str = "DeferAction";
/// The engine-made action of a secret that cannot be put in.
pub const SECRET_ACTION: &str = "ResolveSecretAction";
/// The engine-made action of a run over its deadline.
pub const DEADLINE_ACTION: &str = "DeadlineAction";

/// Why a run is failing or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// The step or item, unless the run itself is at fault (its deadline).
    pub unit: Option<UnitRef>,
    /// Whether the step's own error was fatal (*failed*) rather than *stalled*.
    pub fatal: bool,
    /// What went wrong.
    pub error: Error,
    /// The step or item that the run was waiting for when its deadline passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<UnitRef>,
}

impl RunError {
    /// Builds the run error of a step or item.
    pub fn of_unit(unit: UnitRef, fatal: bool, error: Error) -> RunError {
        RunError { unit: Some(unit), fatal, error, waiting: None }
    }

    /// Builds a fatal error of the run itself.
    pub fn of_run(error: Error) -> RunError {
        RunError { unit: None, fatal: true, error, waiting: None }
    }

    /// Returns the unit that the error belongs to: the one at fault, or the one that the run was waiting for.
    pub fn place(&self) -> Option<UnitRef> {
        self.unit.or(self.waiting)
    }
}
