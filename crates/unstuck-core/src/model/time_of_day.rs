//! A time of day in a time zone, and the instant at which it comes next. The rules of the zone are compiled into the
//! flow, so that a decision looks nothing up and replays the same.

use std::fmt;
use std::sync::Arc;

use jiff::civil::{self, Date, DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::time::Time;

/// A time of day, on every day or on some days of the week.
#[derive(Clone, Debug)]
pub struct TimeOfDay {
    /// By a clock on the wall there.
    pub at: civil::Time,
    /// The zone, as it was written.
    pub zone: Arc<str>,
    /// What the clocks there do.
    pub rules: TimeZone,
    /// Only on these days of the week; on every day if there are none.
    pub days: Vec<Weekday>,
}

/// How many days are tried: from the day before to one week later, and two more for days that a zone skipped.
const DAYS: usize = 11;

impl TimeOfDay {
    /// Returns the first such time after `after`, never `after` itself. A time that the clocks skip on a day comes at
    /// the end of the gap; one that they show twice comes the first time. None at the end of the calendar.
    pub fn next(&self, after: Time) -> Option<Time> {
        let mut date = after.timestamp().to_zoned(self.rules.clone()).date().yesterday().ok()?;
        for _ in 0..DAYS {
            let is_wanted = self.days.is_empty() || self.days.contains(&date.weekday());
            if is_wanted && let Some(at) = self.instant_on(date).filter(|at| *at > after) {
                return Some(at);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Returns the instant of this time of day on a date. In a gap it is the end of the gap, in a fold the first of the
    /// two.
    fn instant_on(&self, date: Date) -> Option<Time> {
        instants_of(&self.rules, date.to_datetime(self.at)).map(|(first, _)| first)
    }
}

/// Returns the instant at which clocks show this date and time, and the second one where they show it twice. What they skip
/// is at the end of the gap.
pub(crate) fn instants_of(rules: &TimeZone, local: DateTime) -> Option<(Time, Option<Time>)> {
    let time = |at: Timestamp| Time(at.as_millisecond());
    Some(match rules.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => (time(offset.to_timestamp(local).ok()?), None),
        AmbiguousOffset::Fold { before, after } => {
            (time(before.to_timestamp(local).ok()?), after.to_timestamp(local).ok().map(time))
        }
        AmbiguousOffset::Gap { before, .. } => {
            // By the offset before the gap, the time lies at or after the end of the gap.
            let behind = before.to_timestamp(local).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
            (time(rules.preceding(behind).next()?.timestamp()), None)
        }
    })
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::parse_instant;

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
    const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";

    fn clock(zone: &str, at: &str, days: &[Weekday]) -> TimeOfDay {
        let rules = if zone == "UTC" { TimeZone::UTC } else { TimeZone::posix(zone).expect("rules") };
        TimeOfDay { at: at.parse().expect("a time"), zone: zone.into(), rules, days: days.to_vec() }
    }

    fn instant(text: &str) -> Time {
        parse_instant(text).expect("an instant")
    }

    #[test]
    fn a_time_of_day_comes_next_after_the_moment_and_never_at_it() {
        let cases = [
            ("UTC", "02:00", "2026-01-10T01:59:59.999Z", "2026-01-10T02:00:00Z"),
            ("UTC", "02:00", "2026-01-10T02:00:00Z", "2026-01-11T02:00:00Z"),
            ("UTC", "00:00", "2026-12-31T12:00:00Z", "2027-01-01T00:00:00Z"),
            (BERLIN, "02:00", "2026-01-10T00:30:00Z", "2026-01-10T01:00:00Z"),
            (BERLIN, "02:00", "2026-07-10T00:30:00Z", "2026-07-11T00:00:00Z"),
            (NEW_YORK, "23:30:15", "2026-01-10T04:00:00Z", "2026-01-10T04:30:15Z"),
            // Clocks are set forward from 02:00 to 03:00: what is left out comes at 03:00.
            (BERLIN, "01:59:59", "2026-03-28T12:00:00Z", "2026-03-29T00:59:59Z"),
            (BERLIN, "02:00", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            (BERLIN, "02:30", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            (BERLIN, "03:00", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            (BERLIN, "02:30", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"),
            // Clocks are set back from 03:00 to 02:00: what comes twice is the first.
            (BERLIN, "02:30", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            (BERLIN, "02:30", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
            (BERLIN, "02:30", "2026-10-25T01:15:00Z", "2026-10-26T01:30:00Z"),
            (BERLIN, "03:00", "2026-10-24T12:00:00Z", "2026-10-25T02:00:00Z"),
            (NEW_YORK, "01:30", "2026-11-01T00:00:00Z", "2026-11-01T05:30:00Z"),
        ];
        for (zone, at, after, wanted) in cases {
            let next = clock(zone, at, &[]).next(instant(after));
            assert_eq!(next, Some(instant(wanted)), "{at} {zone} after {after}: {next:?}");
        }
    }

    #[test]
    fn days_of_the_week_are_those_of_the_zone() {
        let cases: [(&str, &[Weekday], &str, &str); 4] = [
            ("UTC", &[Weekday::Friday], "2026-01-10T00:00:00Z", "2026-01-16T02:00:00Z"),
            ("UTC", &[Weekday::Saturday, Weekday::Monday], "2026-01-10T02:00:00Z", "2026-01-12T02:00:00Z"),
            ("UTC", &[Weekday::Saturday], "2026-01-10T02:00:00Z", "2026-01-17T02:00:00Z"),
            // It is Sunday evening in New York.
            (NEW_YORK, &[Weekday::Monday], "2026-01-12T03:00:00Z", "2026-01-12T07:00:00Z"),
        ];
        for (zone, days, after, wanted) in cases {
            assert_eq!(
                clock(zone, "02:00", days).next(instant(after)),
                Some(instant(wanted)),
                "{days:?} {after}"
            );
        }
    }

    #[test]
    fn nothing_comes_after_the_end_of_the_calendar() {
        assert_eq!(clock("UTC", "02:00", &[]).next(Time(i64::MAX)), None);
    }
}
