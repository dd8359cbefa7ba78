//! Acknowledging steps in error: no policy resumes them, and they count no more, until somebody resumes them.

use std::sync::Arc;

use crate::decide::resume::units_in_error;
use crate::decide::{Answer, Draft};
use crate::event::UnitFact;
use crate::model::unit::{UnitRef, UnitState};
use crate::refusal::Refusal;

/// Acknowledges the given step, or every step in error.
pub(crate) fn acknowledge(
    draft: &mut Draft<'_, '_>,
    unit: Option<UnitRef>,
    reason: Option<&Arc<str>>,
) -> Result<Answer, Refusal> {
    let mut units = units_in_error(draft, unit, "be acknowledged")?;
    units.retain(|unit| matches!(draft.unit(*unit).state, UnitState::Error { acknowledged: None, .. }));
    if units.is_empty() {
        return Ok(Answer::Already);
    }
    for unit in units {
        draft.emit_unit(unit, UnitFact::Acknowledged { reason: reason.cloned() });
    }
    Ok(Answer::Done)
}
