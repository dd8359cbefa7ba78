//! What the thread of an engine does from one wake to the next, apart from threads and channels: so that whoever owns the
//! clocks can drive an engine the same way.

use unstuck_core::time::Millis;
use unstuck_store::contract::Store;

use crate::clock::{TimeSource, Timekeeper, Wake};
use crate::engine::{Engine, Next};
use crate::request::Output;

/// So many messages are taken in before the engine is stepped.
const MAX_INTAKE: usize = 16_384;
/// And so many after a time in which nobody took any: all that was said comes before any limit is looked at.
const MAX_LATE_INTAKE: usize = 1_000_000;

/// Drives an engine: wakes up, takes in what has come, steps, and sleeps.
pub trait Drive {
    /// What the engine stands on.
    type Store: Store;
    /// The clocks that it goes by.
    type Clocks: TimeSource;

    /// The engine.
    fn engine(&mut self) -> &mut Engine<Self::Store>;

    /// Tells the time.
    fn keeper(&mut self) -> &mut Timekeeper<Self::Clocks>;

    /// Asks whoever works here what has ended: that is said before anything is taken in.
    fn catch_up(&mut self);

    /// Takes in what has come, so many messages at most; false when it is time to stop.
    fn take_in(&mut self, most: usize) -> bool;

    /// Wakes up, takes in what has come, and steps the engine; `None` when it is time to stop.
    fn turn(&mut self) -> Option<Vec<Output>> {
        let wake = self.keeper().wake();
        self.turn_after(wake)
    }

    /// The same, when it is awake already. Where nobody took answers for a while, executors are asked what has ended
    /// meanwhile: no limit is looked at before that is known.
    fn turn_after(&mut self, wake: Wake) -> Option<Vec<Output>> {
        if let Some(correction) = wake.correction {
            self.engine().clock_was_set(correction);
        }
        let mut most = MAX_INTAKE;
        if let Some(since) = wake.down_since {
            self.engine().was_stopped(since);
            self.catch_up();
            most = MAX_LATE_INTAKE;
        }
        self.take_in(most).then(|| self.engine().step(wake.now))
    }

    /// What to do until the next turn.
    fn rest(&mut self) -> Rest {
        let until = match self.engine().what_next() {
            Next::Now => return Rest::Again,
            Next::Settling => return Rest::Settle,
            Next::At(time) => Some(time),
            Next::Idle => None,
        };
        let now = self.keeper().now();
        if until.is_some() {
            self.engine().alive(now);
        }
        let is_awaited = self.engine().is_awaited();
        Rest::Sleep(self.keeper().sleep(until, is_awaited))
    }
}

/// What to do until the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: there is more to do.
    Again,
    /// Wait for a batch that is on its way to the disk, with [`Engine::wait`].
    Settle,
    /// Sleep for so long, or until something comes; without end where nothing is due.
    Sleep(Option<Millis>),
}
