//! Rung 3: a resume policy takes the error, and the step is resumed when that says.

use std::sync::Arc;

use crate::decide::Draft;
use crate::errors::rounds_of;
use crate::event::UnitFact;
use crate::model::attempt::{Outcome, ResumedBy};
use crate::model::run::Phase;
use crate::model::unit::{AutoResume, QueuePlace, UnitRef};
use crate::policy::{Failure, Policy};
use crate::schedule::{advance_after, begin};
use crate::time::{Millis, Time};

/// Schedules a resume of a unit whose last attempt has just ended in error, if a policy takes it.
pub(crate) fn schedule(draft: &mut Draft<'_, '_>, unit: UnitRef) -> bool {
    let Some(policy) = find(draft, unit, None) else { return false };
    let stopped = draft.now();
    schedule_by(draft, unit, &policy, stopped, stopped);
    true
}

/// A scheduled resume has come due. One whose policy is off or gone does not fire: the error is matched anew.
pub(crate) fn resume_due(draft: &mut Draft<'_, '_>, unit: UnitRef, resume: &AutoResume) {
    let is_on = draft.context.policies.with_id(&resume.policy.id).is_some_and(|policy| policy.enabled);
    if is_on {
        let reason = Some(Arc::clone(&resume.policy.name));
        draft.emit_unit(unit, UnitFact::Resumed { by: ResumedBy::Policy, reason, bulk: None });
        begin(draft, unit, Some(ResumedBy::Policy), QueuePlace::default());
        advance_after(draft, unit.step);
        return;
    }
    match find(draft, unit, None) {
        Some(policy) => {
            let now = draft.now();
            schedule_by(draft, unit, &policy, now, now);
        }
        None => draft.emit_unit(unit, UnitFact::Rested),
    }
}

/// Whether what comes due in an error may be done now.
pub(crate) fn may_resume(draft: &Draft<'_, '_>, resume: &AutoResume) -> bool {
    resume.due <= draft.now() && draft.run().paused.is_none() && matches!(draft.run().phase, Phase::Going)
}

/// The first policy that takes the last error of this unit; of those of these names, where they are given.
pub(crate) fn find(draft: &Draft<'_, '_>, unit: UnitRef, only: Option<&[Arc<str>]>) -> Option<Arc<Policy>> {
    let state = draft.unit(unit);
    let past = state.past.last()?;
    let error = past.outcome.error()?;
    let step = draft.step(unit);
    let failure = Failure {
        cause: &error.cause,
        root_flow: &draft.run().root_flow,
        action: &step.full_action,
        found_by: error.found_by.as_deref(),
        action_type: step.action_type.as_deref(),
        fatal: matches!(past.outcome, Outcome::Failed(_)),
        rounds: rounds_of(state),
    };
    let found = draft.context.policies.find(&failure)?;
    let wanted = only.is_none_or(|only| only.contains(&found.name));
    wanted.then(|| found.clone())
}

/// Schedules a resume by this policy: its delay after the attempt has stopped, and no sooner than `earliest` where that
/// is over.
pub(crate) fn schedule_by(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    policy: &Policy,
    stopped: Time,
    earliest: Time,
) {
    let rounds = rounds_of(draft.unit(unit));
    let delay: Millis = policy.delay(rounds, draft.context.random);
    let delay = delay.max(draft.step(unit).limits.minimum_delay);
    let planned = stopped + delay;
    let due = if planned <= draft.now() { earliest.max(draft.now()) } else { planned };
    let fact =
        UnitFact::Scheduled { due, delay, policy: policy.reference(), rounds, max: policy.max_attempts };
    draft.emit_unit(unit, fact);
}
