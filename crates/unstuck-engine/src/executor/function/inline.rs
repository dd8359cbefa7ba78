//! The executor of functions that are quick and never block: called at once, in the caller's thread.

use std::fmt;
use std::sync::Arc;

use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;

use super::{Call, FunctionError, Functions, call};
use crate::executor::{Executor, Job, ReportSink};
use crate::secrets::Secrets;

/// Calls pure or very quick functions where it is asked to, without a thread in between.
pub struct InlineExecutor {
    name: Arc<str>,
    max_load: u32,
    functions: Functions,
    secrets: Secrets,
}

impl InlineExecutor {
    /// A worker of this name without functions, which is given so much load at once.
    pub fn new(name: impl Into<Arc<str>>, max_load: u32) -> InlineExecutor {
        let (functions, secrets) = (Functions::default(), Secrets::default());
        InlineExecutor { name: name.into(), max_load, functions, secrets }
    }

    /// Puts these secrets into the inputs that refer to them.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> InlineExecutor {
        self.secrets = secrets;
        self
    }

    /// Offers `action`, carried out by `function`, which must not block.
    #[must_use]
    pub fn on<F>(mut self, action: impl Into<Arc<str>>, function: F) -> InlineExecutor
    where
        F: Fn(Call) -> Result<Json, FunctionError> + Send + Sync + 'static,
    {
        self.functions.add(action.into(), function);
        self
    }
}

impl Executor for InlineExecutor {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    fn queues(&self) -> Vec<Arc<str>> {
        self.functions.actions()
    }

    fn max_load(&self) -> u32 {
        self.max_load
    }

    fn execute(&mut self, mut job: Job, answers: &ReportSink) {
        let attempt = job.attempt;
        match self.functions.prepare(&mut job, &self.secrets) {
            Ok((function, redactor)) => {
                let answers = answers.redacted(redactor);
                answers.report(attempt, call(&function, Call::new(job, &answers, None)));
            }
            Err(says) => answers.report(attempt, says),
        }
    }

    /// Nothing is under way between two calls.
    fn interrupt(&mut self, _attempt: AttemptId, _why: &str) {}
}

impl fmt::Debug for InlineExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineExecutor")
            .field("name", &self.name)
            .field("actions", &self.queues())
            .finish_non_exhaustive()
    }
}
