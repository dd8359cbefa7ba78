//! Random flows, policies, workers and operators under faults, from a seed; and every promise watched.
//!
//! A seed becomes a [`Plan`], which is data. The world carries it out on any store that can crash, with the real engine on a
//! virtual clock, and asks [`Promises`](promises::Promises) at every step. The same plan gives the same trace, byte for byte.

mod chance;
mod contended;
pub mod plan;
pub mod promises;
pub mod shrink;
pub mod sweep;
pub mod tally;
mod trace;
mod worker_behaviour;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use unstuck_store::conformance::TestStore;
use unstuck_store::memory::{MemoryStore, SharedStore};

use contended::Contended;
pub use plan::Plan;
use promises::{Broken, Promise};
use tally::Tally;
use world::World;

/// What came of a simulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of which seed.
    pub seed: u64,
    /// A digest of the trace.
    pub digest: u64,
    /// A line for everything that happened, if they were to be kept.
    pub trace: Vec<String>,
    /// The faults that fired, by kind.
    pub faults: Tally,
    /// The acts that were done, by kind.
    pub acts: Tally,
    /// How often each promise was checked.
    pub checked: BTreeMap<Promise, u64>,
    /// What went wrong, if anything did.
    pub broken: Option<Failure>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A promise was not kept.
    Broken(Broken),
    /// Something panicked, with these words.
    Panicked(String),
}

impl Failure {
    /// Whether another one is of the same kind: the same promise, or a panic as well.
    pub fn is_like(&self, other: &Failure) -> bool {
        match (self, other) {
            (Failure::Broken(one), Failure::Broken(other)) => one.promise == other.promise,
            (Failure::Panicked(_), Failure::Panicked(_)) => true,
            (Failure::Broken(_), Failure::Panicked(_)) | (Failure::Panicked(_), Failure::Broken(_)) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Broken(broken) => broken.fmt(f),
            Failure::Panicked(words) => write!(f, "panicked: {words}"),
        }
    }
}

/// Simulates a seed on a store that this makes; with one server, where it cannot be shared.
pub fn run<S: TestStore>(seed: u64, make_store: impl FnOnce() -> S) -> Report {
    run_plan(&Plan::of(seed), make_store, false)
}

/// Simulates a seed in memory, with as many servers as its plan has.
pub fn run_in_memory(seed: u64) -> Report {
    run_plan_in_memory(&Plan::of(seed), false)
}

/// Carries a plan out in memory, with as many servers as it has, and keeps the lines of the trace or only their digest.
pub fn run_plan_in_memory(plan: &Plan, keeps_lines: bool) -> Report {
    if plan.has_several_nodes() {
        let shared = || {
            let mut store = MemoryStore::deferred();
            store.set_lanes(plan.lanes);
            let store = SharedStore::new(store);
            store.tell_time();
            store
        };
        return run_plan(plan, shared, keeps_lines);
    }
    run_plan(plan, MemoryStore::deferred, keeps_lines)
}

/// Carries a plan out on a store that this makes, and keeps the lines of the trace or only their digest.
pub fn run_plan<S: TestStore>(plan: &Plan, make_store: impl FnOnce() -> S, keeps_lines: bool) -> Report {
    let mut world = World::new(plan, Contended::new(make_store()), keeps_lines);
    // After a panic the world is only read.
    let came = catch_unwind(AssertUnwindSafe(|| world.run_plan()));
    let broken = match came {
        Ok(Ok(())) => None,
        Ok(Err(broken)) => Some(Failure::Broken(broken)),
        Err(panic) => Some(Failure::Panicked(words_of(panic.as_ref()))),
    };
    let World { promises, trace, faults, acts, .. } = world;
    let (digest, trace) = trace.end();
    let checked = promises.checked().clone();
    Report { seed: plan.seed, digest, trace, faults, acts, checked, broken }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words").to_owned()
}
