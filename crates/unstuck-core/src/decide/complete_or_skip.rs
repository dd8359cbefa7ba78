//! Steps that an operator ends: done by hand, or not needed.

use std::sync::Arc;

use crate::decide::{Answer, Draft, MAX_PAYLOAD_BYTES};
use crate::event::UnitFact;
use crate::interpreter::advance_after;
use crate::json::Json;
use crate::model::unit::{SkippedBy, UnitRef, UnitState};
use crate::refusal::Refusal;

/// The step counts as completed, with this output.
pub(crate) fn complete(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    output: Json,
    reason: Option<Arc<str>>,
) -> Result<Answer, Refusal> {
    draft.open_run()?;
    if matches!(draft.existing_unit(unit)?.state, UnitState::Completed { by_hand: true, .. }) {
        return Ok(Answer::Already);
    }
    check_nobody_works_on(draft, unit)?;
    let bytes = output.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(Refusal::TooLarge { what: "the output", bytes, max: MAX_PAYLOAD_BYTES });
    }
    let output = draft.store_payload(output);
    draft.emit_unit(unit, UnitFact::DoneByHand { output, reason });
    advance_after(draft, unit.step);
    Ok(Answer::Done)
}

/// The step is not needed: its output is null, and what needs it goes on.
pub(crate) fn skip(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    reason: Option<Arc<str>>,
) -> Result<Answer, Refusal> {
    draft.open_run()?;
    if matches!(draft.existing_unit(unit)?.state, UnitState::Skipped { .. }) {
        return Ok(Answer::Already);
    }
    check_nobody_works_on(draft, unit)?;
    draft.emit_unit(unit, UnitFact::Skipped { why: SkippedBy::Operator, reason });
    advance_after(draft, unit.step);
    Ok(Answer::Done)
}

/// A step that nobody works on now, and that was reached: only such a one can be ended from outside.
fn check_nobody_works_on(draft: &Draft<'_, '_>, unit: UnitRef) -> Result<(), Refusal> {
    let state = &draft.existing_unit(unit)?.state;
    let hint = match state {
        UnitState::Error { .. } | UnitState::Held { .. } | UnitState::Waiting(_) | UnitState::Ready(_) => {
            return Ok(());
        }
        UnitState::Active(_) => "an attempt is running: wait until it ends, or pause the run first",
        UnitState::Pending => "the run has not reached it yet",
        UnitState::Completed { .. } | UnitState::Skipped { .. } => "it has already ended",
        UnitState::Failed { .. } | UnitState::Dropped { .. } | UnitState::Cancelled { .. } => {
            "it has already ended; a rerun starts the next generation"
        }
    };
    Err(Refusal::WrongState {
        unit: draft.name(unit),
        is: state.word(),
        wanted: "in error, held, waiting or queued",
        hint,
    })
}
