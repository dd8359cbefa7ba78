//! A manual resume of steps in error, with or without changes to what failed.

use std::sync::Arc;

use crate::command::Changes;
use crate::decide::{Answer, Draft, MAX_PAYLOAD_BYTES};
use crate::event::{Fact, UnitFact};
use crate::json::Json;
use crate::model::attempt::ResumedBy;
use crate::model::unit::{QueuePlace, Unit, UnitRef, UnitState};
use crate::refusal::Refusal;
use crate::schedule::{advance_after, begin, rebind};

/// Starts a new round of the given step, or of every step in error.
pub(crate) fn resume(
    draft: &mut Draft<'_, '_>,
    unit: Option<UnitRef>,
    reason: Option<&Arc<str>>,
    changes: Changes,
) -> Result<Answer, Refusal> {
    let units = in_error(draft, unit, "be resumed")?;
    let Changes { input, step_input, bulk } = changes;
    check_changes(draft, &units, input.as_ref(), step_input.as_ref())?;
    let input_changed = input.is_some();
    if let Some(input) = input {
        let input = draft.keep(input);
        draft.emit(Fact::InputChanged { input });
    }
    for unit in units {
        let reason = reason.cloned();
        draft.emit_unit(unit, UnitFact::Resumed { by: ResumedBy::Operator, reason, bulk });
        if let Some(given) = &step_input {
            let input = draft.keep(given.clone());
            draft.emit_unit(unit, UnitFact::Bound { input });
        } else if input_changed && !rebind(draft, unit) {
            continue;
        }
        begin(draft, unit, Some(ResumedBy::Operator), QueuePlace::default());
        advance_after(draft, unit.step);
    }
    Ok(Answer::Done)
}

/// The given step, or every one, which must be in error.
pub(super) fn in_error(
    draft: &Draft<'_, '_>,
    unit: Option<UnitRef>,
    asked: &'static str,
) -> Result<Vec<UnitRef>, Refusal> {
    draft.open_run()?;
    let is_in_error = |unit: &Unit| matches!(unit.state, UnitState::Error { .. });
    let Some(unit) = unit else {
        let units = draft.run().units_where(is_in_error);
        if units.is_empty() {
            let hint = "none of its steps is in error";
            return Err(Refusal::WrongRunState { is: draft.run().state(), asked, hint });
        }
        return Ok(units);
    };
    let state = draft.existing_unit(unit)?;
    if is_in_error(state) {
        return Ok(vec![unit]);
    }
    Err(Refusal::WrongState {
        unit: draft.name(unit),
        is: state.state.word(),
        wanted: "in error",
        hint: "only a step in error is resumed or acknowledged; a held one has a choice",
    })
}

/// A changed input must fit, as the first one had to.
fn check_changes(
    draft: &Draft<'_, '_>,
    units: &[UnitRef],
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
    if step_input.is_some() && units.len() > 1 {
        return Err(Refusal::BadInput(vec![format!(
            "{} steps are in error, and an input for the step is given: name the step",
            units.len()
        )]));
    }
    Ok(())
}
