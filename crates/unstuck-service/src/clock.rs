//! Sentences about the clock: that it was set, that recorded times are in the future, and what that means.

use unstuck_api::clock::{ClockView, CorrectionView};
use unstuck_core::clock::{ClockCorrection, ClockRecord};
use unstuck_core::time::{Millis, Time};

use crate::local_time;

/// How many milliseconds a time may be ahead without a note: clocks differ, and commands take a moment.
const TOLERANCE: i64 = 2_000;

/// What a store says about its clock, seen now.
pub struct Clock<'a> {
    pub record: &'a ClockRecord,
    /// When the last change was recorded.
    pub last: Option<Time>,
    pub now: Time,
}

impl Clock<'_> {
    /// Returns by how much the last recorded time is in the future, if it is.
    fn find_time_ahead(&self) -> Option<(Time, Millis)> {
        let last = self.last?;
        let ahead = last.0.saturating_sub(self.now.0);
        (ahead > TOLERANCE).then(|| (last, Millis(ahead.unsigned_abs())))
    }

    /// Describes the clock in sentences, with UTC times; empty if there is nothing to say.
    pub fn sentences(&self) -> Vec<String> {
        self.build_sentences(&|time| time.to_string())
    }

    /// As [`Clock::sentences`], with local times.
    pub fn local_sentences(&self) -> Vec<String> {
        self.build_sentences(&|time| local_time::format_full(time.timestamp()))
    }

    /// Builds the sentences, with times formatted by `written`.
    fn build_sentences(&self, written: &dyn Fn(Time) -> String) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some((last, ahead)) = self.find_time_ahead() {
            sentences.push(format!(
                "The last change was recorded at {}, which is {ahead} in the future: the clock was ahead then, or is behind now. Such times count as now, so nothing is delayed.",
                written(last)
            ));
        }
        let corrections = &self.record.corrections;
        if let Some(correction) = corrections.last() {
            let times = match corrections.len() {
                1 => String::new(),
                count => format!("{count} times, last "),
            };
            let ClockCorrection { from, to } = *correction;
            sentences.push(format!(
                "The clock was set {times}{}, from {} to {}. Nothing is delayed or ended by this: delays and limits keep their remaining time, and dates follow the clock.",
                describe_correction(*correction),
                written(from),
                written(to)
            ));
        }
        sentences
    }

    /// Builds the view for programs.
    pub fn document(&self) -> ClockView {
        let correction = |correction: &ClockCorrection| CorrectionView {
            from: correction.from.timestamp(),
            to: correction.to.timestamp(),
            shift: correction.shift(),
        };
        ClockView {
            corrections: self.record.corrections.iter().map(correction).collect(),
            ahead_by: self.find_time_ahead().map(|(_, ahead)| ahead.into()),
            sentences: self.sentences(),
        }
    }
}

/// Describes a correction: `back by 1h`.
fn describe_correction(correction: ClockCorrection) -> String {
    let shift = correction.shift();
    let way = if shift < 0 { "back" } else { "forward" };
    format!("{way} by {}", Millis(shift.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn record(shifts: &[i64]) -> ClockRecord {
        let mut record = ClockRecord::default();
        for shift in shifts {
            record.record_correction(ClockCorrection { from: Time(10 * HOUR), to: Time(10 * HOUR + shift) });
        }
        record
    }

    #[test]
    fn what_is_said_of_the_clock() {
        let cases: [(&[i64], Option<i64>, &[&str]); 5] = [
            (&[], None, &[]),
            (&[], Some(HOUR + TOLERANCE), &[]),
            (&[], Some(3 * HOUR), &["1970-01-01T03:00:00.000Z, which is 2h in the future"]),
            (&[-HOUR], Some(HOUR), &["The clock was set back by 1h, from 1970-01-01T10:00:00.000Z to"]),
            (
                &[-HOUR, 2 * HOUR],
                Some(2 * HOUR),
                &["which is 1h in the future", "The clock was set 2 times, last forward by 2h, from"],
            ),
        ];
        for (shifts, last, wanted) in cases {
            let record = record(shifts);
            let clock = Clock { record: &record, last: last.map(Time), now: Time(HOUR) };
            let found = clock.sentences();
            assert_eq!(found.len(), wanted.len(), "{found:#?}");
            for (found, wanted) in found.iter().zip(wanted) {
                assert!(
                    found.contains(wanted) && found.to_lowercase().contains("nothing is delayed"),
                    "{found}"
                );
            }
        }
    }
}
