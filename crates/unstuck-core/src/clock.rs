//! Clocks that were wrong and were set right: what goes on at its own pace, and what follows the wall.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// So many corrections are remembered, for people. What they come to is never forgotten.
pub const MAX_CORRECTIONS: usize = 64;

/// Somebody has set the clock, or a store was opened whose last time lies ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockCorrection {
    /// What time it was taken to be.
    pub from: Time,
    /// What time it is.
    pub to: Time,
}

impl ClockCorrection {
    /// By how many milliseconds the clock was set, forward or (negative) back.
    pub fn shift(self) -> i64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// What a store knows about its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// What all corrections come to, in milliseconds. A run that has taken in less is behind by the difference.
    pub shift: i64,
    /// The last corrections, in order.
    pub corrections: Vec<ClockCorrection>,
    /// Whether runs may be behind whose timers lie too far ahead to be found when they are due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_sweep: bool,
}

impl ClockRecord {
    /// Takes a correction in.
    pub fn add(&mut self, correction: ClockCorrection) {
        self.shift = self.shift.saturating_add(correction.shift());
        self.needs_sweep |= correction.shift() < 0;
        self.corrections.push(correction);
        let surplus = self.corrections.len().saturating_sub(MAX_CORRECTIONS);
        self.corrections.drain(..surplus);
    }
}
