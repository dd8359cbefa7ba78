//! Turns at a pace: so many a second, from when the first was given.

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Time};

/// The turns that were given in one go. Whoever comes after the last one is over begins anew: what was missed is not
/// made up for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// When the first was.
    since: Time,
    given: u64,
}

impl Turns {
    /// Whether none was given.
    pub fn is_none(&self) -> bool {
        self.given == 0
    }

    /// How long to wait for the next turn, at so many a second.
    pub fn next_wait(&self, rate: u32, now: Time) -> Millis {
        if self.is_none() { Millis(0) } else { self.next(rate).since(now) }
    }

    /// The next turn is taken.
    pub(super) fn take(&mut self, rate: u32, now: Time) {
        if self.is_none() || self.next(rate) < now {
            *self = Turns { since: now, given: 0 };
        }
        self.given += 1;
    }

    /// The clock was set by so much. Where none was given there is no time to be moved: none is kept either.
    pub(super) fn shift(&mut self, by: i64) {
        if !self.is_none() {
            self.since = self.since.shifted(by);
        }
    }

    fn next(&self, rate: u32) -> Time {
        self.since + Millis(self.given.saturating_mul(1_000) / u64::from(rate.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_given_is_what_is_kept_of_it() {
        let mut turns = Turns::default();
        turns.shift(7_200_000);
        assert_eq!(turns, Turns::default());
    }

    #[test]
    fn turns_are_a_pace_apart_and_missed_ones_are_gone() {
        let mut turns = Turns::default();
        let mut waits = Vec::new();
        // Four in one batch, one a little later, one long after all of them are over, and two after the clock was set.
        for (now, set_by) in
            [(100, 0), (100, 0), (100, 0), (100, 0), (300, 0), (90_000, 0), (50_000, -40_000), (50_000, 0)]
        {
            turns.shift(set_by);
            waits.push(turns.next_wait(2, Time(now)).0);
            turns.take(2, Time(now));
        }
        assert_eq!(waits, [0, 500, 1_000, 1_500, 1_800, 0, 500, 1_000]);
    }
}
