//! What would help against a fault that does not end well.

use unstuck_core::model::flow::{Kind, Step};
use unstuck_core::model::recovery::RetryStrategy;

use super::fault::{DRAG, Fault, FaultKind};
use crate::rehearse::report::EndKind;

/// What would help, in a sentence without a full stop.
pub(super) fn advice(step: &Step, fault: &Fault, end: EndKind) -> String {
    match end {
        EndKind::Held => {
            "an operator must choose: alert one, or retry first (`retryStrategy: retry`)".to_owned()
        }
        EndKind::GoingOn => {
            "the run never ends: set a `deadline` for the flow, or `maxAttempts` for its retries".to_owned()
        }
        EndKind::Waiting | EndKind::Queued => {
            "it waits for something that never comes: set a `timeout`, or a `deadline` for the flow"
                .to_owned()
        }
        EndKind::Completed | EndKind::Failed | EndKind::Cancelled | EndKind::Error => of_fault(step, fault),
    }
}

fn of_fault(step: &Step, fault: &Fault) -> String {
    let max_stuck = step.limits.max_stuck;
    let has_handler = step.exception_handler.is_some();
    // A process that a signal ends is stalled, and so is a request whose server dies, where a worker that dies leaves a stuck attempt.
    let kind = match (fault.kind, &step.kind) {
        (FaultKind::Crash, Kind::Process(_) | Kind::Http(_)) => FaultKind::Stall,
        (kind, _) => kind,
    };
    match (kind, fault.always) {
        (FaultKind::Stall | FaultKind::Choke, false) => match step.retry {
            RetryStrategy::None => {
                "set `retryStrategy: retry`, or add a resume policy that matches its errors".to_owned()
            }
            RetryStrategy::Retry { .. } | RetryStrategy::Hold { .. } => {
                "raise `maxAttempts`, or add a resume policy that matches its errors".to_owned()
            }
        },
        (FaultKind::Stall, true) => {
            let at_last = if has_handler {
                ""
            } else {
                ", and an `exceptionHandler` that alerts an operator when the policy is used up"
            };
            format!("for lasting errors: add a resume policy with a long `backOff`{at_last}")
        }
        (FaultKind::Choke, true) => format!(
            "for resources that never become free: set a `defer.limit` that fits (now {}), and decide what follows the error",
            step.defer.limit
        ),
        (FaultKind::Fail, _) | (FaultKind::Crash | FaultKind::Stick, true) => {
            let policy = "add a resume policy with `includeFatal: true`";
            let rest = if has_handler {
                format!("or {policy}")
            } else {
                format!("{policy}, or an `exceptionHandler` that alerts an operator")
            };
            let stuck = match max_stuck {
                1 => "a stuck attempt".to_owned(),
                times => format!("attempts stuck {times} times"),
            };
            format!(
                "for fatal errors, and {stuck}: set `failOnError: false` if the flow can continue without the step, {rest}"
            )
        }
        (FaultKind::Crash | FaultKind::Stick, false) => {
            format!("raise `maxStuck` above {max_stuck}, so that one silent attempt does not fail the step")
        }
        (FaultKind::Drag, _) if step.limits.timeout.is_none_or(|timeout| timeout > DRAG) => {
            format!("set the `deadline` of the flow above {DRAG}, if a slow attempt is worth waiting for")
        }
        (FaultKind::Drag, _) => {
            let timeout = step.limits.timeout.map_or(String::new(), |timeout| format!(" (now {timeout})"));
            format!("raise `timeout` above {DRAG}{timeout}, if a slow attempt is worth waiting for")
        }
    }
}
