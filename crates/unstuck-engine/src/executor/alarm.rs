//! Alarms: things to do later, all of them by one thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::lock;

/// Does things when they are due, in order of time, in a thread of its own. What it does must not block.
pub struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Names an alarm that has been set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmId {
    at: Instant,
    number: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: BTreeMap<AlarmId, Box<dyn FnOnce() + Send>>,
    number: u64,
    closed: bool,
}

impl Alarm {
    /// Nothing is set yet.
    pub fn new() -> Alarm {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        Alarm { shared, thread: Some(thread::spawn(move || seen.ring())) }
    }

    /// Does this at `at`, or right away if that has passed.
    pub fn set(&self, at: Instant, what: impl FnOnce() + Send + 'static) -> AlarmId {
        let mut state = lock(&self.shared.state);
        let id = AlarmId { at, number: state.number };
        state.number += 1;
        state.due.insert(id, Box::new(what));
        if state.due.first_key_value().is_some_and(|(first, _)| *first == id) {
            self.shared.changed.notify_one();
        }
        id
    }

    /// Takes an alarm back; false if it has rung already, or is about to.
    pub fn clear(&self, id: AlarmId) -> bool {
        lock(&self.shared.state).due.remove(&id).is_some()
    }
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm::new()
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("set", &lock(&self.shared.state).due.len()).finish_non_exhaustive()
    }
}

impl Drop for Alarm {
    /// What is still set is never done.
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.changed.notify_one();
        let thread = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = thread {
            // An error is a panic of what was done, and that has been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn ring(&self) {
        let mut state = lock(&self.state);
        while !state.closed {
            let now = Instant::now();
            match state.due.first_key_value().map(|(first, _)| first.at) {
                Some(at) if at <= now => {
                    let first = state.due.pop_first();
                    drop(state);
                    if let Some((_, what)) = first {
                        what();
                    }
                    state = lock(&self.state);
                }
                Some(at) => {
                    let waited = self.changed.wait_timeout(state, at - now);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn alarms_ring_in_order_of_time_and_not_when_cleared() {
        let alarm = Alarm::new();
        let (sender, rung) = mpsc::channel();
        let now = Instant::now();
        let set = |after: u64, name: &'static str| {
            let sender = sender.clone();
            alarm.set(now + Duration::from_millis(after), move || sender.send(name).expect("heard"))
        };
        set(60, "last");
        let cleared = set(40, "cleared");
        set(20, "second");
        set(0, "first");
        set(20, "third");
        assert!(alarm.clear(cleared) && !alarm.clear(cleared));
        let order: Vec<&str> =
            (0..4).map(|_| rung.recv_timeout(Duration::from_secs(10)).expect("rings")).collect();
        assert_eq!(order, ["first", "second", "third", "last"]);
        set(3_600_000, "never");
        drop(alarm);
        assert!(rung.try_recv().is_err());
    }
}
