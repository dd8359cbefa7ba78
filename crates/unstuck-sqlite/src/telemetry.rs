//! What the store tells the log. Nothing is measured for it while nobody listens.

use std::time::{Duration, Instant};

use tracing::{Level, debug, enabled, info, warn};
use unstuck_store::contract::StoreError;

use crate::pending_transaction::PendingTransaction;
use crate::stats::Written;

/// A commit that takes longer is worth a line: everybody waits for it.
const SLOW: Duration = Duration::from_secs(1);

/// Measures how long something takes, if anybody listens.
pub(crate) struct Stopwatch(Option<Instant>);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(enabled!(Level::INFO).then(Instant::now))
    }

    pub(crate) fn took(&self) -> Duration {
        self.0.map(|start| start.elapsed()).unwrap_or_default()
    }
}

/// Logs a group of stages that was committed and synced.
pub(crate) fn log_commit(group: &[PendingTransaction], written: &Written, watch: &Stopwatch) {
    let took = watch.took();
    let (first, last) = (group.first().map(|job| job.id().0), group.last().map(|job| job.id().0));
    let (events, bytes) = (written.events.count, written.bytes());
    if took >= SLOW {
        info!(first, last, events, bytes, ?took, "slow sync");
    } else {
        debug!(first, last, events, bytes, ?took, "batches committed and synced");
    }
}

/// Logs a group of stages that was not committed. A full disk is logged by the engine, once instead of with every
/// stage.
pub(crate) fn log_failed_commit(group: &[PendingTransaction], error: &StoreError) {
    let (first, last) = (group.first().map(|job| job.id().0), group.last().map(|job| job.id().0));
    if matches!(error, StoreError::Full(_)) {
        debug!(first, last, %error, "batches not committed");
    } else {
        warn!(first, last, %error, "batches not committed");
    }
}
