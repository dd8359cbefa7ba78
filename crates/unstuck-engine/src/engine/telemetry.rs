//! What the engine tells the log. Nothing is measured or put together for it while nobody listens.

use std::time::{Duration, Instant};

use tracing::{Level, debug, enabled, error, info, warn};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_store::contract::{Settled, StoreError};

use super::isolation::{BatchFailure, Suspect, WorkKind};
use super::settling::OutstandingBatch;
use crate::request::Output;

/// Measures how long something takes, if anybody listens.
pub(super) struct Stopwatch(Option<Instant>);

impl Stopwatch {
    pub(super) fn start() -> Stopwatch {
        Stopwatch(enabled!(Level::DEBUG).then(Instant::now))
    }

    fn took(&self) -> Duration {
        self.0.map(|start| start.elapsed()).unwrap_or_default()
    }
}

/// A batch was decided and is staged. One that changed nothing is not worth a line.
pub(super) fn staged(done: &OutstandingBatch, watch: &Stopwatch) {
    let Some(batch) = done.stage.filter(|_| enabled!(Level::DEBUG)) else { return };
    let count = |work| done.counts.of(work);
    debug!(
        batch = batch.0,
        requests = count(WorkKind::Request),
        claims = count(WorkKind::Claim),
        due = count(WorkKind::Due),
        admissions = count(WorkKind::Admission),
        notices = count(WorkKind::Notice),
        bulk = count(WorkKind::Bulk),
        took = ?watch.took(),
        "batch decided and staged"
    );
}

/// The store has told what became of a batch. One that is full or away is asked again five times a second, which is told once.
pub(super) fn settled(settled: &Settled, trouble: Option<&StoreError>) {
    let batch = settled.stage.0;
    match &settled.result {
        Ok(()) if trouble.is_some() => info!(batch, "the store takes batches again"),
        Ok(()) => debug!(batch, "batch durable"),
        Err(error) if error.is_transient() && trouble.is_some() => debug!(batch, %error, "batch lost again"),
        Err(error) if error.is_transient() => warn!(batch, %error, "batch lost; it will be decided again"),
        Err(error) => error!(batch, %error, "the store has failed; the engine stops"),
    }
}

/// A batch is durable: its attempts are handed to their workers.
pub(super) fn handed_out(done: &OutstandingBatch) {
    if done.handed_out.is_empty() || !enabled!(Level::DEBUG) {
        return;
    }
    let batch = done.stage.map(|stage| stage.0);
    for output in &done.outputs {
        if let Output::Dispatch { worker, job } = output {
            let AttemptId { run, attempt, .. } = job.attempt;
            debug!(batch, %run, step = %job.step().id, attempt, worker = %worker.name, "attempt handed out");
        }
    }
}

/// The store takes nothing now.
pub(super) fn store_failed(error: &StoreError, is_known: bool) {
    match error {
        StoreError::Damaged(_) | StoreError::Broken(_) | StoreError::SessionEnded | StoreError::Closed => {
            error!(%error, "the store has failed; the engine stops");
        }
        StoreError::Conflict(_) | StoreError::Full(_) | StoreError::Away(_) if is_known => {
            debug!(%error, "the store still takes nothing");
        }
        StoreError::Full(_) => warn!(%error, "disk full; the engine waits for space"),
        StoreError::Conflict(_) | StoreError::Away(_) => {
            warn!(%error, "the store takes nothing; the engine waits");
        }
    }
}

/// A batch went wrong, and nothing of it has happened.
pub(super) fn batch_failed(failure: &BatchFailure, suspect: Option<&Suspect>, is_alone: bool) {
    let cause = match failure {
        BatchFailure::Store(error) => error.to_string(),
        BatchFailure::Panic(message) => format!("a defect in Unstuck: {message}"),
    };
    if is_alone {
        let run = match suspect {
            Some(Suspect::Run(run)) => Some(run.to_string()),
            Some(Suspect::Notice { to, .. }) => Some(to.to_string()),
            Some(Suspect::Request) | None => None,
        };
        warn!(run, cause, "deciding failed");
    } else {
        warn!(cause, "batch failed; its parts are decided one by one");
    }
}

/// A worker is told to end an attempt.
pub(crate) fn interrupted(attempt: AttemptId, worker: &Worker, why: &str) {
    let AttemptId { run, attempt, .. } = attempt;
    debug!(%run, attempt, worker = %worker.name, why, "attempt interrupted");
}
