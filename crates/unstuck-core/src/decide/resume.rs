//! A manual resume of steps in error.

use std::sync::Arc;

use crate::decide::{Answer, Draft};
use crate::event::UnitFact;
use crate::model::attempt::ResumedBy;
use crate::model::unit::{QueuePlace, Unit, UnitRef, UnitState};
use crate::refusal::Refusal;
use crate::schedule::{advance_after, begin};

/// Starts a new round of the given step, or of every step in error.
pub(crate) fn resume(
    draft: &mut Draft<'_, '_>,
    unit: Option<UnitRef>,
    reason: Option<&Arc<str>>,
) -> Result<Answer, Refusal> {
    draft.open_run()?;
    let in_error = |unit: &Unit| matches!(unit.state, UnitState::Error { .. });
    let units = match unit {
        Some(unit) => {
            let state = draft.existing_unit(unit)?;
            if !in_error(state) {
                return Err(Refusal::WrongState {
                    unit: draft.name(unit),
                    is: state.state.word(),
                    wanted: "in error",
                    hint: "only a step in error is resumed; a held one has a choice",
                });
            }
            vec![unit]
        }
        None => draft.run().units_where(in_error),
    };
    if units.is_empty() {
        return Err(Refusal::WrongRunState {
            is: draft.run().state(),
            asked: "be resumed",
            hint: "none of its steps is in error",
        });
    }
    for unit in units {
        draft.emit_unit(unit, UnitFact::Resumed { by: ResumedBy::Operator, reason: reason.cloned() });
        begin(draft, unit, Some(ResumedBy::Operator), QueuePlace::default());
        advance_after(draft, unit.step);
    }
    Ok(Answer::Done)
}
