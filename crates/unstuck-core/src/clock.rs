//! Corrections of a clock that was wrong: lengths of time keep their length, instants follow the wall clock.

use serde::{Deserialize, Serialize};

use crate::model::run::Run;
use crate::time::{Millis, Time};

/// How many corrections are kept for people to see. Their sum is kept for ever.
pub const MAX_CORRECTIONS: usize = 64;

/// A clock that is behind by no more than this is waited for; one that is further behind has been set.
pub const CLOCK_SLACK: Millis = Millis::seconds(2);

/// The time of a decision about a run: what the clock says, and not before what it said at the run's last event, by the
/// clock as it is after corrections that come to `clock`. Another server, whose clock is a little ahead, may have had the
/// run last. The recorded time of that event does not matter: it stays ahead for as long as the clock was set back by.
pub fn decision_time(run: &Run, now: Time, clock: i64) -> Time {
    let last = run.behind.unwrap_or(run.updated_at).shifted(clock.saturating_sub(run.clock));
    if last <= now + CLOCK_SLACK { last.max(now) } else { now }
}

/// A change of the clock: it was set, or a store was opened whose last time is later than the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockCorrection {
    /// The time before the correction.
    pub from: Time,
    /// The time after it.
    pub to: Time,
}

impl ClockCorrection {
    /// Returns by how many milliseconds the clock was set, forward or (negative) back.
    pub fn shift(self) -> i64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// The clock corrections that a store has recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// The sum of all corrections in milliseconds. A run that has applied less is behind by the difference.
    pub shift: i64,
    /// The latest corrections, oldest first.
    pub corrections: Vec<ClockCorrection>,
    /// Whether runs may be behind whose timers lie too far ahead to come due: set after a correction back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_sweep: bool,
}

impl ClockRecord {
    /// Adds a correction to the sum and to the list, and drops the oldest of the list beyond [`MAX_CORRECTIONS`].
    pub fn record_correction(&mut self, correction: ClockCorrection) {
        self.shift = self.shift.saturating_add(correction.shift());
        self.needs_sweep |= correction.shift() < 0;
        self.corrections.push(correction);
        let surplus = self.corrections.len().saturating_sub(MAX_CORRECTIONS);
        self.corrections.drain(..surplus);
    }
}
