//! Executors of in-process functions: what a program that embeds the engine lets it call.

mod call;
mod inline;
mod pool;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::error::Error;

pub use self::call::{Call, FunctionError};
pub use self::inline::InlineExecutor;
use self::pool::{Pool, Task};
use super::{Executor, Job, ReportSink};
use crate::secrets::{Redactor, Secrets};

/// Calls functions in a small pool of threads of its own, one per unit of load, each started when it is first needed.
///
/// A function that panics stalls its attempt. One that is interrupted cannot be ended from outside: it is told, goes on
/// to its end and takes up room until then, and what it returns is not heard.
pub struct FunctionExecutor {
    name: Arc<str>,
    max_load: u32,
    functions: Functions,
    secrets: Secrets,
    pool: Arc<Pool>,
}

impl FunctionExecutor {
    /// A worker of this name without functions, which takes so much load at once.
    pub fn new(name: impl Into<Arc<str>>, max_load: u32) -> FunctionExecutor {
        let pool = Arc::new(Pool::new(max_load));
        FunctionExecutor {
            name: name.into(),
            max_load,
            functions: Functions::default(),
            secrets: Secrets::default(),
            pool,
        }
    }

    /// Puts these secrets into the inputs that refer to them.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> FunctionExecutor {
        self.secrets = secrets;
        self
    }

    /// Offers `action`, carried out by `function`.
    #[must_use]
    pub fn on<F>(mut self, action: impl Into<Arc<str>>, function: F) -> FunctionExecutor
    where
        F: Fn(Call) -> Result<Json, FunctionError> + Send + Sync + 'static,
    {
        self.functions.add(action.into(), function);
        self
    }
}

impl Executor for FunctionExecutor {
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
        match self.functions.prepare(&mut job, &self.secrets) {
            Ok((function, redactor)) => {
                Pool::add(&self.pool, Task { job, function, answers: answers.redacted(redactor) });
            }
            Err(says) => answers.report(job.attempt, says),
        }
    }

    fn interrupt(&mut self, attempt: AttemptId, _why: &str) {
        self.pool.interrupt(attempt);
    }

    fn stop(&mut self) {
        self.pool.stop();
    }
}

impl Drop for FunctionExecutor {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl fmt::Debug for FunctionExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionExecutor")
            .field("name", &self.name)
            .field("actions", &self.queues())
            .finish_non_exhaustive()
    }
}

type Function = Arc<dyn Fn(Call) -> Result<Json, FunctionError> + Send + Sync>;

/// Which function carries out which action.
#[derive(Default)]
struct Functions(HashMap<Arc<str>, Function>);

impl Functions {
    fn add<F>(&mut self, action: Arc<str>, function: F)
    where
        F: Fn(Call) -> Result<Json, FunctionError> + Send + Sync + 'static,
    {
        self.0.insert(action, Arc::new(function));
    }

    fn actions(&self) -> Vec<Arc<str>> {
        let mut actions: Vec<Arc<str>> = self.0.keys().cloned().collect();
        actions.sort();
        actions
    }

    /// Finds the function of a job, and puts secrets into its input.
    fn prepare(&self, job: &mut Job, secrets: &Secrets) -> Result<(Function, Redactor), Report> {
        Ok((self.find(job)?, job.put_in_secrets(secrets)?))
    }

    fn find(&self, job: &Job) -> Result<Function, Report> {
        let action = &job.step().queue;
        self.0.get(action).cloned().ok_or_else(|| {
            let error = Error::new(format!(
                "no function is registered for action `{action}` of step `{}`: register one with `on`",
                job.step().id
            ));
            Report::Fail { error: Box::new(error), fatal: true }
        })
    }
}

/// Calls a function, whatever comes of it.
fn call(function: &Function, call: Call) -> Report {
    match catch_unwind(AssertUnwindSafe(|| function(call))) {
        Ok(Ok(output)) => Report::Complete { output },
        Ok(Err(failure)) => failure.into_report(),
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .map(|message| (*message).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            let cause =
                message.map_or_else(|| "panicked".to_owned(), |message| format!("panicked: {message}"));
            FunctionError::stalled(cause).into_report()
        }
    }
}
