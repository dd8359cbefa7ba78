//! Executors: whatever carries out attempts in this process, behind one small interface.

pub mod alarm;
pub mod emulation;
pub mod function;
pub mod http;
mod killed;
pub mod process;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::{Flow, Step};
use unstuck_core::time::Time;

use crate::document::JobDetails;
use crate::secrets::Redactor;

/// Carries out attempts.
///
/// For every job that it is given it says exactly one last word: complete, fail, defer or release, that its worker is
/// gone ([`ReportSink::lost`]), or that an interrupted attempt has really ended ([`ReportSink::freed`]). Until then the job
/// takes up room. It must not block: long work goes on in a thread or process of its own.
pub trait Executor: Send {
    /// The name of the worker that it is.
    fn name(&self) -> Arc<str>;

    /// The queues that it takes from.
    fn queues(&self) -> Vec<Arc<str>>;

    /// How much load it takes at once.
    fn max_load(&self) -> u32;

    /// Whether its jobs come with what a product is made from, which costs something to gather.
    fn wants_product(&self) -> bool {
        false
    }

    /// Begins an attempt.
    fn execute(&mut self, job: Job, answers: &ReportSink);

    /// The attempt is no longer this executor's: end it, with all that it has started.
    fn interrupt(&mut self, attempt: AttemptId, why: &str);

    /// Nobody took answers for a while. What has ended or was reported meanwhile is said before this returns, so that it
    /// is known before any limit is looked at.
    fn catch_up(&mut self) {}

    /// An engine before this one died with these attempts: end what they left running, and wait until it has ended.
    /// They are tried again only then.
    fn clean_up(&mut self, left: &[LeftOver]) {
        let _ = left;
    }

    /// The engine stops: end everything, and wait until it has ended. Each attempt still gets its last word: what ended
    /// by itself says so, what was interrupted before is freed, and the rest is released.
    fn stop(&mut self) {}
}

/// An attempt to carry out.
#[derive(Clone, Debug)]
pub struct Job {
    pub attempt: AttemptId,
    /// The flow version.
    pub flow: Arc<Flow>,
    pub input: Json,
    /// When the run is given up on.
    pub deadline: Option<Time>,
    /// What a product is made from, for workers that want one.
    pub details: Option<Box<JobDetails>>,
}

impl Job {
    /// The step that it is an attempt of.
    pub fn step(&self) -> &Step {
        self.flow.step(self.attempt.unit.step)
    }
}

/// An attempt that an earlier engine died with.
#[derive(Clone, Debug)]
pub struct LeftOver {
    pub attempt: AttemptId,
    /// Its token, which its process was given.
    pub token: String,
}

/// What an executor says.
#[derive(Clone, Debug)]
pub enum ExecutorReport {
    /// About an attempt that is its own.
    Report(AttemptId, Report),
    /// The worker of this attempt is gone.
    Lost(AttemptId),
    /// An interrupted attempt has really ended.
    Freed(AttemptId),
}

impl ExecutorReport {
    /// The attempt, if this is the last word about it.
    pub fn ended_attempt(&self) -> Option<AttemptId> {
        match self {
            ExecutorReport::Report(attempt, report) => report.ends_attempt().then_some(*attempt),
            ExecutorReport::Lost(attempt) | ExecutorReport::Freed(attempt) => Some(*attempt),
        }
    }
}

/// Where an executor says it. It can be cloned and sent to other threads.
#[derive(Clone)]
pub struct ReportSink(Arc<dyn Fn(ExecutorReport) + Send + Sync>);

impl ReportSink {
    /// Words go to `sink`, which must not block for long.
    pub fn new(sink: impl Fn(ExecutorReport) + Send + Sync + 'static) -> ReportSink {
        ReportSink(Arc::new(sink))
    }

    /// The same, without secrets.
    pub(crate) fn redacted(&self, redactor: Redactor) -> ReportSink {
        if redactor.is_empty() {
            return self.clone();
        }
        let sink = Arc::clone(&self.0);
        ReportSink::new(move |report| {
            sink(match report {
                ExecutorReport::Report(attempt, says) => {
                    ExecutorReport::Report(attempt, redactor.report(says))
                }
                ExecutorReport::Lost(_) | ExecutorReport::Freed(_) => report,
            });
        })
    }

    /// Says something about an attempt.
    pub fn report(&self, attempt: AttemptId, says: Report) {
        (self.0)(ExecutorReport::Report(attempt, says));
    }

    /// The worker of this attempt is gone.
    pub fn lost(&self, attempt: AttemptId) {
        (self.0)(ExecutorReport::Lost(attempt));
    }

    /// An interrupted attempt has really ended.
    pub fn freed(&self, attempt: AttemptId) {
        (self.0)(ExecutorReport::Freed(attempt));
    }
}

/// A lock that a panic elsewhere does not take with it: what it guards is whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
