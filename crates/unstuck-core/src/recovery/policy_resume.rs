//! Rung 3: a resume policy matches the error, and the step is resumed after the policy's delay.

use std::sync::Arc;

use crate::begin_attempt::begin_attempt;
use crate::decide::Draft;
use crate::errors::rounds_since_manual_resume;
use crate::event::UnitFact;
use crate::interpreter::advance_after;
use crate::model::attempt::{Outcome, ResumedBy};
use crate::model::run::Phase;
use crate::model::unit::{AutoResume, QueuePlace, UnitRef};
use crate::policy::{DueVerdict, ErrorToMatch, Policy};
use crate::time::{Millis, Time};

/// Schedules a resume of a unit whose last attempt has just ended in error, if a policy takes it. Returns whether one
/// did.
pub(crate) fn schedule_resume(draft: &mut Draft<'_, '_>, unit: UnitRef) -> bool {
    record_passed_policies(draft, unit);
    let Some(policy) = find_policy(draft, unit, None) else { return false };
    let stopped = draft.now();
    schedule_resume_by(draft, unit, &policy, stopped, stopped);
    true
}

/// Resumes a unit whose scheduled resume is due. If its policy is disabled or gone, the error is matched again instead.
pub(crate) fn fire_resume(draft: &mut Draft<'_, '_>, unit: UnitRef, resume: &AutoResume) {
    if is_policy_enabled(draft, resume) {
        let reason = Some(Arc::clone(&resume.policy.name));
        let verdict = draft.context.policies.switch().judge(resume.due, draft.context.clock);
        let waited = matches!(verdict, DueVerdict::TakesTurn(_)).then(|| draft.now().since(resume.due));
        draft.emit_unit(unit, UnitFact::Resumed { by: ResumedBy::Policy, reason, bulk: None, waited });
        begin_attempt(draft, unit, Some(ResumedBy::Policy), QueuePlace::default());
        advance_after(draft, unit.step);
        return;
    }
    record_passed_policies(draft, unit);
    match find_policy(draft, unit, None) {
        Some(policy) => {
            let now = draft.now();
            schedule_resume_by(draft, unit, &policy, now, now);
        }
        None => draft.emit_unit(unit, UnitFact::LeftInError),
    }
}

/// Returns whether a due resume must wait: policies are paused, or it waited during a pause and has no turn yet. One
/// whose policy is disabled or gone needs no turn, because it will only be matched again.
pub(crate) fn must_withhold_resume(draft: &mut Draft<'_, '_>, resume: &AutoResume) -> bool {
    match draft.context.policies.switch().judge(resume.due, draft.context.clock) {
        DueVerdict::Resumes => false,
        DueVerdict::Waits => true,
        DueVerdict::TakesTurn(rate) => {
            // Only its home resumes a run that has one, and that need not be where turns are given out.
            if draft.run().home.is_some() && draft.context.turns.is_elsewhere() {
                return false;
            }
            let now = draft.now();
            is_policy_enabled(draft, resume) && !draft.context.turns.take(now, rate)
        }
    }
}

/// Returns whether the policy of a scheduled resume still exists and is enabled.
fn is_policy_enabled(draft: &Draft<'_, '_>, resume: &AutoResume) -> bool {
    draft.context.policies.by_id(&resume.policy.id).is_some_and(|policy| policy.enabled)
}

/// Returns whether a scheduled resume is due and its run may proceed.
pub(crate) fn can_resume_now(draft: &Draft<'_, '_>, resume: &AutoResume) -> bool {
    resume.due <= draft.now() && draft.run().paused.is_none() && matches!(draft.run().phase, Phase::Going)
}

/// Finds the first policy that takes the last error of this unit. With `only`, it must have one of these names.
pub(crate) fn find_policy(
    draft: &Draft<'_, '_>,
    unit: UnitRef,
    only: Option<&[Arc<str>]>,
) -> Option<Arc<Policy>> {
    let found = draft.context.policies.find(&last_error(draft, unit)?)?;
    let wanted = only.is_none_or(|only| only.contains(&found.name));
    wanted.then(|| found.clone())
}

/// Records the policies that match the last error of this unit but did not take it, for explanations.
pub(crate) fn record_passed_policies(draft: &mut Draft<'_, '_>, unit: UnitRef) {
    let passed = last_error(draft, unit).map(|failure| draft.context.policies.passed_over(&failure));
    if let Some(policies) = passed.filter(|passed| !passed.is_empty()) {
        draft.emit_unit(unit, UnitFact::PassedOver { policies });
    }
}

/// Returns the fields of the unit's last error that policies match on.
fn last_error<'d>(draft: &'d Draft<'_, '_>, unit: UnitRef) -> Option<ErrorToMatch<'d>> {
    let state = draft.unit(unit);
    let past = state.past.last()?;
    let error = past.outcome.error()?;
    let step = draft.step(unit);
    Some(ErrorToMatch {
        cause: &error.cause,
        root_flow: &draft.run().root_flow,
        action: &step.full_action,
        found_by: error.found_by.as_deref(),
        action_type: step.action_type.as_deref(),
        fatal: matches!(past.outcome, Outcome::Failed(_)),
        rounds: rounds_since_manual_resume(state),
    })
}

/// Schedules a resume by this policy: its delay counts from `stopped`, the end of the attempt. If that time has passed
/// already, the resume is due at `earliest`. Gives when it is due.
pub(crate) fn schedule_resume_by(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    policy: &Policy,
    stopped: Time,
    earliest: Time,
) -> Time {
    let rounds = rounds_since_manual_resume(draft.unit(unit));
    let delay: Millis = policy.delay(rounds, draft.context.random);
    let delay = delay.max(draft.step(unit).limits.minimum_delay);
    let planned = stopped + delay;
    let due = if planned <= draft.now() { earliest.max(draft.now()) } else { planned };
    let fact = UnitFact::Scheduled { due, delay, policy: policy.to_ref(), rounds, max: policy.max_attempts };
    draft.emit_unit(unit, fact);
    due
}
