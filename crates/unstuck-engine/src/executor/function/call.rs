//! What a function is called with, and how it says that it could not do it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unstuck_core::command::Report;
use unstuck_core::decide::unit_name;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::error::{Error, Reason};
use unstuck_core::model::flow::Flow;
use unstuck_core::time::{Millis, Time};

use crate::executor::{Job, ReportSink};

/// One call of a function: an attempt to carry out.
pub struct Call {
    pub input: Json,
    pub attempt: AttemptId,
    /// When the run is given up on.
    pub deadline: Option<Time>,
    flow: Arc<Flow>,
    answers: ReportSink,
    /// `None` where nobody could interrupt it.
    interrupted: Option<Arc<AtomicBool>>,
}

impl Call {
    pub(super) fn new(job: Job, answers: &ReportSink, interrupted: Option<Arc<AtomicBool>>) -> Call {
        let Job { attempt, flow, input, deadline, details: _ } = job;
        Call { input, attempt, deadline, flow, answers: answers.clone(), interrupted }
    }

    /// The step or item, as people write it: `step` or `step[2]`.
    pub fn step(&self) -> String {
        unit_name(&self.flow, self.attempt.unit)
    }

    /// Shows that it is alive, and how far it is. The next attempt is told the last progress of this one.
    pub fn heartbeat(&self, progress: Option<Json>) {
        if !self.is_interrupted() {
            self.answers.report(self.attempt, Report::Heartbeat { progress });
        }
    }

    /// Whether the attempt is no longer this call's: nobody hears what it returns, so it had better end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.as_ref().is_some_and(|interrupted| interrupted.load(Ordering::Acquire))
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("attempt", &self.attempt)
            .field("step", &self.step())
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

/// Why a function did not complete its attempt. `?` makes any error one that may pass.
#[derive(Clone, Debug)]
pub struct FunctionError(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Error { error: Box<Error>, fatal: bool },
    Deferred { asked: Option<Millis>, lacking: Arc<str> },
}

impl FunctionError {
    /// An error that may pass.
    pub fn stalled(cause: impl Into<Arc<str>>) -> FunctionError {
        FunctionError(Inner::Error { error: Box::new(Error::new(cause)), fatal: false })
    }

    /// Trying again is pointless.
    pub fn fatal(cause: impl Into<Arc<str>>) -> FunctionError {
        FunctionError(Inner::Error { error: Box::new(Error::new(cause)), fatal: true })
    }

    /// The input is at fault, and so trying again is pointless.
    pub fn data(cause: impl Into<Arc<str>>) -> FunctionError {
        let error = Error { reason: Reason::Data, ..Error::new(cause) };
        FunctionError(Inner::Error { error: Box::new(error), fatal: true })
    }

    /// Resources are lacking, for so long if that is known.
    pub fn deferred(asked: Option<Millis>, lacking: impl Into<Arc<str>>) -> FunctionError {
        FunctionError(Inner::Deferred { asked, lacking: lacking.into() })
    }

    /// Adds what is too long for a cause; a deferral has none.
    #[must_use]
    pub fn context(mut self, context: impl Into<Arc<str>>) -> FunctionError {
        if let Inner::Error { error, .. } = &mut self.0 {
            error.context = Some(context.into());
        }
        self
    }

    /// Adds anything else that is worth telling; a deferral has none.
    #[must_use]
    pub fn details(mut self, details: Json) -> FunctionError {
        if let Inner::Error { error, .. } = &mut self.0 {
            error.details = details;
        }
        self
    }

    pub(super) fn into_report(self) -> Report {
        match self.0 {
            Inner::Error { error, fatal } => Report::Fail { error, fatal },
            Inner::Deferred { asked, lacking } => Report::Defer { asked, lacking: Some(lacking) },
        }
    }
}

impl<E: std::error::Error> From<E> for FunctionError {
    /// The error is the cause, and what is behind it the context.
    fn from(error: E) -> FunctionError {
        let failure = FunctionError::stalled(error.to_string());
        let behind: Vec<String> =
            std::iter::successors(error.source(), |error| error.source()).map(ToString::to_string).collect();
        if behind.is_empty() { failure } else { failure.context(behind.join("\n")) }
    }
}
