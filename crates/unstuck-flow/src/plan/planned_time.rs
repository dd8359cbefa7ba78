//! Times of the virtual clock: relative to its start, an instant, or a time of day.

use unstuck_core::time::{Millis, Time};

use crate::problem::Problems;
use crate::read::LocatedNode;
use crate::time_of_day::{self, NO_TIME_OF_DAY, OfDay};
use crate::time_value::{self, TimeValue};

/// Milliseconds of a day.
pub(super) const DAY: i64 = 24 * 60 * 60 * 1_000;

/// A time of the virtual clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedTime {
    /// So long after the start.
    After(Millis),
    /// At this instant.
    At(Time),
    /// On every day (UTC), so long after midnight.
    Daily(Millis),
}

impl PlannedTime {
    /// Returns the first such time that is not before `from`, for a clock that started at `start`.
    pub fn next(self, start: Time, from: Time) -> Option<Time> {
        let at = match self {
            PlannedTime::After(span) => start + span,
            PlannedTime::At(time) => time,
            PlannedTime::Daily(span) => {
                let past_midnight = i64::try_from(span.0).unwrap_or(0);
                let days = from.0.saturating_sub(past_midnight).div_euclid(DAY);
                let then = Time(days * DAY + past_midnight);
                if then < from { Time(then.0 + DAY) } else { then }
            }
        };
        (at >= from).then_some(at)
    }
}

/// Reads `2h`, `02:00` or `2026-01-02T02:00:00Z`.
pub(super) fn read_planned_time(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<PlannedTime> {
    match spot.node.text().map_or(OfDay::SomethingElse, |text| time_of_day::parse_time_of_day(text.trim())) {
        OfDay::Is(span) => return Some(PlannedTime::Daily(span)),
        OfDay::IsNone => {
            spot.refuse(problems, NO_TIME_OF_DAY);
            return None;
        }
        OfDay::SomethingElse => {}
    }
    Some(match time_value::read_time_value(spot, problems)? {
        TimeValue::After(span) => PlannedTime::After(span),
        TimeValue::At(time) => PlannedTime::At(time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_once_and_a_time_of_day_on_every_day() {
        let hour = |n: i64| Time(n * 3_600_000);
        let cases = [
            (PlannedTime::After(Millis::hours(2)), 0, Some(2 + 12)),
            (PlannedTime::After(Millis::hours(2)), 15, None),
            (PlannedTime::At(hour(20)), 20, Some(20)),
            (PlannedTime::At(hour(20)), 21, None),
            (PlannedTime::Daily(Millis::hours(2)), 12, Some(26)),
            (PlannedTime::Daily(Millis::hours(2)), 26, Some(26)),
            (PlannedTime::Daily(Millis::hours(14)), 12, Some(14)),
            (PlannedTime::Daily(Millis::hours(14)), 15, Some(38)),
        ];
        for (when, from, wanted) in cases {
            assert_eq!(when.next(hour(12), hour(from)), wanted.map(hour), "{when:?} from {from}");
        }
    }
}
