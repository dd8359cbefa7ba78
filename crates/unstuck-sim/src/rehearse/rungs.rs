//! Which rungs of the recovery ladder decided, and which of those that a flow sets up were never reached.

use serde::Serialize;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::{Step, StepIndex};
use unstuck_core::model::recovery::RetryStrategy;

use super::Rehearsal;
use super::execution::ExecutedPlan;
use super::ledger::Reached;

/// What decided at a step, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RungUse {
    /// The step, with its flow where that is not the one that is run.
    pub step: String,
    /// The rung, in the words of `unstuck explain`.
    pub rung: String,
    /// What it did.
    pub what: String,
    /// How often.
    pub times: u64,
}

impl Reached {
    fn rung(self) -> &'static str {
        match self {
            Reached::Retry | Reached::Hold => "retryStrategy",
            Reached::FailOnError => "failOnError",
            Reached::Policy => "resumePolicy",
            Reached::Handler => "exceptionHandler",
            Reached::Rest => "rest",
            Reached::Failed => "failed",
            Reached::Stuck => "stuck",
            Reached::Deferral => "deferral",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Reached::Retry => "retried",
            Reached::Hold => "held for an operator",
            Reached::FailOnError => "continued without it",
            Reached::Policy => "left to a resume policy",
            Reached::Handler => "left to the exception handler",
            Reached::Rest => "left in error",
            Reached::Failed => "failed the run",
            Reached::Stuck => "retried after being stuck",
            Reached::Deferral => "deferred",
        }
    }
}

/// Every rung that decided, by step.
pub(super) fn used(played: &ExecutedPlan) -> Vec<RungUse> {
    let root = played.runs.first().map(|run| run.flow);
    let uses = played.ledger.reached.iter().map(|((flow, step, reached), times)| RungUse {
        step: step_name(played, root, *flow, *step),
        rung: reached.rung().to_owned(),
        what: reached.what().to_owned(),
        times: *times,
    });
    uses.collect()
}

fn step_name(played: &ExecutedPlan, root: Option<FlowId>, flow: FlowId, step: StepIndex) -> String {
    match played.flows.get(&flow) {
        None => String::new(),
        Some(of) if Some(flow) == root => of.step(step).id.to_string(),
        Some(of) => format!("{}.{}", of.name, of.step(step).id),
    }
}

/// What the flows say about recovery, and nothing came to; and the policies that took nothing.
pub(super) fn never_reached(rehearsal: &Rehearsal, played: &ExecutedPlan) -> Vec<String> {
    let mut never = Vec::new();
    for (id, flow) in &played.flows {
        let name = |step: &Step| {
            let is_root = flow.name == rehearsal.flow;
            if is_root { format!("`{}`", step.id) } else { format!("`{}.{}`", flow.name, step.id) }
        };
        for place in flow.step_indices() {
            let step = flow.step(place);
            let was = |reached| played.ledger.reached.contains_key(&(*id, place, reached));
            for (_, rule) in set_up(step).into_iter().filter(|(reached, _)| !was(*reached)) {
                never.push(format!("{rule} of {}", name(step)));
            }
        }
    }
    let taken = |name: &str| played.ledger.policies.contains_key(name);
    for policy in rehearsal.policies.iter().filter(|policy| policy.enabled && !taken(&policy.name)) {
        never.push(format!("policy `{}`", policy.name));
    }
    never
}

/// The rungs that a step sets up itself.
fn set_up(step: &Step) -> Vec<(Reached, String)> {
    let mut rungs = Vec::new();
    match step.retry {
        RetryStrategy::None => {}
        RetryStrategy::Retry { .. } => rungs.push((Reached::Retry, "retryStrategy: retry".to_owned())),
        RetryStrategy::Hold { .. } => rungs.push((Reached::Hold, "retryStrategy: hold".to_owned())),
    }
    if !step.fail_on_error {
        rungs.push((Reached::FailOnError, "failOnError: false".to_owned()));
    }
    if let Some(handler) = &step.exception_handler {
        rungs.push((Reached::Handler, format!("exceptionHandler: {handler}")));
    }
    rungs
}
