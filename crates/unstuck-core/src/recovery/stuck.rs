//! Stuck attempts: each is ended and tried again, within `maxStuck`.

use crate::command::NoticeBody;
use crate::decide::Draft;
use crate::event::UnitFact;
use crate::json::Json;
use crate::model::attempt::{Outcome, Stuck, StuckLimit};
use crate::model::error::Error;
use crate::model::run::ParentAttempt;
use crate::model::unit::{AttemptPhase, LiveAttempt, QueuePlace, UnitRef, UnitState};
use crate::recovery::failing_run;
use crate::recovery::ladder::{self, AttemptError};
use crate::time::Time;

/// Ends the active attempt of a unit as stuck, and tries again or fails it. `free`: it was lost together with others of
/// its worker for the first time in its round, which uses no budget.
pub(crate) fn end_stuck_attempt(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    limit: StuckLimit,
    heard: Time,
    free: bool,
) {
    let UnitState::Active(live) = &draft.unit(unit).state else { return };
    let live = live.clone();
    stop_executor(draft, unit, &live, limit);
    let step = draft.step(unit);
    let round = draft.unit(unit).round;
    let stuck = round.stuck + u32::from(!free);
    let attempt = live.attempt;
    if draft.run().is_failing() {
        draft.emit_unit(
            unit,
            UnitFact::Ended { attempt, outcome: Outcome::Stuck(Stuck { limit, heard, free }) },
        );
        let how = failing_run::closing_for_open_units(draft);
        draft.emit_unit(unit, UnitFact::Closed { how });
        failing_run::advance_failing(draft);
        return;
    }
    if stuck >= step.limits.max_stuck && !free {
        let outcome = Outcome::Failed(Box::new(stuck_too_often_error(limit, heard, stuck)));
        draft.emit_unit(unit, UnitFact::Ended { attempt, outcome });
        ladder::climb(draft, unit, AttemptError::Failed);
        return;
    }
    draft.emit_unit(unit, UnitFact::Ended { attempt, outcome: Outcome::Stuck(Stuck { limit, heard, free }) });
    let is_first = round.stuck == 0 && round.losses == 0;
    let place = QueuePlace { front: is_first, alone: draft.unit(unit).round.must_run_alone() };
    let due = draft.now() + step.limits.minimum_delay;
    draft.emit_unit(unit, UnitFact::Requeued { due, stuck, max: step.limits.max_stuck, place });
}

/// Interrupts the executor of a stuck attempt, or cancels its child.
fn stop_executor(draft: &mut Draft<'_, '_>, unit: UnitRef, live: &LiveAttempt, limit: StuckLimit) {
    match &live.doing {
        AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } => {
            if limit != StuckLimit::Gone {
                draft.interrupt(unit, live.attempt, worker, limit.to_string());
            }
        }
        AttemptPhase::Child { .. } => {
            if let Some(child) = draft.unit(unit).child {
                let serves = ParentAttempt { generation: draft.run().generation, attempt: live.attempt };
                draft.notify(child, NoticeBody::CancelChild { serves });
            }
        }
    }
}

/// Builds the error of a step that has been stuck `times` times in its round, which fails it.
fn stuck_too_often_error(limit: StuckLimit, heard: Time, times: u32) -> Error {
    let error = Error::new(format!("stuck: {limit}"));
    let context = format!("stuck {times} times in this round; last heard from at {heard}");
    let details = Json::of(&serde_json::json!({ "lastHeard": heard.to_string(), "stuck": times }));
    Error { context: Some(context.into()), details, ..error }
}
