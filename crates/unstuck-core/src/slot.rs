//! Slots of a limit (`concurrency` of a flow): which limit a run needs, when it wants a slot, gets one and gives it back.

use std::sync::Arc;

use serde_json::Value;

use crate::decide::{Answer, Draft, MAX_KEY_BYTES};
use crate::event::Fact;
use crate::interpreter::{advance_all, has_runnable_steps};
use crate::model::expression::Scope;
use crate::model::flow::Flow;
use crate::model::run::{Limit, Phase, Run, RunState, Slot};
use crate::refusal::Refusal;

/// What a run has or wants of its flow's `concurrency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotClaim {
    /// Nothing.
    None,
    /// It would go on if it had one.
    Wants {
        limit: Limit,
        /// Higher first.
        priority: i32,
    },
    /// It has one.
    Has { limit: Limit },
}

/// What the run has or wants of its limit.
pub fn slot_claim(run: &Run, flow: &Flow) -> SlotClaim {
    match &run.slot {
        Slot::Unlimited => SlotClaim::None,
        Slot::Taken(limit) => SlotClaim::Has { limit: limit.clone() },
        Slot::Wanted(limit) if wants_slot(run, flow, limit) => {
            SlotClaim::Wants { limit: limit.clone(), priority: run.priority }
        }
        Slot::Wanted(_) => SlotClaim::None,
    }
}

/// Whether a run without a slot would do something, and keep the slot, if it had one.
fn wants_slot(run: &Run, flow: &Flow, limit: &Limit) -> bool {
    if !matches!(run.phase, Phase::Going) || run.paused.is_some() {
        return false;
    }
    has_runnable_steps(run, flow) || !releases_slot(run.state_with_slot(), limit)
}

/// Whether a run in this state has no use for its slot.
pub(crate) fn releases_slot(state: RunState, limit: &Limit) -> bool {
    match state {
        RunState::Completed | RunState::Failed | RunState::Cancelled | RunState::Superseded => true,
        RunState::Error | RunState::Held | RunState::Paused => !limit.strict,
        RunState::Queued | RunState::Running | RunState::Waiting => false,
    }
}

/// The limit that a run with this input needs a slot of.
pub(crate) fn limit_for_input(draft: &Draft<'_, '_>, input: &Value) -> Result<Option<Limit>, Refusal> {
    let flow = draft.flow();
    let Some(concurrency) = &flow.concurrency else { return Ok(None) };
    let name: Arc<str> = match &concurrency.key {
        None => flow.name.clone(),
        Some(key) => {
            let scope = Scope { input: input.clone(), now: draft.now(), ..Scope::default() };
            let value = key
                .program
                .evaluate(&scope)
                .map_err(|problem| Refusal::BadInput(vec![format!("concurrency.key: {problem}")]))?;
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if value.len() > MAX_KEY_BYTES {
                let problem =
                    format!("the value is too long ({} bytes, at most {MAX_KEY_BYTES})", value.len());
                return Err(Refusal::BadInput(vec![format!("concurrency.key: {problem}")]));
            }
            format!("{}/{value}", flow.name).into()
        }
    };
    Ok(Some(Limit { name, max: concurrency.limit, strict: concurrency.strict }))
}

/// The run has a slot now.
pub(crate) fn admit(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if !matches!(slot_claim(run, draft.flow()), SlotClaim::Wants { .. }) {
        return Ok(Answer::Already);
    }
    draft.emit(Fact::Admitted);
    advance_all(draft);
    Ok(Answer::Done)
}
