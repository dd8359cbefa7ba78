//! A seed becomes a plan: everything that is asked, done and broken in one simulation, as data, before anything happens.

pub(crate) mod acts;
pub(crate) mod draw;
pub(crate) mod flows;
pub(crate) mod nodes;
pub(crate) mod policies;

use std::fmt;
use std::sync::Arc;

use unstuck_core::policy::PolicyDraft;
use unstuck_core::time::Millis;

pub use acts::{Crash, Fault, LostAnswer, Nonsense, OperatorAct, PlannedAct, StartPlan, StoreFault};
pub use flows::PlannedFlow;
pub use nodes::{PlannedNode, Survivors};

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
    /// The servers that share the store; one has it to itself.
    pub nodes: Vec<PlannedNode>,
    /// Which of them are there when faults have stopped.
    pub survivors: Survivors,
    /// How many batches each of them may have under way at once.
    pub lanes: usize,
    /// Who carries out attempts.
    pub workers: Vec<PlannedWorker>,
    /// What is done when, in order of time.
    pub acts: Vec<TimedAct>,
}

/// Something that is done at a time, at a server.
#[derive(Clone, Debug)]
pub struct TimedAct {
    /// So long after the beginning.
    pub at: Millis,
    /// The place of the server that is asked, or that it happens to.
    pub node: usize,
    pub act: PlannedAct,
}

/// Somebody who carries out attempts.
#[derive(Clone, Debug)]
pub struct PlannedWorker {
    pub name: Arc<str>,
    /// Whether it lives in the engine's process: each server has one of this name then.
    pub local: bool,
    /// The place of the server that one elsewhere is connected to at first.
    pub node: usize,
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
        let (nodes, survivors) = nodes::draw(&mut Chance::of(seed, &[16]));
        let lanes = nodes::draw_lanes(&mut Chance::of(seed, &[23]), nodes.len());
        let mut workers = draw::workers(&mut Chance::of(seed, &[3]));
        nodes::connect(&mut Chance::of(seed, &[17]), &mut workers, nodes.len());
        let acts = draw::acts(seed, &flows);
        let acts = nodes::spread(seed, acts, nodes.len());
        Plan { seed, flows, policies, nodes, survivors, lanes, workers, acts }
    }

    /// Whether several servers share the store.
    pub fn has_several_nodes(&self) -> bool {
        self.nodes.len() > 1
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
        if self.has_several_nodes() {
            for (place, node) in self.nodes.iter().enumerate() {
                writeln!(f, "server {place} on {}", node.host)?;
            }
            writeln!(f, "in the end {}", self.survivors.words())?;
            writeln!(f, "{} batches at once", self.lanes)?;
        }
        for worker in &self.workers {
            let PlannedWorker { name, local, node, queues, max_load } = worker;
            let place = if *local { "beside the engine".to_owned() } else { format!("elsewhere, at {node}") };
            writeln!(f, "worker {name} {place}, takes {} from {}", max_load, queues.join(", "))?;
        }
        for TimedAct { at, node, act } in &self.acts {
            writeln!(f, "{:>10}  {node}: {act}", at.to_string())?;
        }
        Ok(())
    }
}
