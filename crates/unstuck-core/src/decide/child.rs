//! Notices from children to their parents, and what they do to the parent's step.

use crate::command::{ChildEnd, ChildRef, Notice, NoticeBody, StartChild};
use crate::decide::{Answer, Draft};
use crate::event::{Fact, UnitFact};
use crate::id::RunId;
use crate::interpreter::advance_after;
use crate::model::attempt::Outcome;
use crate::model::error::{CHILD_ACTION, Error, RunError};
use crate::model::run::{Failing, Handler, Origin, ParentAttempt, Phase, RunState};
use crate::model::run::{Run, RunOutcome};
use crate::model::unit::{AttemptPhase, UnitRef};
use crate::recovery::failing_run;
use crate::recovery::ladder::{self, AttemptError};
use crate::refusal::Refusal;

/// Builds the notice that tells a parent that its child could not be started: the child counts as failed.
pub fn notice_of_refused_child(to: RunId, child: &StartChild, cause: &str) -> Option<Notice> {
    let error = Error::found_by(CHILD_ACTION, cause);
    let how = ChildEnd::Failed(Box::new(RunError::of_run(error)));
    let parent = child.origin.parent()?;
    let child = ChildRef { run: to, origin: child.origin.clone() };
    Some(Notice { to: parent.into(), body: NoticeBody::ChildEnded { child, how } })
}

/// Builds the notice that tells a parent the new state of its child, or how the child ended.
pub(crate) fn build_parent_notice(run: &Run, state: RunState) -> NoticeBody {
    let child = ChildRef { run: run.id, origin: run.origin.clone() };
    match &run.phase {
        Phase::Ended(ended) => {
            let how = match &ended.how {
                RunOutcome::Completed { output } => ChildEnd::Completed(output.clone()),
                RunOutcome::Failed { error, .. } => ChildEnd::Failed(error.clone()),
                RunOutcome::Cancelled { .. } | RunOutcome::Superseded { .. } => ChildEnd::Cancelled,
            };
            NoticeBody::ChildEnded { child, how }
        }
        Phase::Going | Phase::Failing(_) => NoticeBody::ChildChanged { child, state },
    }
}

/// Records the state that a child or handler reports, if the run still waits for it and the state is new.
pub(crate) fn record_child_state(
    draft: &mut Draft<'_, '_>,
    child: &ChildRef,
    state: RunState,
) -> Result<Answer, Refusal> {
    if draft.require_run()?.is_final() {
        return Ok(Answer::Already);
    }
    match find_child_position(draft, child) {
        Some(ChildPosition::Handler(known)) if known != state => draft.emit(Fact::HandlerChanged { state }),
        Some(ChildPosition::Unit { unit, state: known, .. }) if known != state => {
            draft.emit_unit(unit, UnitFact::ChildChanged { state });
        }
        Some(ChildPosition::Handler(_) | ChildPosition::Unit { .. }) | None => return Ok(Answer::Already),
    }
    Ok(Answer::Done)
}

/// Ends the step of a child that has ended, or ends a failing run whose handler has ended. A child that the run no
/// longer waits for is ignored.
pub(crate) fn handle_child_end(
    draft: &mut Draft<'_, '_>,
    child: &ChildRef,
    how: ChildEnd,
) -> Result<Answer, Refusal> {
    if draft.require_run()?.is_final() {
        return Ok(Answer::Already);
    }
    match find_child_position(draft, child) {
        None => return Ok(Answer::Already),
        Some(ChildPosition::Handler(_)) => {
            let handler_error = match how {
                ChildEnd::Completed(_) => None,
                ChildEnd::Failed(error) => Some(error),
                ChildEnd::Cancelled => Some(Box::new(child_error("the handler was cancelled"))),
            };
            draft.emit(Fact::RunFailed { handler_error });
        }
        Some(ChildPosition::Unit { unit, attempt, .. }) => end_child_step(draft, unit, attempt, how),
    }
    Ok(Answer::Done)
}

/// Ends the attempt of a `flow` step as its child ended. An error of the child goes through the recovery ladder of the
/// step: a fatal or cancelled child is *failed*, any other failure *stalled*.
fn end_child_step(draft: &mut Draft<'_, '_>, unit: UnitRef, attempt: u32, how: ChildEnd) {
    let (outcome, verdict) = match how {
        ChildEnd::Completed(output) => (Outcome::Completed(output), None),
        ChildEnd::Failed(failed) if failed.fatal => {
            (Outcome::Failed(Box::new(failed.error)), Some(AttemptError::Failed))
        }
        ChildEnd::Failed(failed) => (Outcome::Stalled(Box::new(failed.error)), Some(AttemptError::Stalled)),
        ChildEnd::Cancelled => {
            let error = child_error("the child run was cancelled").error;
            (Outcome::Failed(Box::new(error)), Some(AttemptError::Failed))
        }
    };
    draft.emit_unit(unit, UnitFact::Ended { attempt, outcome });
    match verdict {
        Some(verdict) => ladder::climb_ladder(draft, unit, verdict),
        None if draft.run().is_failing() => failing_run::advance_failing(draft),
        None => advance_after(draft, unit.step),
    }
}

/// Builds a run error under the engine-made action for children.
fn child_error(cause: &str) -> RunError {
    RunError::of_run(Error::found_by(CHILD_ACTION, cause))
}

/// Where a run refers to a child: as its handler, or as the live attempt of a `flow` step.
enum ChildPosition {
    Handler(RunState),
    Unit { unit: UnitRef, attempt: u32, state: RunState },
}

/// Finds where this run refers to the child, if it still waits for the generation and attempt that the child names.
fn find_child_position(draft: &Draft<'_, '_>, child: &ChildRef) -> Option<ChildPosition> {
    let run = draft.run();
    match &child.origin {
        Origin::Root => None,
        Origin::Handler { generation, .. } => match &run.phase {
            Phase::Failing(Failing { handler: Some(Handler { run: Some(known), state, .. }), .. })
                if *known == child.run && *generation == run.generation =>
            {
                Some(ChildPosition::Handler(*state))
            }
            Phase::Failing(_) | Phase::Going | Phase::Ended(_) => None,
        },
        Origin::Child { unit, serves, .. } => {
            let state = run.unit(*unit)?;
            let live = state.state.live()?;
            let AttemptPhase::Child { state: child_state, .. } = &live.doing else { return None };
            let now = ParentAttempt { generation: run.generation, attempt: live.attempt };
            let is_awaited = state.child == Some(child.run) && *serves == now;
            is_awaited.then_some(ChildPosition::Unit {
                unit: *unit,
                attempt: live.attempt,
                state: *child_state,
            })
        }
    }
}
