//! The recovery ladder: after an error the rungs are tried in order, and the first that acts ends the climb.

use crate::decide::Draft;
use crate::event::UnitFact;
use crate::interpreter::advance_after;
use crate::model::error::{Error, RunError};
use crate::model::recovery::RetryStrategy;
use crate::model::unit::UnitRef;
use crate::recovery::{backoff, failing_run, policy_resume};

/// How the attempt ended that is climbing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptError {
    /// An error that may pass.
    Stalled,
    /// A fatal one.
    Failed,
}

/// Decides what follows an attempt that was recorded as *stalled* or *failed*: tries the rungs in order, then advances
/// the run.
pub(crate) fn climb(draft: &mut Draft<'_, '_>, unit: UnitRef, verdict: AttemptError) {
    if draft.run().is_failing() {
        draft.emit_unit(unit, UnitFact::Failed);
        failing_run::advance_failing(draft);
        return;
    }
    if !apply_retry_strategy(draft, unit, verdict) {
        climb_later_rungs(draft, unit, verdict, true);
    }
    // Dependents of the step may begin now; if an item rests or is held, the next item may.
    advance_after(draft, unit.step);
}

/// Climbs from rung 2 after an operator chose `none` for a held step, without policies.
pub(crate) fn leave_failed(draft: &mut Draft<'_, '_>, unit: UnitRef) {
    climb_later_rungs(draft, unit, AttemptError::Failed, false);
    advance_after(draft, unit.step);
}

/// Rung 1: schedules a retry or holds the step, as its retry strategy says. Returns whether it acted.
fn apply_retry_strategy(draft: &mut Draft<'_, '_>, unit: UnitRef, verdict: AttemptError) -> bool {
    let step = draft.step(unit);
    let tries = draft.unit(unit).round.stalled;
    match (step.retry, verdict) {
        (RetryStrategy::Retry { max_attempts, back_off }, AttemptError::Stalled) => {
            if max_attempts.is_some_and(|max| tries >= max) {
                return false;
            }
            let delay =
                back_off.map(|back_off| backoff::back_off_delay(&back_off, tries, draft.context.random));
            let delay = delay.unwrap_or_default().max(step.limits.minimum_delay);
            let due = draft.now() + delay;
            draft.emit_unit(unit, UnitFact::Retry { due, delay, stalled: tries, max: max_attempts });
            true
        }
        (RetryStrategy::Hold { max_attempts }, AttemptError::Stalled | AttemptError::Failed) => {
            if max_attempts.is_some_and(|max| tries >= max) {
                return false;
            }
            draft.emit_unit(unit, UnitFact::Held);
            true
        }
        (RetryStrategy::None, AttemptError::Stalled | AttemptError::Failed)
        | (RetryStrategy::Retry { .. }, AttemptError::Failed) => false,
    }
}

/// Rungs 2 to 5. `is_by_itself` is false after an operator's `none`: then no policy applies, and the step does not stay
/// in error.
fn climb_later_rungs(draft: &mut Draft<'_, '_>, unit: UnitRef, verdict: AttemptError, is_by_itself: bool) {
    let step = draft.step(unit);
    if !step.fail_on_error {
        draft.emit_unit(unit, UnitFact::Ignored);
        return;
    }
    if is_by_itself && policy_resume::schedule_resume(draft, unit) {
        return;
    }
    let rests = verdict == AttemptError::Stalled && is_by_itself && !draft.run().origin.is_in_handler();
    if step.exception_handler.is_none() && rests {
        draft.emit_unit(unit, UnitFact::LeftInError);
        return;
    }
    let error = draft.unit(unit).last_error().cloned().unwrap_or_else(|| Error::new("unknown error"));
    let fatal = verdict == AttemptError::Failed;
    draft.emit_unit(unit, UnitFact::Failed);
    failing_run::fail_run(draft, RunError::of_unit(unit, fatal, error), unit.step);
}
