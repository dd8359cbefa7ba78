//! What would help against a fault that does not end well.

use unstuck_core::model::flow::{Kind, Step};
use unstuck_core::model::recovery::RetryStrategy;

use super::fault::{DRAG, Fault, FaultKind};
use crate::rehearse::report::EndKind;

/// What would help, in a sentence without a full stop.
pub(super) fn advice(step: &Step, fault: &Fault, end: EndKind) -> String {
    match end {
        EndKind::Held => {
            "an operator must choose: see to it that somebody is told, or try again first (`retryStrategy: retry`)".to_owned()
        }
        EndKind::GoingOn => {
            "it never ends: a `deadline` for the flow, or a `maxAttempts` for its retries".to_owned()
        }
        EndKind::Waiting | EndKind::Queued => {
            "it waits for something that does not come: a `timeout`, or a `deadline` for the flow".to_owned()
        }
        EndKind::Completed | EndKind::Failed | EndKind::Cancelled | EndKind::Error => of_fault(step, fault),
    }
}

fn of_fault(step: &Step, fault: &Fault) -> String {
    let max_stuck = step.limits.max_stuck;
    let has_handler = step.exception_handler.is_some();
    // A process that a signal ends is stalled, where a worker that dies leaves a stuck attempt.
    let kind = match (fault.kind, &step.kind) {
        (FaultKind::Crash, Kind::Process(_)) => FaultKind::Stall,
        (kind, _) => kind,
    };
    match (kind, fault.always) {
        (FaultKind::Stall | FaultKind::Choke, false) => match step.retry {
            RetryStrategy::None => {
                "`retryStrategy: retry`, or a resume policy that takes its errors".to_owned()
            }
            RetryStrategy::Retry { .. } | RetryStrategy::Hold { .. } => {
                "a higher `maxAttempts`, or a resume policy that takes its errors".to_owned()
            }
        },
        (FaultKind::Stall, true) => {
            let at_last = if has_handler {
                ""
            } else {
                ", and an `exceptionHandler` that tells somebody when that is spent"
            };
            format!("for errors that last: a resume policy with a long `backOff`{at_last}")
        }
        (FaultKind::Choke, true) => format!(
            "where resources never come: a `defer.limit` that fits (it is {}), and what follows an error then",
            step.defer.limit
        ),
        (FaultKind::Fail, _) | (FaultKind::Crash | FaultKind::Stick, true) => {
            let policy = "a resume policy with `includeFatal: true`";
            let rest = if has_handler {
                format!("or {policy}")
            } else {
                format!("{policy}, or an `exceptionHandler` that tells somebody")
            };
            format!(
                "for fatal errors, and what is stuck {max_stuck} times: `failOnError: false` if the flow can do without the step, {rest}"
            )
        }
        (FaultKind::Crash | FaultKind::Stick, false) => {
            format!("a `maxStuck` above {max_stuck}, so that one silence is not the end")
        }
        (FaultKind::Drag, _) => {
            let timeout = step.limits.timeout.map_or(String::new(), |timeout| format!(" (it is {timeout})"));
            format!("a `timeout` above {DRAG}{timeout}, if a slow attempt is worth waiting for")
        }
    }
}
