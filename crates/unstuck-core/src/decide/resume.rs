//! Resumes steps by hand: steps in error, or steps that wait for a retry or deferral, with changed inputs if given.

use std::sync::Arc;

use crate::begin_attempt::{begin_attempt, rebind_input};
use crate::command::Changes;
use crate::decide::{Answer, Draft, MAX_PAYLOAD_BYTES};
use crate::event::{Fact, UnitFact};
use crate::interpreter::advance_after;
use crate::json::Json;
use crate::model::attempt::ResumedBy;
use crate::model::run::RunState;
use crate::model::unit::{QueuePlace, Unit, UnitRef, UnitState, Waiting};
use crate::refusal::Refusal;

/// Starts a new round of the given step, or of every step in error; if none is in error, of every step that waits for a
/// retry or a deferral.
pub(crate) fn resume_steps(
    draft: &mut Draft<'_, '_>,
    unit: Option<UnitRef>,
    reason: Option<&Arc<str>>,
    changes: Changes,
) -> Result<Answer, Refusal> {
    // How a run is rerun is nothing to a resume.
    let Changes { input, step_input, bulk, cancel_first: _, deadline: _ } = changes;
    // A bulk action selects errors: a step that has left its error since is not its target any more.
    let units = if bulk.is_some() {
        units_in_error(draft, unit, "be resumed")?
    } else {
        units_to_resume(draft, unit)?
    };
    check_inputs(draft, input.as_ref(), step_input.as_ref())?;
    if step_input.is_some() && units.len() > 1 {
        return Err(Refusal::BadInput(vec![format!(
            "{} steps would be resumed, but an input for one step was given: name the step",
            units.len()
        )]));
    }
    let input_changed = input.is_some();
    if let Some(input) = input {
        let input = draft.store_payload(input);
        draft.emit(Fact::InputChanged { input, digest: None });
    }
    for unit in units {
        let reason = reason.cloned();
        draft.emit_unit(unit, UnitFact::Resumed { by: ResumedBy::Operator, reason, bulk, waited: None });
        if let Some(given) = &step_input {
            let input = draft.store_payload(given.clone());
            draft.emit_unit(unit, UnitFact::InputBound { input });
        } else if input_changed && !rebind_input(draft, unit) {
            continue;
        }
        begin_attempt(draft, unit, Some(ResumedBy::Operator), QueuePlace::default());
        advance_after(draft, unit.step);
    }
    Ok(Answer::Done)
}

/// Lists the units that a resume applies to: the given one, or all in error, or else all that wait for their next
/// attempt.
fn units_to_resume(draft: &Draft<'_, '_>, unit: Option<UnitRef>) -> Result<Vec<UnitRef>, Refusal> {
    draft.require_open_run()?;
    let waits = |unit: &Unit| matches!(unit.state, UnitState::Waiting(Waiting::Again { .. }));
    match unit {
        Some(unit) if waits(draft.require_unit(unit)?) => Ok(vec![unit]),
        Some(_) => units_in_error(draft, unit, "be resumed"),
        None => {
            let waiting = draft.run().units_where(waits);
            units_in_error(draft, None, "be resumed").or_else(|refusal| {
                if waiting.is_empty() || draft.run().is_failing() { Err(refusal) } else { Ok(waiting) }
            })
        }
    }
}

/// Returns the given unit, which must be in error, or all units in error; refuses if there is none. `asked` completes
/// the sentence of the refusal.
pub(super) fn units_in_error(
    draft: &Draft<'_, '_>,
    unit: Option<UnitRef>,
    asked: &'static str,
) -> Result<Vec<UnitRef>, Refusal> {
    draft.require_open_run()?;
    let is_in_error = |unit: &Unit| matches!(unit.state, UnitState::Error { .. });
    let Some(unit) = unit else {
        let units = draft.run().units_where(is_in_error);
        if units.is_empty() {
            let is = draft.run().state();
            let hint = if is == RunState::Error {
                "the error is in a child run, which `unstuck explain` names"
            } else {
                "none of its steps is in error"
            };
            return Err(Refusal::WrongRunState { is, asked, hint });
        }
        return Ok(units);
    };
    let state = draft.require_unit(unit)?;
    if is_in_error(state) {
        return Ok(vec![unit]);
    }
    Err(Refusal::WrongState {
        unit: draft.name(unit),
        is: state.state.word(),
        wanted: "in error",
        hint: "only a step in error can be resumed or acknowledged; for a held step, choose retry or none",
    })
}

/// Refuses changed inputs that are too large or do not fit the flow's input schema.
pub(super) fn check_inputs(
    draft: &Draft<'_, '_>,
    input: Option<&Json>,
    step_input: Option<&Json>,
) -> Result<(), Refusal> {
    for (what, json) in [("the input", input), ("the input of the step", step_input)] {
        let bytes = json.map_or(0, |json| json.text().len());
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(Refusal::TooLarge { what, bytes, max: MAX_PAYLOAD_BYTES });
        }
    }
    if let (Some(json), Some(check)) = (input, &draft.flow().input) {
        check.check(&json.value()).map_err(Refusal::BadInput)?;
    }
    Ok(())
}
