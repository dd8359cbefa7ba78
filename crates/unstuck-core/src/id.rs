//! Ids: one time-ordered 63-bit integer each (time, node, counter), shown as prefixed base32.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// 2020-01-01T00:00:00Z: ids count from here, so that 41 bits of milliseconds last until 2089.
const EPOCH_MS: i64 = 1_577_836_800_000;
const COUNTER_BITS: u32 = 12;
const NODE_BITS: u32 = 10;
/// Crockford's alphabet: no letter that is taken for a digit.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 13 characters of 5 bits hold 63 bits.
const DIGITS: usize = 13;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!($prefix, "_"))?;
                write_base32(self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(parse_base32)
                    .map($name)
                    .ok_or_else(|| BadId { text: text.to_owned(), prefix: $prefix })
            }
        }
    };
}

id!(
    /// A run.
    RunId,
    "run"
);
id!(
    /// One version of a flow.
    FlowId,
    "flow"
);
id!(
    /// A bulk action.
    BulkId,
    "bulk"
);
id!(
    /// A schedule: the number is that of the first version of its flow.
    ScheduleId,
    "sch"
);
id!(
    /// A resume policy that was loaded without an id.
    PolicyId,
    "pol"
);
id!(
    /// A token of the API.
    TokenId,
    "tok"
);
id!(
    /// An entry of the audit.
    AuditEntryId,
    "aud"
);
id!(
    /// A stored payload.
    PayloadId,
    "pay"
);

/// A text that is no id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadId {
    text: String,
    prefix: &'static str,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadId { text, prefix } = self;
        write!(f, "`{text}` is not an id: expected `{prefix}_` and {DIGITS} letters or digits")
    }
}

impl std::error::Error for BadId {}

/// The source of new ids of one node: they only grow, even if the clock is set back.
#[derive(Clone, Debug)]
pub struct Ids {
    node: u64,
    last: u64,
}

impl Ids {
    /// How many nodes can give out ids at the same time.
    pub const NODES: u16 = 1 << NODE_BITS;

    /// Ids of `node` (0 to 1023), none of them at or below `last`.
    pub fn new(node: u16, last: u64) -> Ids {
        Ids { node: u64::from(node) & ((1 << NODE_BITS) - 1), last }
    }

    /// The last id that was given out.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether it gave out this id, after the id `last`.
    pub fn is_given_out_after(&self, last: u64, id: u64) -> bool {
        last < id && id <= self.last && self.is_own(id)
    }

    fn is_own(&self, id: u64) -> bool {
        (id >> COUNTER_BITS) & ((1 << NODE_BITS) - 1) == self.node
    }

    /// Returns the next id at `now`, always above the last. More than 4096 in one millisecond use numbers of the next
    /// one.
    pub fn next(&mut self, now: Time) -> u64 {
        let ms = u64::try_from(now.0 - EPOCH_MS).unwrap_or(0);
        let first = (ms << (NODE_BITS + COUNTER_BITS)) | (self.node << COUNTER_BITS);
        let counter_mask = (1 << COUNTER_BITS) - 1;
        self.last = if first > self.last {
            first
        } else if self.last & counter_mask < counter_mask && self.is_own(self.last) {
            self.last + 1
        } else {
            let ms = (self.last >> (NODE_BITS + COUNTER_BITS)) + 1;
            (ms << (NODE_BITS + COUNTER_BITS)) | (self.node << COUNTER_BITS)
        };
        self.last
    }
}

impl RunId {
    /// Returns the lowest id that a run started at this time or later can have. After the clock was set back, ids stay
    /// ahead of it until it catches up.
    pub fn first_at(time: Time) -> RunId {
        let ms = u64::try_from(time.0.saturating_sub(EPOCH_MS)).unwrap_or(0);
        let last = i64::MAX.cast_unsigned();
        RunId(ms.checked_mul(1 << (NODE_BITS + COUNTER_BITS)).map_or(last, |first| first.min(last)))
    }
}

/// Writes an id in Crockford's base 32, with leading zeros, so that ids sort as text.
fn write_base32(value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; DIGITS];
    for (i, digit) in text.iter_mut().rev().enumerate() {
        *digit = ALPHABET[usize::try_from((value >> (5 * i)) & 31).unwrap_or(0)];
    }
    f.write_str(std::str::from_utf8(&text).unwrap_or_default())
}

/// Parses what [`write_base32`] writes; upper-case letters are accepted.
fn parse_base32(text: &str) -> Option<u64> {
    if text.len() != DIGITS {
        return None;
    }
    text.bytes().try_fold(0u64, |value, byte| {
        let digit = ALPHABET.iter().position(|a| *a == byte.to_ascii_lowercase())?;
        value.checked_mul(32)?.checked_add(digit as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_id_of_a_time_lies_between_those_before_and_those_after() {
        let mut ids = Ids::new(3, 0);
        let times = [EPOCH_MS + 1, EPOCH_MS + 2, EPOCH_MS + 9_000].map(Time);
        for time in times {
            let first = RunId::first_at(time);
            assert!(RunId(ids.last()) < first);
            assert!(RunId(ids.next(time)) >= first);
        }
        assert_eq!(RunId::first_at(Time(0)), RunId(0));
        assert_eq!(RunId::first_at(Time(i64::MAX)), RunId(i64::MAX.cast_unsigned()));
    }

    #[test]
    fn ids_grow_even_when_the_clock_goes_back() {
        let mut ids = Ids::new(3, 0);
        let mut last = 0;
        for now in [5_000, 5_000, 4_000, 6_000, 0] {
            for _ in 0..5_000 {
                let id = ids.next(Time(EPOCH_MS + now));
                assert!(id > last, "{id} after {last}");
                assert_eq!((id >> COUNTER_BITS) & 1023, 3);
                last = id;
            }
        }
    }

    #[test]
    fn an_id_survives_being_printed() {
        for value in [0, 1, 31, 32, 123_456_789_012_345, u64::MAX >> 1] {
            let id = RunId(value);
            assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
        }
        for bad in ["", "run_", "flow_0000000000000", "run_00000000000u!", "run_00000000000000"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
