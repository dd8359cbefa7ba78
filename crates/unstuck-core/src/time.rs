//! Time as the core sees it: instants and spans in milliseconds, given from outside, never taken.

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

/// A length of time in milliseconds. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Time {
    /// Returns the time that has passed since `earlier`; zero if that is later.
    pub fn since(self, earlier: Time) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the instant that is earlier by this span.
    #[must_use]
    pub fn back(self, span: Millis) -> Time {
        Time(self.0.saturating_sub(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }

    /// Returns this instant after a correction of the clock by `by` milliseconds. Instants near the end of the range,
    /// which mean "never", stay.
    #[must_use]
    pub fn shifted(self, by: i64) -> Time {
        const FAR: i64 = i64::MAX / 2;
        if self.0.abs_diff(0) > FAR.unsigned_abs() { self } else { Time(self.0.saturating_add(by)) }
    }

    /// Converts to a timestamp that can be printed; out of range, to the latest one.
    pub fn timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::MAX)
    }
}

impl Add<Millis> for Time {
    type Output = Time;

    fn add(self, span: Millis) -> Time {
        Time(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.timestamp())
    }
}

impl Millis {
    /// No time at all.
    pub const ZERO: Millis = Millis(0);

    /// A span of `n` seconds.
    pub const fn seconds(n: u64) -> Millis {
        Millis(n.saturating_mul(1_000))
    }

    /// A span of `n` minutes.
    pub const fn minutes(n: u64) -> Millis {
        Millis::seconds(n.saturating_mul(60))
    }

    /// A span of `n` hours.
    pub const fn hours(n: u64) -> Millis {
        Millis::minutes(n.saturating_mul(60))
    }

    #[must_use]
    /// Multiplies the span, saturating; a factor that is negative or not a number gives zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "`as` saturates from f64, which is what is wanted; precision beyond 2^53 ms means nothing"
    )]
    pub fn times(self, factor: f64) -> Millis {
        Millis((self.0 as f64 * factor) as u64)
    }

    /// The sum, saturating.
    #[must_use]
    pub fn plus(self, other: Millis) -> Millis {
        Millis(self.0.saturating_add(other.0))
    }

    /// The same span for the standard library.
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl From<Millis> for std::time::Duration {
    fn from(span: Millis) -> std::time::Duration {
        span.duration()
    }
}

impl fmt::Display for Millis {
    /// The two largest units that are not zero: `1h 30m`, `2.5s`, `40ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        if ms < 1_000 {
            return write!(f, "{ms}ms");
        }
        if ms < 60_000 {
            let tenths = ms / 100;
            return match tenths % 10 {
                0 => write!(f, "{}s", tenths / 10),
                rest => write!(f, "{}.{rest}s", tenths / 10),
            };
        }
        let s = ms / 1_000;
        let (large, small, names) = match s {
            0..3_600 => (s / 60, s % 60, ("m", "s")),
            3_600..86_400 => (s / 3_600, s % 3_600 / 60, ("h", "m")),
            _ => (s / 86_400, s % 86_400 / 3_600, ("d", "h")),
        };
        match small {
            0 => write!(f, "{large}{}", names.0),
            _ => write!(f, "{large}{} {small}{}", names.0, names.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_printed_in_its_two_largest_units() {
        let cases = [
            (0, "0ms"),
            (40, "40ms"),
            (1_000, "1s"),
            (2_540, "2.5s"),
            (60_000, "1m"),
            (61_000, "1m 1s"),
            (5_400_000, "1h 30m"),
            (86_400_000, "1d"),
            (90_000_000, "1d 1h"),
        ];
        for (ms, text) in cases {
            assert_eq!(Millis(ms).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time(5) + Millis(u64::MAX), Time(i64::MAX));
        assert_eq!(Time(5).since(Time(9)), Millis::ZERO);
        assert_eq!(Millis(u64::MAX).times(2.0), Millis(u64::MAX));
        assert_eq!(Millis(100).times(f64::NAN), Millis::ZERO);
    }
}
