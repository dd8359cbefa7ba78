//! The queue of events to be shown: bounded, however fast events come, and overtaken by Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use unstuck_core::event::Event;
use unstuck_core::id::RunId;

use super::Message;
use super::signals::Signal;

/// How many events may wait to be shown; further ones are left out, and the runs are read from the store instead.
const MAX_WAITING: usize = 20_000;

/// Counts what waits to be shown. Shared by the engine's thread, the signal handler and the thread that shows the run.
#[derive(Clone, Default)]
pub(super) struct Backlog(Arc<Counts>);

#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    left_out: AtomicU64,
    signal: Mutex<Option<Signal>>,
}

impl Backlog {
    /// Counts an event as taken.
    pub(super) fn took_one(&self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns how many events were left out since the last call.
    pub(super) fn take_left_out(&self) -> u64 {
        self.0.left_out.swap(0, Ordering::AcqRel)
    }

    /// Records a signal, which does not wait in the queue.
    pub(super) fn interrupt(&self, signal: Signal) {
        *self.0.signal.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal);
    }

    /// Returns the signal that was received, if any.
    pub(super) fn signal(&self) -> Option<Signal> {
        *self.0.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves room for one more event; counts it as left out if there is none.
    fn has_room(&self) -> bool {
        if self.0.waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING {
            return true;
        }
        self.took_one();
        self.0.left_out.fetch_add(1, Ordering::AcqRel);
        false
    }
}

/// Forwards events of the engine, and that the engine has gone.
pub(super) struct Teller {
    pub(super) sender: Sender<Message>,
    pub(super) backlog: Backlog,
}

impl Teller {
    /// Sends an event to the thread that shows the run, if there is room.
    pub(super) fn happened(&self, run: RunId, event: &Event) {
        if self.backlog.has_room() {
            // The receiver is gone once the run has ended.
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
