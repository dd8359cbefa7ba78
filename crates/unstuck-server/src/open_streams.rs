//! The event streams that are open: how many there are, and how far behind they are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstuck_core::time::{Millis, Time};

/// All streams that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenStreams(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The number of the next one.
    next: AtomicU64,
    /// By number: when the first event happened that a stream has not been given yet; none where it has been given all.
    streams: Mutex<BTreeMap<u64, Option<Time>>>,
}

impl OpenStreams {
    /// Opens a stream, unless as many as may be are open.
    pub(crate) fn open(&self, most: usize) -> Option<OpenStream> {
        let mut streams = self.lock();
        if streams.len() >= most {
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        streams.insert(number, None);
        Some(OpenStream { streams: self.clone(), number })
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// How long ago the oldest event happened that some stream has not been given yet.
    pub(crate) fn lag(&self, now: Time) -> Millis {
        let oldest = self.lock().values().flatten().min().copied();
        oldest.map_or(Millis(0), |oldest| now.since(oldest))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Option<Time>>> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream {
    streams: OpenStreams,
    number: u64,
}

impl OpenStream {
    /// Notes when the next event happened that it is to be given, or that it has been given all.
    pub(crate) fn set_behind(&self, next: Option<Time>) {
        self.streams.lock().insert(self.number, next);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_that_is_furthest_behind_counts() {
        let streams = OpenStreams::default();
        let (first, second) = (streams.open(2).expect("a place"), streams.open(2).expect("a place"));
        assert!(streams.open(2).is_none());
        assert_eq!((streams.count(), streams.lag(Time(9_000))), (2, Millis(0)));
        first.set_behind(Some(Time(4_000)));
        second.set_behind(Some(Time(7_000)));
        assert_eq!(streams.lag(Time(9_000)), Millis(5_000));
        first.set_behind(None);
        assert_eq!(streams.lag(Time(9_000)), Millis(2_000));
        drop(second);
        assert_eq!((streams.count(), streams.lag(Time(9_000))), (1, Millis(0)));
        assert!(streams.open(2).is_some());
    }
}
