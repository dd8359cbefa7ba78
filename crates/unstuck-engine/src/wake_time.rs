//! Whether the thread of an engine keeps up with what is due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use unstuck_core::time::Millis;

/// When the thread of an engine is to be at work again: while it works, that is now. One that is long past is a thread that hangs, or
/// does not keep up.
pub(crate) struct WakeTime {
    begun: Instant,
    /// Milliseconds since then; the largest number where nothing is due.
    at: AtomicU64,
}

impl WakeTime {
    pub(crate) fn new() -> WakeTime {
        WakeTime { begun: Instant::now(), at: AtomicU64::new(u64::MAX) }
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The thread works from now on, or rests for so long; without end where nothing is due.
    pub(crate) fn set(&self, rest: Option<Millis>) {
        let at = rest.map_or(u64::MAX, |rest| self.elapsed().saturating_add(rest.0));
        self.at.store(at, Ordering::Relaxed);
    }

    pub(crate) fn lateness(&self) -> Millis {
        Millis(self.elapsed().saturating_sub(self.at.load(Ordering::Relaxed)))
    }
}
