//! Watches every promise: what goes into the engine, what comes out of it, and what its store shows.

mod promise;

use std::collections::BTreeMap;

use unstuck_core::policy::Policies;
use unstuck_core::time::Time;
use unstuck_engine::engine::Engine;
use unstuck_engine::request::{Output, Request};
use unstuck_store::contract::Store;

pub use promise::{Broken, Promise};

/// What has been promised so far, and what each check needs to know.
#[derive(Debug, Default)]
pub struct Promises {
    checked: BTreeMap<Promise, u64>,
}

impl Promises {
    /// Nothing has been promised yet.
    pub fn new() -> Promises {
        Promises::default()
    }

    /// Somebody asks: before it is submitted.
    pub fn asked(&mut self, request: &Request, now: Time) {
        let _ = (request, now);
    }

    /// The engine wants something done: everything in it is durable.
    pub fn heard(&mut self, output: &Output, now: Time) -> Result<(), Broken> {
        let _ = (output, now);
        Ok(())
    }

    /// Policies were changed and that was acknowledged.
    pub fn policies(&mut self, policies: &Policies) {
        let _ = policies;
    }

    /// After every step: looks at the runs that something has happened to (their state may not be durable yet).
    pub fn look<S: Store>(&mut self, engine: &mut Engine<S>, now: Time) -> Result<(), Broken> {
        let _ = (engine, now);
        Ok(())
    }

    /// The process died and another one has opened the store: before it does anything.
    pub fn after_crash<S: Store>(&mut self, engine: &mut Engine<S>, now: Time) -> Result<(), Broken> {
        let _ = (engine, now);
        Ok(())
    }

    /// Faults have stopped, workers do their work, people answer: everything must have come to its end.
    pub fn settled<S: Store>(&mut self, engine: &mut Engine<S>, now: Time) -> Result<(), Broken> {
        let _ = (engine, now);
        Ok(())
    }

    /// How often each promise was checked.
    pub fn checked(&self) -> &BTreeMap<Promise, u64> {
        &self.checked
    }
}
