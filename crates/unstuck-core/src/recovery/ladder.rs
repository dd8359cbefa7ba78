//! The recovery ladder: the first rung that acts ends the climb.

use crate::decide::Draft;
use crate::event::UnitFact;
use crate::model::error::{Error, RunError};
use crate::model::recovery::RetryStrategy;
use crate::model::unit::UnitRef;
use crate::recovery::{backoff, failing, policies};
use crate::schedule::{advance_after, is_failing};

/// How the attempt ended that is climbing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An error that may pass.
    Stalled,
    /// A fatal one.
    Failed,
}

/// What happens after an attempt that was *stalled* or *failed* and has been recorded as such.
pub(crate) fn climb(draft: &mut Draft<'_, '_>, unit: UnitRef, verdict: Verdict) {
    if is_failing(draft.run()) {
        draft.emit_unit(unit, UnitFact::Failed);
        failing::go_on(draft);
        return;
    }
    if !retry_strategy(draft, unit, verdict) {
        without_strategy(draft, unit, verdict, true);
    }
    // What needs the step may go on now; where an item rests or is held, the next one may.
    advance_after(draft, unit.step);
}

/// An operator chose `none` for a held step: rung 2, then rung 4, then `failed`.
pub(crate) fn give_up(draft: &mut Draft<'_, '_>, unit: UnitRef) {
    without_strategy(draft, unit, Verdict::Failed, false);
    advance_after(draft, unit.step);
}

/// Rung 1.
fn retry_strategy(draft: &mut Draft<'_, '_>, unit: UnitRef, verdict: Verdict) -> bool {
    let step = draft.step(unit);
    let tries = draft.unit(unit).round.stalled;
    match (step.retry, verdict) {
        (RetryStrategy::Retry { max_attempts, back_off }, Verdict::Stalled) => {
            if max_attempts.is_some_and(|max| tries >= max) {
                return false;
            }
            let delay = back_off.map(|back_off| backoff::delay(&back_off, tries, draft.context.random));
            let delay = delay.unwrap_or_default().max(step.limits.minimum_delay);
            let due = draft.now() + delay;
            draft.emit_unit(unit, UnitFact::Retry { due, delay, stalled: tries, max: max_attempts });
            true
        }
        (RetryStrategy::Hold { max_attempts }, Verdict::Stalled | Verdict::Failed) => {
            if max_attempts.is_some_and(|max| tries >= max) {
                return false;
            }
            draft.emit_unit(unit, UnitFact::Held);
            true
        }
        (RetryStrategy::None, Verdict::Stalled | Verdict::Failed)
        | (RetryStrategy::Retry { .. }, Verdict::Failed) => false,
    }
}

/// Rungs 2 to 5. After an operator's `none`, no policy overrules it, and nothing rests.
fn without_strategy(draft: &mut Draft<'_, '_>, unit: UnitRef, verdict: Verdict, is_by_itself: bool) {
    let step = draft.step(unit);
    if !step.fail_on_error {
        draft.emit_unit(unit, UnitFact::WentOn);
        return;
    }
    if is_by_itself && policies::schedule(draft, unit) {
        return;
    }
    let rests = verdict == Verdict::Stalled && is_by_itself && !draft.run().origin.in_handler();
    if step.exception_handler.is_none() && rests {
        draft.emit_unit(unit, UnitFact::Rested);
        return;
    }
    let error = draft.unit(unit).last_error().cloned().unwrap_or_else(|| Error::new("unknown error"));
    let fatal = verdict == Verdict::Failed;
    draft.emit_unit(unit, UnitFact::Failed);
    failing::fail_run(draft, RunError::of_unit(unit, fatal, error), unit.step);
}
