//! Acknowledges steps in error: no policy resumes them, and they no longer need attention, until they are resumed by
//! hand.

use std::sync::Arc;

use crate::decide::resume::units_in_error;
use crate::decide::{Answer, Draft};
use crate::event::UnitFact;
use crate::model::unit::{UnitRef, UnitState};
use crate::refusal::Refusal;

/// Acknowledges the given step, or every step in error, and drops their scheduled resumes.
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
