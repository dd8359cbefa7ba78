//! A seed becomes a plan: everything that is asked, done and broken in one simulation, as data, before anything happens.

pub(crate) mod acts;
pub(crate) mod draw;
pub(crate) mod flows;
pub(crate) mod policies;

use std::fmt;
use std::sync::Arc;

use unstuck_core::policy::PolicyDraft;
use unstuck_core::time::Millis;

pub use acts::{Crash, Fault, Nonsense, OperatorAct, PlannedAct, StartPlan, StoreFault};
pub use flows::PlannedFlow;

use crate::simulate::chance::Chance;

/// What is going to happen.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it comes from; chance that is not in the plan follows from it too.
    pub seed: u64,
    /// The flows that there are from the beginning.
    pub flows: Vec<PlannedFlow>,
    /// The policies that there are from the beginning.
    pub policies: Vec<PolicyDraft>,
    /// Who carries out attempts.
    pub workers: Vec<PlannedWorker>,
    /// What is done when, in order of time.
    pub acts: Vec<(Millis, PlannedAct)>,
}

/// Somebody who carries out attempts.
#[derive(Clone, Debug)]
pub struct PlannedWorker {
    pub name: Arc<str>,
    /// Whether it lives in the engine's process.
    pub local: bool,
    /// The queues that it takes from.
    pub queues: Vec<Arc<str>>,
    /// How much load it takes at once.
    pub max_load: u32,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let flows = flows::draw(&mut Chance::of(seed, &[1]));
        let policies = policies::draw(&mut Chance::of(seed, &[2]), &flows);
        let workers = draw::workers(&mut Chance::of(seed, &[3]));
        let acts = draw::acts(seed, &flows);
        Plan { seed, flows, policies, workers, acts }
    }

    /// Whether its flows load, and somebody takes from every queue: without that nothing follows from it.
    pub(crate) fn makes_sense(&self) -> bool {
        let names: Vec<&str> = self.flows.iter().map(|flow| &*flow.name).collect();
        let taken = |queue: &&str| {
            self.workers.iter().any(|worker| worker.queues.iter().any(|mine| &**mine == *queue))
        };
        self.flows.iter().all(|flow| flow.load(&names).is_ok()) && flows::QUEUES.iter().all(taken)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for flow in &self.flows {
            writeln!(f, "flow {flow}")?;
        }
        for policy in &self.policies {
            writeln!(f, "policy {}", policies::words(policy))?;
        }
        for worker in &self.workers {
            let PlannedWorker { name, local, queues, max_load } = worker;
            let place = if *local { "beside the engine" } else { "elsewhere" };
            writeln!(f, "worker {name} {place}, takes {} from {}", max_load, queues.join(", "))?;
        }
        for (at, act) in &self.acts {
            writeln!(f, "{:>10}  {act}", at.to_string())?;
        }
        Ok(())
    }
}
