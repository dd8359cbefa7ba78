//! Rehearsals: the real engine on virtual time, with every executor emulated by a plan; what happened, and what to make of it.

pub mod auto;
mod examples;
mod execution;
mod ledger;
mod lints;
mod report;
mod rungs;
mod timeline;
mod workers;

use std::sync::Arc;

use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Kind, Step};
use unstuck_core::policy::Policy;
use unstuck_core::time::Millis;
use unstuck_flow::plan::Plan;

pub use examples::{ExampleFrom, Missing, MissingExample, Unfit};
pub use execution::{ExecutedPlan, RehearsalError, execute_plan};
pub use lints::doubts;
pub use report::{Attempts, Broken, EndKind, EndOf, PolicyUse, Report, RunEnd, Spread, report};
pub use timeline::{Timeline, TimelineLine, timeline};

/// What is rehearsed.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// Every flow that may be needed.
    pub flows: Vec<Flow>,
    /// The name of the one that is run.
    pub flow: Arc<str>,
    /// The resume policies in force.
    pub policies: Vec<Policy>,
    /// What happens.
    pub plan: Plan,
    /// The input of every run.
    pub input: Json,
    /// How many emulated workers there are.
    pub workers: u32,
    /// How many runs are started.
    pub runs: u32,
    /// Where chance starts.
    pub seed: u64,
    /// When it is broken off, counted from its start.
    pub until: Millis,
    /// After so many events it is broken off.
    pub max_events: u64,
    /// Which histories are kept for a timeline.
    pub keep: Keep,
}

/// Which histories are kept for a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    All,
    /// That of the first run.
    First,
    /// Those of runs that are not completed.
    NotCompleted,
    None,
}

/// The flows that a step leads to: its child, its exception handler.
pub fn other_flows(step: &Step) -> Vec<Arc<str>> {
    let child = match &step.kind {
        Kind::Child(flow) => Some(flow.clone()),
        Kind::Action(_)
        | Kind::Process(_)
        | Kind::Http(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Set(_)
        | Kind::Emulate(_) => None,
    };
    child.into_iter().chain(step.exception_handler.clone()).collect()
}

impl Rehearsal {
    /// The flow that is run.
    pub fn root(&self) -> Option<&Flow> {
        self.flows.iter().find(|flow| flow.name == self.flow)
    }
}
