//! Expires what has come due: limits of attempts, timers, retries, the deadline of the run; and ends attempts of lost
//! workers.

use crate::begin_attempt::{begin_attempt, end_attempt_by_engine};
use crate::decide::{Answer, Draft, LeaseMove, Withheld};
use crate::downtime::limit_reached_at;
use crate::event::UnitFact;
use crate::interpreter::advance_after;
use crate::json::Payload;
use crate::model::attempt::{AttemptId, Outcome, StuckLimit};
use crate::model::error::{Error, Reason, TIMEOUT_ACTION};
use crate::model::run::Phase;
use crate::model::unit::{AttemptPhase, LiveAttempt, QueuedAttempt, UnitRef, UnitState, Waiting};
use crate::recovery::ladder::{self, AttemptError};
use crate::recovery::{failing_run, policy_resume, stuck};
use crate::refusal::Refusal;
use crate::time::{Millis, Time};
use crate::wakeup::{first_limit, queue_timeout_at};

/// Performs whatever is due for a unit, or for the run itself (`None`), at this time. A timer may fire too early or
/// twice: the state decides what is due. `heard` is the last heartbeat that was not recorded as an event.
pub(crate) fn fire_due(
    draft: &mut Draft<'_, '_>,
    unit: Option<UnitRef>,
    heard: Option<Time>,
) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if run.is_final() {
        return Ok(Answer::Already);
    }
    let Some(unit) = unit else {
        return Ok(expire_deadline(draft));
    };
    let Some(state) = run.unit(unit) else { return Ok(Answer::Already) };
    match &state.state {
        UnitState::Active(live) => {
            let live = live.clone();
            Ok(expire_limit(draft, unit, &live, heard))
        }
        UnitState::Ready(queued) => {
            let queued = *queued;
            Ok(expire_queue_timeout(draft, unit, &queued))
        }
        UnitState::Waiting(waiting) => {
            let waiting = waiting.clone();
            Ok(end_due_wait(draft, unit, &waiting))
        }
        UnitState::Error { resume: Some(resume), .. } => {
            let resume = resume.clone();
            if !policy_resume::can_resume_now(draft, &resume) {
                return Ok(Answer::Already);
            }
            // A resume here would end the error without an engine that executes the next attempt.
            if !draft.context.homes.executes(draft.run()) {
                draft.decision.withheld = Some(Withheld::ForHome);
                return Ok(Answer::Already);
            }
            if policy_resume::must_withhold_resume(draft, &resume) {
                draft.decision.withheld = Some(Withheld::ForTurn);
                return Ok(Answer::Already);
            }
            policy_resume::fire_resume(draft, unit, &resume);
            Ok(Answer::Done)
        }
        UnitState::Pending
        | UnitState::Held { .. }
        | UnitState::Error { resume: None, .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => Ok(Answer::Already),
    }
}

/// Ends an attempt as stuck because its worker is gone. `with_others`: the worker had several attempts, so that this
/// one is not blamed the first time.
pub(crate) fn lose_worker(
    draft: &mut Draft<'_, '_>,
    id: AttemptId,
    with_others: bool,
) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    let state = run.unit(id.unit).map(|unit| (&unit.state, unit.round));
    let Some((UnitState::Active(live), round)) = state else { return Ok(Answer::Already) };
    if run.generation != id.generation || live.attempt != id.attempt {
        return Ok(Answer::Already);
    }
    let heard = last_heard(live, None);
    stuck::end_stuck_attempt(draft, id.unit, StuckLimit::Gone, heard, with_others && round.losses == 0);
    Ok(Answer::Done)
}

/// Fails a run that has missed its deadline. One that is failing already stops waiting for its active attempts.
fn expire_deadline(draft: &mut Draft<'_, '_>) -> Answer {
    let run = draft.run();
    let over = run.deadline.is_some_and(|deadline| deadline <= draft.now());
    match run.phase {
        Phase::Going if over => failing_run::miss_deadline(draft),
        Phase::Failing(_) if over && run.has_active() => failing_run::stop_draining(draft),
        Phase::Going | Phase::Failing(_) | Phase::Ended(_) => return Answer::Already,
    }
    Answer::Done
}

