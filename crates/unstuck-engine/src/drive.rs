//! What the thread of an engine does from one wake to the next, apart from threads and channels: so that whoever owns the
//! clocks can drive an engine the same way.

use unstuck_core::time::Millis;
use unstuck_store::contract::Store;

use crate::clock::{EngineTimer, TimeSource, Wake};
use crate::engine::{Engine, NextStep};
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

    fn engine(&mut self) -> &mut Engine<Self::Store>;

    /// Tells the time.
    fn timer(&mut self) -> &mut EngineTimer<Self::Clocks>;

    /// Asks whoever works here what has ended: that is said before anything is taken in.
    fn collect_ended(&mut self);

    /// Takes in what has come, so many messages at most; false when it is time to stop.
    fn take_messages(&mut self, most: usize) -> bool;

    /// How long until something besides the engine's own work is to be done, if something is.
    fn time_to_own_work(&mut self) -> Option<Millis> {
        None
    }

    /// Wakes up, takes in what has come, and steps the engine; `None` when it is time to stop.
    fn run_turn(&mut self) -> Option<Vec<Output>> {
        let wake = self.timer().wake();
        self.run_turn_after(wake)
    }

    /// The same, when it is awake already. Where nobody took answers for a while, executors are asked what has ended
    /// meanwhile: no limit is looked at before that is known.
    fn run_turn_after(&mut self, wake: Wake) -> Option<Vec<Output>> {
        if let Some(correction) = wake.correction {
            self.engine().record_correction(correction);
        }
        let mut most = MAX_INTAKE;
        if let Some(since) = wake.down_since {
            self.engine().record_stop(since);
            self.collect_ended();
            most = MAX_LATE_INTAKE;
        }
        self.take_messages(most).then(|| self.engine().step(wake.now))
    }

    /// What to do until the next turn.
    fn next_rest(&mut self) -> Rest {
        let until = match self.engine().next_step() {
            NextStep::Now => return Rest::Again,
            NextStep::Settling => return Rest::Settle,
            NextStep::At(time) => Some(time),
            NextStep::Idle => None,
        };
        let now = self.timer().now();
        let own = self.time_to_own_work().map(|wait| now + wait);
        let until = until.into_iter().chain(own).min();
        if until.is_some() {
            self.engine().record_alive(now);
        }
        let is_awaited = self.engine().has_live_workers();
        Rest::Sleep(self.timer().sleep(until, is_awaited))
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
