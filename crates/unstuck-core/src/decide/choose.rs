//! An operator's choice for a held step.

use crate::begin_attempt::begin_attempt;
use crate::bulk::BulkRef;
use crate::decide::{Answer, Draft};
use crate::event::{Choice, UnitFact};
use crate::interpreter::advance_after;
use crate::model::attempt::ResumedBy;
use crate::model::unit::{QueuePlace, UnitRef, UnitState};
use crate::recovery::ladder;
use crate::refusal::Refusal;

/// Applies an operator's choice to a held step: `retry` gives one more attempt in the same round, `none` leaves it
/// failed and climbs the later rungs of the ladder.
pub(crate) fn choose(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    choice: Choice,
    bulk: Option<BulkRef>,
) -> Result<Answer, Refusal> {
    draft.require_open_run()?;
    let state = draft.require_unit(unit)?;
    if !matches!(state.state, UnitState::Held { .. }) {
        return Err(Refusal::WrongState {
            unit: draft.name(unit),
            is: state.state.word(),
            wanted: "held",
            hint: "only a held step has a choice; resume a step in error instead",
        });
    }
    // A bulk action waits for a result only where there is another attempt.
    let bulk = bulk.filter(|_| choice == Choice::Retry);
    draft.emit_unit(unit, UnitFact::Chosen { choice, bulk });
    match choice {
        Choice::Retry => {
            begin_attempt(draft, unit, Some(ResumedBy::Operator), QueuePlace::default());
            advance_after(draft, unit.step);
        }
        Choice::None => ladder::leave_failed(draft, unit),
    }
    Ok(Answer::Done)
}
