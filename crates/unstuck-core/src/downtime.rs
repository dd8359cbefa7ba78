//! Downtimes: periods in which the engine could not take reports, which do not count against any limit.

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Time};

/// How many downtimes are kept. A limit is not extended for downtimes before the oldest of them.
pub const MAX_DOWNTIMES: usize = 64;

/// One period in which the engine could not take reports: it was stopped, or its store was full or unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downtime {
    /// When the engine last took reports.
    pub from: Time,
    /// When it took reports again.
    pub to: Time,
}

/// Returns when a limit that began at `from` is reached, not counting downtimes, which must be in order. Each downtime
/// that overlaps the limit extends it, and may make it overlap the next one.
pub fn limit_reached_at(from: Time, limit: Millis, downtimes: &[Downtime]) -> Time {
    let mut reached = from + limit;
    for down in downtimes {
        if down.to > from && down.from < reached {
            reached = reached + down.to.since(down.from.max(from));
        }
    }
    reached
}

/// Appends a downtime and drops the oldest ones beyond [`MAX_DOWNTIMES`].
pub fn record_downtime(downtimes: &mut Vec<Downtime>, down: Downtime) {
    downtimes.push(down);
    let surplus = downtimes.len().saturating_sub(MAX_DOWNTIMES);
    downtimes.drain(..surplus);
}

/// Moves all downtimes by `by` milliseconds, after a correction of the clock by that much.
pub fn shift_downtimes(downtimes: &mut [Downtime], by: i64) {
    for down in downtimes {
        *down = Downtime { from: down.from.shifted(by), to: down.to.shifted(by) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_moved_on_by_the_downtime_that_it_ran_through() {
        type Span = (i64, i64);
        // From, limit, downtimes, when it is reached.
        let cases: [(i64, u64, &[Span], i64); 8] = [
            (100, 50, &[], 150),
            (100, 50, &[(10, 90)], 150),
            (100, 50, &[(150, 900)], 150),
            (100, 50, &[(120, 130)], 160),
            (100, 50, &[(50, 130)], 180),
            (100, 50, &[(149, 1_149)], 1_150),
            (100, 50, &[(120, 130), (155, 165)], 170),
            (100, 50, &[(120, 130), (160, 900)], 160),
        ];
        for (from, limit, downtimes, wanted) in cases {
            let downtimes: Vec<Downtime> =
                downtimes.iter().map(|(from, to)| Downtime { from: Time(*from), to: Time(*to) }).collect();
            assert_eq!(
                limit_reached_at(Time(from), Millis(limit), &downtimes),
                Time(wanted),
                "{downtimes:?}"
            );
        }
    }

    #[test]
    fn only_the_last_ones_are_remembered() {
        let mut downtimes = Vec::new();
        for n in 0..200 {
            record_downtime(&mut downtimes, Downtime { from: Time(n), to: Time(n + 1) });
        }
        assert_eq!(downtimes.len(), MAX_DOWNTIMES);
        assert_eq!(downtimes.last().map(|down| down.from), Some(Time(199)));
    }
}