/// Ends a live attempt that has reached its first limit as stuck. Extends the limit instead if downtime used it up, and
/// only moves the lease if a heartbeat has come meanwhile.
fn expire_limit(draft: &mut Draft<'_, '_>, unit: UnitRef, live: &LiveAttempt, heard: Option<Time>) -> Answer {
    let Some((due, which)) = first_limit(draft.step(unit), live, heard) else { return Answer::Already };
    if due > draft.now() {
        let heard = last_heard(live, heard);
        draft.decision.lease = Some(LeaseMove { unit, heard, due });
        return Answer::Already;
    }
    let heard = last_heard(live, heard);
    let spared = match which {
        StuckLimit::Start(limit) | StuckLimit::Heartbeat(limit) => {
            extend_for_downtime(draft, unit, heard, limit, due)
        }
        StuckLimit::Total(_) | StuckLimit::Gone => false,
    };
    if !spared {
        stuck::end_stuck_attempt(draft, unit, which, heard, false);
    }
    Answer::Done
}

/// Extends a limit by the downtime since it began. Returns false if it has been reached all the same.
fn extend_for_downtime(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    from: Time,
    limit: Millis,
    due: Time,
) -> bool {
    let until = limit_reached_at(from, limit, draft.context.downtimes);
    if until <= draft.now() {
        return false;
    }
    let is_heard = matches!(draft.unit(unit).state, UnitState::Active(_));
    let heard = is_heard.then_some(from);
    draft.emit_unit(unit, UnitFact::LimitExtended { until, by: until.since(due), heard });
    true
}

/// Returns the last heartbeat of an attempt: the recorded one, or a later one that moved its lease without an event.
fn last_heard(live: &LiveAttempt, moved: Option<Time>) -> Time {
    let recorded = match &live.doing {
        AttemptPhase::Dequeued { at, .. } => *at,
        AttemptPhase::Working { heard, .. } => *heard,
        AttemptPhase::Child { started_at, .. } => *started_at,
    };
    moved.map_or(recorded, |moved| moved.max(recorded))
}

/// Ends a queued attempt that no worker took in time as *stalled*, for lack of capacity.
fn expire_queue_timeout(draft: &mut Draft<'_, '_>, unit: UnitRef, queued: &QueuedAttempt) -> Answer {
    let step = draft.step(unit);
    let (Some(limit), Some(due)) = (step.limits.queue_timeout, queue_timeout_at(step, queued)) else {
        return Answer::Already;
    };
    if due > draft.now() || !draft.run().can_schedule() {
        return Answer::Already;
    }
    if extend_for_downtime(draft, unit, queued.since, limit, due) {
        return Answer::Done;
    }
    let cause = format!("no worker took it within {limit} (queueTimeout)");
    let error = Error::found_with(TIMEOUT_ACTION, Reason::Capacity, cause);
    let outcome = Outcome::Stalled(Box::new(error));
    end_attempt_by_engine(draft, unit, outcome);
    ladder::climb(draft, unit, AttemptError::Stalled);
    Answer::Done
}

/// Ends a wait that is due: begins the next attempt after a retry or deferral, completes a timer, or stalls a signal
/// step that has waited too long. A paused run keeps waiting.
fn end_due_wait(draft: &mut Draft<'_, '_>, unit: UnitRef, waiting: &Waiting) -> Answer {
    let is_due = waiting.due().is_some_and(|due| due <= draft.now());
    if !is_due || draft.run().paused.is_some() || !matches!(draft.run().phase, Phase::Going) {
        return Answer::Already;
    }
    match waiting {
        Waiting::Again { by, place, .. } => {
            begin_attempt(draft, unit, Some(*by), *place);
            advance_after(draft, unit.step);
        }
        Waiting::Timer { .. } => {
            draft.emit_unit(unit, UnitFact::Done { output: Payload::NULL });
            advance_after(draft, unit.step);
        }
        Waiting::Signal { name, since, .. } => {
            let cause = format!("signal `{name}` did not arrive within {}", draft.now().since(*since));
            let error = Error::found_with(TIMEOUT_ACTION, Reason::Time, cause);
            let outcome = Outcome::Stalled(Box::new(error));
            end_attempt_by_engine(draft, unit, outcome);
            ladder::climb(draft, unit, AttemptError::Stalled);
        }
    }
    Answer::Done
}
