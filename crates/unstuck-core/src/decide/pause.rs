//! Pause and unpause: active attempts finish, nothing is dispatched, timers wait; children follow.

use std::sync::Arc;

use crate::command::NoticeBody;
use crate::decide::{Answer, Draft};
use crate::event::Fact;
use crate::id::RunId;
use crate::interpreter::advance_all;
use crate::model::run::{Failing, Handler, PausedBy, Phase};
use crate::recovery::failing_run;
use crate::refusal::Refusal;

/// An operator pauses the run.
pub(crate) fn pause(draft: &mut Draft<'_, '_>, reason: Option<Arc<str>>) -> Result<Answer, Refusal> {
    draft.open_run()?;
    Ok(pause_by(draft, PausedBy::Operator, reason))
}

/// The parent was paused. A child that an operator has paused stays the operator's.
pub(crate) fn pause_child(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    if draft.existing_run()?.is_final() || draft.run().paused.is_some() {
        return Ok(Answer::Already);
    }
    Ok(pause_by(draft, PausedBy::Parent, None))
}

/// An operator lets the run go on.
pub(crate) fn unpause(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    draft.open_run()?;
    if draft.run().paused.is_none() {
        return Ok(Answer::Already);
    }
    unpause_run(draft);
    Ok(Answer::Done)
}

/// The parent goes on.
pub(crate) fn unpause_child(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    if draft.existing_run()?.is_final() || draft.run().paused != Some(PausedBy::Parent) {
        return Ok(Answer::Already);
    }
    unpause_run(draft);
    Ok(Answer::Done)
}

fn pause_by(draft: &mut Draft<'_, '_>, by: PausedBy, reason: Option<Arc<str>>) -> Answer {
    if draft.run().paused == Some(by) {
        return Answer::Already;
    }
    draft.emit(Fact::Paused { by, reason });
    for child in open_children(draft) {
        draft.notify(child, NoticeBody::PauseChild);
    }
    Answer::Done
}

fn unpause_run(draft: &mut Draft<'_, '_>) {
    draft.emit(Fact::Unpaused);
    for child in open_children(draft) {
        draft.notify(child, NoticeBody::UnpauseChild);
    }
    advance_all(draft);
    failing_run::advance_failing(draft);
}

/// The child runs under way, and the handler.
fn open_children(draft: &Draft<'_, '_>) -> Vec<RunId> {
    let mut children: Vec<RunId> =
        failing_run::active_children(draft).into_iter().map(|(child, _)| child).collect();
    if let Phase::Failing(Failing { handler: Some(Handler { run: Some(handler), .. }), .. }) =
        &draft.run().phase
    {
        children.push(*handler);
    }
    children
}
