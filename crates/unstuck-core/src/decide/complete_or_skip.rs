//! Ends a step on behalf of an operator: completed by hand with an output, or skipped.

use std::sync::Arc;

use crate::decide::{Answer, Draft, MAX_PAYLOAD_BYTES};
use crate::event::UnitFact;
use crate::interpreter::advance_after;
use crate::json::Json;
use crate::model::unit::{SkippedBy, UnitRef, UnitState};
use crate::refusal::Refusal;

/// Completes a step by hand with the given output, and advances what depends on it.
pub(crate) fn complete(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    output: Json,
    reason: Option<Arc<str>>,
) -> Result<Answer, Refusal> {
    draft.require_open_run()?;
    if matches!(draft.require_unit(unit)?.state, UnitState::Completed { by_hand: true, .. }) {
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

/// Skips a step: its output is null, and steps that depend on it continue.
pub(crate) fn skip(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    reason: Option<Arc<str>>,
) -> Result<Answer, Refusal> {
    draft.require_open_run()?;
    if matches!(draft.require_unit(unit)?.state, UnitState::Skipped { .. }) {
        return Ok(Answer::Already);
    }
    check_nobody_works_on(draft, unit)?;
    draft.emit_unit(unit, UnitFact::Skipped { why: SkippedBy::Operator, reason });
    advance_after(draft, unit.step);
    Ok(Answer::Done)
}

/// Refuses a step that has an active attempt, has not been reached or has ended: an operator can end all others.
fn check_nobody_works_on(draft: &Draft<'_, '_>, unit: UnitRef) -> Result<(), Refusal> {
    let state = &draft.require_unit(unit)?.state;
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
