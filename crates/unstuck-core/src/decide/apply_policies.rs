//! Applying policies to a step that is in error already.

use std::sync::Arc;

use crate::decide::{Answer, Draft};
use crate::event::UnitFact;
use crate::model::unit::{UnitRef, UnitState};
use crate::policy::PolicyRef;
use crate::recovery::policy_resume;
use crate::refusal::Refusal;
use crate::time::Millis;

/// Matches a step in error again. What is acknowledged, or is where the policies would put it, stays as it is.
pub(crate) fn apply_policies(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    only: Option<&[Arc<str>]>,
    after: Millis,
) -> Result<Answer, Refusal> {
    draft.require_open_run()?;
    let state = draft.require_unit(unit)?;
    let UnitState::Error { resume, acknowledged: None, .. } = &state.state else {
        return Ok(Answer::Already);
    };
    let scheduled: Option<PolicyRef> = resume.as_ref().map(|resume| resume.policy.clone());
    let stopped = state.past.last().map_or(draft.now(), |past| past.ended_at);
    match (policy_resume::find_policy(draft, unit, only), scheduled) {
        (Some(policy), Some(by)) if policy.to_ref() == by => Ok(Answer::Already),
        (Some(policy), _) => {
            let earliest = draft.now() + after;
            policy_resume::record_passed_policies(draft, unit);
            let due = policy_resume::schedule_resume_by(draft, unit, &policy, stopped, earliest);
            Ok(Answer::Scheduled(due))
        }
        // No policy would take the error any more.
        (None, Some(_)) if only.is_none() => {
            policy_resume::record_passed_policies(draft, unit);
            draft.emit_unit(unit, UnitFact::LeftInError);
            Ok(Answer::Unscheduled)
        }
        (None, _) => Ok(Answer::Already),
    }
}
