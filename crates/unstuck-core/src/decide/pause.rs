//! Pauses and unpauses a run: active attempts finish, nothing is dispatched, timers wait; children follow.

use std::sync::Arc;

use crate::command::NoticeBody;
use crate::decide::{Answer, Draft};
use crate::event::Fact;
use crate::id::RunId;
use crate::interpreter::advance_all;
use crate::model::run::{Failing, Handler, PausedBy, Phase};
use crate::recovery::failing_run;
use crate::refusal::Refusal;

/// Pauses the run on behalf of an operator.
pub(crate) fn pause(draft: &mut Draft<'_, '_>, reason: Option<Arc<str>>) -> Result<Answer, Refusal> {
    draft.require_open_run()?;
    Ok(pause_run(draft, PausedBy::Operator, reason))
}

/// Pauses the run because its parent was paused. A child that an operator has paused stays so, whatever the parent
/// does.
pub(crate) fn pause_child(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    if draft.require_run()?.is_final() || draft.run().paused.is_some() {
        return Ok(Answer::Already);
    }
    Ok(pause_run(draft, PausedBy::Parent, None))
}

/// Unpauses the run on behalf of an operator.
pub(crate) fn unpause(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    draft.require_open_run()?;
    if draft.run().paused.is_none() {
        return Ok(Answer::Already);
    }
    unpause_run(draft);
    Ok(Answer::Done)
}

/// Unpauses the run because its parent was unpaused, unless an operator has paused it.
pub(crate) fn unpause_child(draft: &mut Draft<'_, '_>) -> Result<Answer, Refusal> {
    if draft.require_run()?.is_final() || draft.run().paused != Some(PausedBy::Parent) {
        return Ok(Answer::Already);
    }
    unpause_run(draft);
    Ok(Answer::Done)
}

/// Records who paused the run and pauses its children and its handler by notice.
fn pause_run(draft: &mut Draft<'_, '_>, by: PausedBy, reason: Option<Arc<str>>) -> Answer {
    if draft.run().paused == Some(by) {
        return Answer::Already;
    }
    draft.emit(Fact::Paused { by, reason });
    for child in active_children_and_handler(draft) {
        draft.notify(child, NoticeBody::PauseChild);
    }
    Answer::Done
}

/// Unpauses the run, its children and its handler, and advances whatever could not advance meanwhile.
fn unpause_run(draft: &mut Draft<'_, '_>) {
    draft.emit(Fact::Unpaused);
    for child in active_children_and_handler(draft) {
        draft.notify(child, NoticeBody::UnpauseChild);
    }
    advance_all(draft);
    failing_run::advance_failing(draft);
}

/// Lists the child runs under way and the handler.
fn active_children_and_handler(draft: &Draft<'_, '_>) -> Vec<RunId> {
    let mut children: Vec<RunId> =
        failing_run::active_children(draft).into_iter().map(|(child, _)| child).collect();
    if let Phase::Failing(Failing { handler: Some(Handler { run: Some(handler), .. }), .. }) =
        &draft.run().phase
    {
        children.push(*handler);
    }
    children
}
