//! How what a bulk action has set going comes out, in the facts that say so.

use std::sync::Arc;

use crate::bulk::{BulkRef, TargetResult};
use crate::command::{Notice, NoticeBody};
use crate::event::{Fact, UnitFact};
use crate::model::attempt::Outcome;
use crate::model::run::{Run, RunState};
use crate::model::unit::Unit;
use crate::thing::ThingRef;

/// Where nothing has failed, and nothing has passed either.
const ENDED: &str = "its run ended";

/// Whether a fact says how a resumed step came out: passed, or not.
pub(crate) fn resume_result(fact: &UnitFact) -> Option<bool> {
    match fact {
        UnitFact::Ended { outcome: Outcome::Completed(_), .. }
        | UnitFact::Done { .. }
        | UnitFact::DoneByHand { .. }
        | UnitFact::Skipped { .. } => Some(true),
        UnitFact::Held
        | UnitFact::Ignored
        | UnitFact::Scheduled { .. }
        | UnitFact::LeftInError
        | UnitFact::Failed
        | UnitFact::Closed { .. } => Some(false),
        UnitFact::Ended { .. }
        | UnitFact::InputBound { .. }
        | UnitFact::Queued { .. }
        | UnitFact::Dequeued { .. }
        | UnitFact::Started { .. }
        | UnitFact::Progress { .. }
        | UnitFact::ReportIgnored { .. }
        | UnitFact::LimitExtended { .. }
        | UnitFact::Retry { .. }
        | UnitFact::PassedOver { .. }
        | UnitFact::Acknowledged { .. }
        | UnitFact::Deferred { .. }
        | UnitFact::Requeued { .. }
        | UnitFact::TimerSet { .. }
        | UnitFact::SignalAwaited { .. }
        | UnitFact::ChildStarted { .. }
        | UnitFact::ChildChanged { .. }
        | UnitFact::Chosen { .. }
        | UnitFact::Resumed { .. } => None,
    }
}

/// What a bulk action is told when this becomes true of a unit.
pub(crate) fn unit_outcome(unit: &Unit, fact: &UnitFact) -> Option<Notice> {
    let target = unit.round.bulk?;
    let result = if resume_result(fact)? {
        TargetResult::Passed
    } else {
        let cause = unit.last_error().map(|error| error.cause.clone());
        TargetResult::FailedAgain { cause: cause.unwrap_or_else(|| ENDED.into()) }
    };
    Some(notice_of(target, result))
}

/// Whether a fact says how a run came out that was started again: completed, or not. A step that rests in error or is held
/// waits for a person or a policy, as it did before.
pub(crate) fn rerun_result(fact: &Fact) -> Option<bool> {
    match fact {
        Fact::Completed { .. } => Some(true),
        Fact::Failing { .. } | Fact::RunFailed { .. } | Fact::RunCancelled { .. } => Some(false),
        Fact::Unit { fact, .. } => match fact {
            UnitFact::Held
            | UnitFact::Scheduled { .. }
            | UnitFact::LeftInError
            | UnitFact::ChildChanged { state: RunState::Error | RunState::Held } => Some(false),
            UnitFact::Ended { .. }
            | UnitFact::Done { .. }
            | UnitFact::DoneByHand { .. }
            | UnitFact::Skipped { .. }
            | UnitFact::Ignored
            | UnitFact::Failed
            | UnitFact::Closed { .. }
            | UnitFact::InputBound { .. }
            | UnitFact::Queued { .. }
            | UnitFact::Dequeued { .. }
            | UnitFact::Started { .. }
            | UnitFact::Progress { .. }
            | UnitFact::ReportIgnored { .. }
            | UnitFact::LimitExtended { .. }
            | UnitFact::Retry { .. }
            | UnitFact::PassedOver { .. }
            | UnitFact::Acknowledged { .. }
            | UnitFact::Deferred { .. }
            | UnitFact::Requeued { .. }
            | UnitFact::TimerSet { .. }
            | UnitFact::SignalAwaited { .. }
            | UnitFact::ChildStarted { .. }
            | UnitFact::ChildChanged { .. }
            | UnitFact::Chosen { .. }
            | UnitFact::Resumed { .. } => None,
        },
        Fact::Started(_)
        | Fact::Admitted
        | Fact::Paused { .. }
        | Fact::Amended(_)
        | Fact::Migrated(_)
        | Fact::Unpaused
        | Fact::ClockCorrected { .. }
        | Fact::InputChanged { .. }
        | Fact::SignalKept { .. }
        | Fact::SignalTaken { .. }
        | Fact::HandlerStarted { .. }
        | Fact::HandlerChanged { .. }
        | Fact::Reran { .. }
        | Fact::ItemsKnown { .. }
        | Fact::ItemsCompleted { .. }
        | Fact::ItemsEnded { .. } => None,
    }
}

/// What a bulk action is told when this becomes true of a run.
pub(crate) fn run_outcome(run: &Run, fact: &Fact) -> Option<Notice> {
    let target = run.bulk?;
    let result = if rerun_result(fact)? {
        TargetResult::Passed
    } else {
        TargetResult::FailedAgain { cause: cause(run, fact) }
    };
    Some(notice_of(target, result))
}

fn notice_of(target: BulkRef, result: TargetResult) -> Notice {
    let BulkRef { bulk, place } = target;
    Notice { to: ThingRef::Bulk(bulk), body: NoticeBody::TargetEnded { place, result } }
}

fn cause(run: &Run, fact: &Fact) -> Arc<str> {
    if let Fact::Failing { error, .. } = fact {
        return error.error.cause.clone();
    }
    if let Fact::RunCancelled { .. } = fact {
        return "it was cancelled".into();
    }
    let Fact::Unit { unit, fact } = fact else { return ENDED.into() };
    let unit = run.unit(*unit);
    if let (UnitFact::ChildChanged { state }, Some(child)) = (fact, unit.and_then(|unit| unit.child)) {
        let is = if *state == RunState::Held { "held" } else { "in error" };
        return format!("its child {child} is {is}").into();
    }
    unit.and_then(Unit::last_error).map_or_else(|| ENDED.into(), |error| error.cause.clone())
}
