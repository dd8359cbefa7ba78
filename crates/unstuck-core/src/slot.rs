//! Slots of a limit (`concurrency` of a flow): which limit a run needs, when it wants a slot, gets one and releases it.

use std::sync::Arc;

use serde_json::Value;

use crate::decide::{Answer, Draft, MAX_KEY_BYTES};
use crate::event::Fact;
use crate::interpreter::{advance_all, has_runnable_steps};
use crate::model::expression::Scope;
use crate::model::flow::Flow;
use crate::model::run::{Limit, Phase, Run, RunState, Slot};
use crate::refusal::Refusal;

/// What a run holds or wants of its flow's `concurrency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotClaim {
    /// Nothing.
    None,
    /// It would continue if it had one.
    Wants {
        limit: Limit,
        /// Higher first.
        priority: i32,
    },
    /// It has one.
    Has { limit: Limit },
}

/// Returns whether the run holds a slot of its limit, wants one, or neither.
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

/// Returns whether a run without a slot would use one: it has something to do that would not release the slot at once.
fn wants_slot(run: &Run, flow: &Flow, limit: &Limit) -> bool {
    if !matches!(run.phase, Phase::Going) || run.paused.is_some() {
        return false;
    }
    has_runnable_steps(run, flow) || !releases_slot(run.state_with_slot(), limit)
}

/// Returns whether a run in this state releases its slot: it has ended, or it rests and the limit is not strict.
pub(crate) fn releases_slot(state: RunState, limit: &Limit) -> bool {
    match state {
        RunState::Completed | RunState::Failed | RunState::Cancelled | RunState::Superseded => true,
        RunState::Error | RunState::Held | RunState::Paused => !limit.strict,
        RunState::Queued | RunState::Running | RunState::Waiting => false,
    }
}

/// Computes the limit that a run with this input needs a slot of, if its flow has one. With `concurrency.key`, each
/// value of the key has a limit of its own.
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

/// Gives the run the slot that it waits for, and advances it.
pub(crate) fn admit(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if !matches!(slot_claim(run, draft.flow()), SlotClaim::Wants { .. }) {
        return Ok(Answer::Already);
    }
    draft.emit(Fact::Admitted);
    advance_all(draft);
    Ok(Answer::Done)
}
