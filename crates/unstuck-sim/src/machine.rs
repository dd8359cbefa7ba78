//! An engine on a virtual clock: nothing passes unless it is told to.

use unstuck_core::time::Time;
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::flows::Compile;
use unstuck_engine::request::Output;
use unstuck_store::contract::{Store, StoreError};

/// An engine, and the time that it is told.
pub struct Machine<S> {
    /// The engine: requests are submitted to it, executors registered with it.
    pub engine: Engine<S>,
    now: Time,
}

impl<S: Store> Machine<S> {
    /// An engine on this store, started at this time.
    pub fn start(
        store: S,
        compile: Compile,
        settings: Settings,
        now: Time,
    ) -> Result<Machine<S>, StoreError> {
        Ok(Machine { engine: Engine::new(store, compile, settings)?, now })
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The clock is set. A clock may go back: the engine must cope.
    pub fn set_clock(&mut self, now: Time) {
        self.now = now;
    }

    /// One batch, and what has become durable meanwhile.
    pub fn step(&mut self) -> Vec<Output> {
        self.engine.step(self.now)
    }

    /// Works until there is nothing more to do at this time, with everything durable; gives what came out, in order.
    pub fn work(&mut self) -> Vec<Output> {
        let mut outputs = self.step();
        loop {
            match self.engine.next_step() {
                NextStep::Now => outputs.extend(self.engine.step(self.now)),
                NextStep::Settling => {
                    let before = self.engine.outstanding();
                    outputs.extend(self.engine.wait());
                    if self.engine.outstanding() == before {
                        // Nobody knows yet what became of it.
                        return outputs;
                    }
                }
                NextStep::At(time) if time <= self.now => outputs.extend(self.engine.step(self.now)),
                NextStep::At(_) | NextStep::Idle => return outputs,
            }
        }
    }

    /// When the engine has something to do by itself, if nobody asks anything of it.
    pub fn next_at(&mut self) -> Option<Time> {
        match self.engine.next_step() {
            NextStep::Now | NextStep::Settling => Some(self.now),
            NextStep::At(time) => Some(time),
            NextStep::Idle => None,
        }
    }
}
