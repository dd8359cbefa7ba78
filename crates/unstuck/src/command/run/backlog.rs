//! What waits to be shown: bounded, however fast things happen, and overtaken by Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use unstuck_core::event::Event;
use unstuck_core::id::RunId;

use super::Message;
use super::signals::Signal;

/// So many events wait to be shown; more are left out, and read from the store instead.
const MAX_WAITING: usize = 20_000;

/// Shared by the engine, who tells what happens, by whoever listens for signals, and by who shows it all.
#[derive(Clone, Default)]
pub(super) struct Backlog(Arc<Counts>);

#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    left_out: AtomicU64,
    signal: Mutex<Option<Signal>>,
}

impl Backlog {
    /// An event was taken from what waits.
    pub(super) fn took_one(&self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many events were left out since this was last asked.
    pub(super) fn take_left_out(&self) -> u64 {
        self.0.left_out.swap(0, Ordering::AcqRel)
    }

    /// A signal has come: it waits behind nothing.
    pub(super) fn interrupt(&self, signal: Signal) {
        *self.0.signal.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal);
    }

    /// The signal that has come.
    pub(super) fn signal(&self) -> Option<Signal> {
        *self.0.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for one more event, which is taken.
    fn has_room(&self) -> bool {
        if self.0.waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING {
            return true;
        }
        self.took_one();
        self.0.left_out.fetch_add(1, Ordering::AcqRel);
        false
    }
}

/// Passes on what the engine tells, and that it has gone.
pub(super) struct Teller {
    pub(super) sender: Sender<Message>,
    pub(super) backlog: Backlog,
}

impl Teller {
    pub(super) fn happened(&self, run: RunId, event: &Event) {
        if self.backlog.has_room() {
            // Nobody listens any more once the run is over.
            let _ = self.sender.send(Message::Happened(run, event.clone()));
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::EngineGone);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use unstuck_core::event::Actor;
    use unstuck_core::time::Time;

    use super::*;

    #[test]
    fn what_waits_to_be_shown_is_bounded_and_what_is_left_out_is_counted() {
        let (sender, receiver) = channel();
        let teller = Teller { sender, backlog: Backlog::default() };
        let event =
            Event { seq: 1, generation: 1, at: Time(0), clock: None, by: Actor::Engine, facts: Vec::new() };
        for run in 0..MAX_WAITING as u64 + 7 {
            teller.happened(RunId(run), &event);
        }
        assert_eq!(receiver.try_iter().count(), MAX_WAITING);
        assert_eq!((teller.backlog.take_left_out(), teller.backlog.take_left_out()), (7, 0));
        teller.happened(RunId(1), &event);
        assert_eq!(receiver.try_iter().count(), 0, "nobody has taken one yet");
        (0..10).for_each(|_| teller.backlog.took_one());
        teller.happened(RunId(1), &event);
        assert_eq!(receiver.try_iter().count(), 1);
    }
}
