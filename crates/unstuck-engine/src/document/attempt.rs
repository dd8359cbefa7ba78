//! Attempts on the wire: those that have ended, and the one that is queued or under way.

use unstuck_api as api;
use unstuck_core::model::attempt::{Outcome, PastAttempt};
use unstuck_core::model::error::Error;
use unstuck_core::model::unit::{AttemptPhase, LiveAttempt, QueuedAttempt, Unit, UnitState};
use unstuck_core::time::Time;

use super::{Loading, raw};

/// The last attempts of a unit, in order.
pub(super) fn attempts(unit: &Unit, payload: Loading<'_>) -> Vec<api::Attempt> {
    let mut all: Vec<api::Attempt> = unit.past.iter().map(|past| ended(past, payload)).collect();
    match &unit.state {
        UnitState::Ready(queued) => all.push(waiting(unit, queued)),
        UnitState::Active(live) => all.push(under_way(unit, live, payload)),
        UnitState::Pending
        | UnitState::Waiting(_)
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => {}
    }
    all
}

fn ended(past: &PastAttempt, payload: Loading<'_>) -> api::Attempt {
    api::Attempt {
        attempt: past.attempt,
        round: Some(past.round),
        resumed_by: past.resumed_by.map(|by| by.word().to_owned()),
        state: past.outcome.word().to_owned(),
        worker: past.worker.as_ref().map(|worker| worker.name.to_string()),
        queued_at: Some(past.queued_at.timestamp()),
        started_at: past.started_at.map(Time::timestamp),
        ended_at: Some(past.ended_at.timestamp()),
        error: outcome_error(&past.outcome),
        progress: past.progress.as_ref().map(|progress| raw(&payload(progress))),
    }
}

fn waiting(unit: &Unit, queued: &QueuedAttempt) -> api::Attempt {
    api::Attempt {
        attempt: queued.attempt,
        round: Some(unit.round.number),
        resumed_by: queued.resumed_by.map(|by| by.word().to_owned()),
        state: "queued".to_owned(),
        worker: None,
        queued_at: Some(queued.since.timestamp()),
        started_at: None,
        ended_at: None,
        error: None,
        progress: None,
    }
}

fn under_way(unit: &Unit, live: &LiveAttempt, payload: Loading<'_>) -> api::Attempt {
    let (state, worker, started_at, progress) = match &live.doing {
        AttemptPhase::Dequeued { worker, .. } => ("dequeued", Some(worker), None, None),
        AttemptPhase::Working { worker, started_at, progress, .. } => {
            ("active", Some(worker), Some(*started_at), progress.as_ref())
        }
        AttemptPhase::Child { started_at, .. } => ("active", None, Some(*started_at), None),
    };
    api::Attempt {
        attempt: live.attempt,
        round: Some(unit.round.number),
        resumed_by: live.resumed_by.map(|by| by.word().to_owned()),
        state: state.to_owned(),
        worker: worker.map(|worker| worker.name.to_string()),
        queued_at: Some(live.queued_at.timestamp()),
        started_at: started_at.map(Time::timestamp),
        ended_at: None,
        error: None,
        progress: progress.map(|progress| raw(&payload(progress))),
    }
}

/// What went wrong with an attempt: its error, the limit that it ran into, or what was lacking.
pub(super) fn outcome_error(outcome: &Outcome) -> Option<api::Error> {
    match outcome {
        Outcome::Stalled(error) | Outcome::Failed(error) => Some(error_document(error)),
        Outcome::Stuck(stuck) => Some(error_document(&Error::new(format!("stuck: {}", stuck.limit)))),
        Outcome::Deferred { lacking, .. } => {
            lacking.as_ref().map(|lacking| error_document(&Error::new(lacking.clone())))
        }
        Outcome::Completed(_) | Outcome::Cancelled(_) => None,
    }
}

/// An error by itself.
pub(super) fn error_document(error: &Error) -> api::Error {
    api::Error {
        step: None,
        action: None,
        found_by: error.found_by.as_deref().map(str::to_owned),
        action_type: None,
        cause: error.cause.to_string(),
        context: error.context.as_deref().map(str::to_owned),
        reason: error.reason.word().to_owned(),
        details: (!error.details.is_null()).then(|| raw(&error.details)),
        attempts: None,
    }
}
