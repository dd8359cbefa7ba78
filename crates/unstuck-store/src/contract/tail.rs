//! A tail of events: all that happens, in the order in which it became durable, from a place on.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use unstuck_core::event::Event;
use unstuck_core::id::RunId;

use crate::contract::StoreError;

/// Where a tail goes on. It is opaque to whoever holds it, and outlives the process that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The store: no two have the same number, a copy and what it was taken of apart.
    pub(crate) store: u64,
    /// The life of the store: a copy begins another one.
    pub(crate) epoch: u64,
    /// How far it has come in it, as the store counts.
    pub(crate) position: u64,
}

impl Cursor {
    /// For stores: names a position in one epoch of one store.
    pub fn new(store: u64, epoch: u64, position: u64) -> Cursor {
        Cursor { store, epoch, position }
    }

    /// For stores: returns the position if it is in the same store and epoch as `end`, and not beyond it.
    pub fn position_before(&self, end: &Cursor) -> Result<u64, TailError> {
        let is_here = self.store == end.store && self.epoch == end.epoch;
        if is_here && self.position <= end.position { Ok(self.position) } else { Err(TailError::Gone) }
    }

    /// For stores: names another position in the same store and epoch.
    #[must_use]
    pub fn with_position(&self, position: u64) -> Cursor {
        Cursor { position, ..self.clone() }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Which life of the store it is of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}.{:x}", self.store, self.epoch, self.position)
    }
}

impl FromStr for Cursor {
    type Err = TailError;

    fn from_str(text: &str) -> Result<Cursor, TailError> {
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
            u64::from_str_radix(text, 16).ok().filter(|_| is_plain)
        };
        let numbers: Option<Vec<u64>> = text.split('.').map(number).collect();
        match numbers.as_deref() {
            Some([store, epoch, position]) => Ok(Cursor::new(*store, *epoch, *position)),
            Some(_) | None => Err(TailError::NoCursor),
        }
    }
}

/// Some of what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct TailPage {
    /// In order; events of one run by their numbers. Those of runs that were forgotten are left out.
    pub events: Vec<(RunId, Event)>,
    /// After all of these.
    pub next: Cursor,
    /// Whether that is all there is for now.
    pub is_end: bool,
}

/// Why a tail does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailError {
    /// The text was never a cursor.
    NoCursor,
    /// The cursor is of another life of the store, or of another store: what is there is to be read again.
    Gone,
    Store(StoreError),
}

impl fmt::Display for TailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TailError::NoCursor => {
                f.write_str("this is not a place in the events of a store; give one as it was told")
            }
            TailError::Gone => f.write_str(
                "this place in the events is of another store, or of this one before it was restored from a copy; \
                 list the runs again, and go on from there",
            ),
            TailError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TailError {}

impl From<StoreError> for TailError {
    fn from(error: StoreError) -> TailError {
        TailError::Store(error)
    }
}

/// Called when something has become durable. It is called from any thread, and must not block.
pub type OnChange = Arc<dyn Fn() + Send + Sync>;

/// For stores: whoever wants to be told of changes, for as long as it is there.
#[derive(Default)]
pub struct Watchers(Mutex<Vec<Weak<dyn Fn() + Send + Sync>>>);

impl Watchers {
    /// Adds a watcher for as long as somebody else holds it too: whoever stops watching just drops it.
    pub fn add(&self, watcher: &OnChange) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(watcher));
    }

    /// Calls all watchers that are still held.
    pub fn tell(&self) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| match watcher.upgrade() {
            Some(watcher) => {
                watcher();
                true
            }
            None => false,
        });
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watchers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_told() {
        for (cursor, text) in [
            (Cursor::new(9, 1, 0), "9.1.0"),
            (Cursor::new(0xa8f1, 3, 7), "a8f1.3.7"),
            (Cursor::new(u64::MAX, 1, 16), "ffffffffffffffff.1.10"),
        ] {
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse(), Ok(cursor));
        }
        for text in
            ["", ".", "1", "1.2", "1.2.", ".1.2", "1.2.3.4", "1.2.-3", "1.2.+3", " 1.2.3", "1.2.G", "1.2.A"]
        {
            assert_eq!(text.parse::<Cursor>(), Err(TailError::NoCursor), "{text}");
        }
        assert_eq!("1.2.11111111111111111".parse::<Cursor>(), Err(TailError::NoCursor), "too large");
    }

    #[test]
    fn a_cursor_belongs_to_a_life_of_a_store() {
        let end = Cursor::new(1, 2, 7);
        assert_eq!(end.position_before(&end), Ok(7));
        assert_eq!(end.with_position(3).position_before(&end), Ok(3));
        assert_eq!(end.with_position(8).position_before(&end), Err(TailError::Gone), "it is ahead");
        assert_eq!(Cursor::new(1, 1, 3).position_before(&end), Err(TailError::Gone), "it is of another life");
        assert_eq!(
            Cursor::new(2, 2, 3).position_before(&end),
            Err(TailError::Gone),
            "it is of another store"
        );
    }

    #[test]
    fn who_is_gone_is_told_nothing() {
        let count = Arc::new(Mutex::new(0));
        let watchers = Watchers::default();
        let counting = |by: i32| -> OnChange {
            let count = count.clone();
            Arc::new(move || *count.lock().unwrap() += by)
        };
        let (one, ten) = (counting(1), counting(10));
        watchers.add(&one);
        watchers.add(&ten);
        watchers.tell();
        drop(ten);
        watchers.tell();
        assert_eq!(*count.lock().unwrap(), 12);
    }
}
