//! What is to come, in order of time: what comes at the same time comes in the order in which it was put.

use std::collections::BTreeMap;

use unstuck_core::time::Time;

/// What is to come.
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    entries: BTreeMap<(Time, u64), T>,
    next: u64,
}

/// Names an entry, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry(Time, u64);

impl<T> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue { entries: BTreeMap::new(), next: 0 }
    }
}

impl<T> EventQueue<T> {
    /// At this time, this.
    pub fn put(&mut self, at: Time, what: T) -> Entry {
        self.next += 1;
        self.entries.insert((at, self.next), what);
        Entry(at, self.next)
    }

    /// Takes an entry back, if it has not come yet.
    pub fn take_back(&mut self, entry: Entry) -> Option<T> {
        self.entries.remove(&(entry.0, entry.1))
    }

    /// When the next thing comes.
    pub fn next_at(&self) -> Option<Time> {
        self.entries.keys().next().map(|(at, _)| *at)
    }

    /// The next thing that has come by `now`.
    pub fn pop(&mut self, now: Time) -> Option<T> {
        let entry = self.entries.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Whether nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets what is not wanted any more.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&T) -> bool) {
        self.entries.retain(|_, what| is_wanted(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_come_comes_in_order_of_time_and_then_as_it_was_put() {
        let mut agenda = EventQueue::default();
        for (at, what) in [(20, 'c'), (10, 'a'), (20, 'd'), (10, 'b'), (30, 'f')] {
            agenda.put(Time(at), what);
        }
        let last = agenda.put(Time(25), 'e');
        assert_eq!(agenda.take_back(last), Some('e'));
        assert_eq!(agenda.take_back(last), None);
        assert_eq!(agenda.next_at(), Some(Time(10)));
        let come: String = std::iter::from_fn(|| agenda.pop(Time(20))).collect();
        assert_eq!(come, "abcd");
        assert_eq!(agenda.next_at(), Some(Time(30)));
        agenda.retain(|_| false);
        assert!(agenda.is_empty());
    }
}
