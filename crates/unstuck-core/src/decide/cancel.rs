//! Cancels a run: final at commit; its attempts become void, its children and its handler are cancelled by notice.

use std::sync::Arc;

use crate::command::NoticeBody;
use crate::decide::{Answer, Draft};
use crate::event::{Closing, Fact, UnitFact};
use crate::model::attempt::Cancelled;
use crate::model::run::{Failing, Handler, ParentAttempt, Phase, RunState};
use crate::model::unit::{ItemsEnd, StepRun};
use crate::recovery::failing_run;
use crate::refusal::Refusal;

/// Cancels the run and its attempts, and notifies its children and its handler. A run that is cancelled already stays
/// as it is.
pub(crate) fn cancel(draft: &mut Draft<'_, '_>, reason: Option<Arc<str>>) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if run.state() == RunState::Cancelled {
        return Ok(Answer::Already);
    }
    draft.require_open_run()?;
    for (child, serves) in failing_run::active_children(draft) {
        draft.notify(child, NoticeBody::CancelChild { serves });
    }
    if let Phase::Failing(Failing { handler: Some(Handler { run: Some(handler), .. }), .. }) =
        &draft.run().phase
    {
        let handler = *handler;
        let serves = ParentAttempt { generation: draft.run().generation, attempt: 0 };
        draft.notify(handler, NoticeBody::CancelChild { serves });
    }
    failing_run::void_attempts(draft, Cancelled::RunCancelled);
    for unit in draft.run().units_where(|unit| !unit.state.is_final()) {
        draft.emit_unit(unit, UnitFact::Closed { how: Closing::Cancelled });
    }
    for step in draft.flow().step_indices() {
        if let StepRun::Items(items) = draft.run().step(step)
            && matches!(items.end, ItemsEnd::Open)
        {
            draft.emit(Fact::ItemsEnded { step, how: Closing::Cancelled });
        }
    }
    draft.emit(Fact::RunCancelled { reason });
    Ok(Answer::Done)
}

/// Cancels a run on behalf of its parent, unless the run already works for another attempt of it: then the notice is
/// stale.
pub(crate) fn cancel_child(draft: &mut Draft<'_, '_>, serves: ParentAttempt) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if run.is_final() || run.origin.serves() != Some(serves) {
        return Ok(Answer::Already);
    }
    cancel(draft, Some("its parent no longer needs it".into()))
}
