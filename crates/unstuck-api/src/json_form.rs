//! How values look in every JSON document: times, lengths of time, and what is more than a number can hold.

use std::fmt::Display;
use std::time::Duration;

use serde::Serializer;

/// A time: RFC 3339, UTC, with milliseconds, such as `2026-11-16T02:51:21.698Z`.
pub mod time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{at:.3}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Timestamp::deserialize(deserializer)
    }
}

/// A [`time`], or `null`.
pub mod optional_time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => super::time::serialize(at, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Option::deserialize(deserializer)
    }
}

/// A list of [`time`]s.
pub mod times {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(times: &[Timestamp], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(times.iter().map(|at| format!("{at:.3}")))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Timestamp>, D::Error> {
        Vec::deserialize(deserializer)
    }
}

/// A length of time: a number of seconds, with as many decimals as it takes to tell milliseconds.
pub fn seconds<T: Copy + Into<Duration>, S: Serializer>(span: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let span: Duration = (*span).into();
    signed_seconds::serialize(&i64::try_from(span.as_millis()).unwrap_or(i64::MAX), serializer)
}

/// A length of time as a number of seconds, or `null`.
pub mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match span {
            Some(span) => super::seconds(span, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let ms = super::optional_signed_seconds::deserialize(deserializer)?;
        Ok(ms.map(|ms| Duration::from_millis(ms.unsigned_abs())))
    }
}

/// So many milliseconds, forward or back, as a number of seconds.
pub mod signed_seconds {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::cast_precision_loss, reason = "milliseconds are exact for 285,000 years")]
    pub fn serialize<S: Serializer>(ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        match ms % 1_000 {
            0 => serializer.serialize_i64(ms / 1_000),
            // A division rounds once, so that the shortest decimals are those of the milliseconds.
            _ => serializer.serialize_f64(*ms as f64 / 1_000.0),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        f64::deserialize(deserializer).map(super::milliseconds)
    }
}

/// The same, or `null`.
pub mod optional_signed_seconds {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(ms: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
        match ms {
            Some(ms) => super::signed_seconds::serialize(ms, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.map(super::milliseconds))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`as` saturates, which is what is wanted")]
fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1_000.0).round() as i64
}

/// An id, or a number that may be above 2^53, which not every program could read as a number.
pub fn text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Times {
        #[serde(with = "time")]
        at: Timestamp,
        #[serde(with = "optional_time")]
        next: Option<Timestamp>,
    }

    #[derive(Serialize)]
    struct Numbers {
        #[serde(serialize_with = "seconds")]
        took: Duration,
        #[serde(serialize_with = "text")]
        seed: u64,
    }

    #[test]
    fn times_have_milliseconds_whether_there_are_any_or_not() {
        let at = |ms| Timestamp::from_millisecond(ms).expect("it is in range");
        let cases = [
            (at(0), None, r#"{"at":"1970-01-01T00:00:00.000Z","next":null}"#),
            (
                at(1_500),
                Some(at(60_001)),
                r#"{"at":"1970-01-01T00:00:01.500Z","next":"1970-01-01T00:01:00.001Z"}"#,
            ),
        ];
        for (at, next, wanted) in cases {
            let times = Times { at, next };
            let json = serde_json::to_string(&times).expect("it can be written");
            assert_eq!(json, wanted);
            assert_eq!(serde_json::from_str::<Times>(&json).expect("it can be read"), times);
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Shifts {
        #[serde(with = "optional_seconds")]
        ahead: Option<Duration>,
        #[serde(with = "signed_seconds")]
        shift: i64,
        #[serde(with = "optional_signed_seconds")]
        delay: Option<i64>,
    }

    #[test]
    fn lengths_of_time_are_read_as_they_were_written() {
        for ms in [0_i64, 1, 999, 1_000, -1_698, 90_000, 2_592_000_001, -31_536_000_000_001] {
            let ahead = Some(Duration::from_millis(ms.unsigned_abs()));
            for shifts in [
                Shifts { ahead, shift: ms, delay: Some(-ms) },
                Shifts { ahead: None, shift: ms, delay: None },
            ] {
                let json = serde_json::to_string(&shifts).expect("it can be written");
                assert_eq!(serde_json::from_str::<Shifts>(&json).expect("it can be read"), shifts, "{json}");
            }
        }
    }

    #[test]
    fn lengths_of_time_are_seconds_and_large_numbers_are_texts() {
        let cases =
            [(0, "0"), (90_000, "90"), (1_698, "1.698"), (40, "0.04"), (2_592_000_001, "2592000.001")];
        for (ms, wanted) in cases {
            let numbers = Numbers { took: Duration::from_millis(ms), seed: u64::MAX };
            let json = serde_json::to_string(&numbers).expect("it can be written");
            assert_eq!(json, format!(r#"{{"took":{wanted},"seed":"18446744073709551615"}}"#));
        }
    }
}
