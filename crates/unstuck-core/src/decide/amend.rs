//! Changes the priority, the labels and the deadline of a run that is under way.

use std::sync::Arc;

use crate::command::{Amendment, NewDeadline, NoticeBody};
use crate::decide::{Answer, Draft};
use crate::event::{Amended, AmendedDeadline, Fact};
use crate::id::RunId;
use crate::model::labels::{Labels, check_labels};
use crate::model::run::{Failing, Handler, Phase, Run};
use crate::model::unit::UnitState;
use crate::refusal::Refusal;
use crate::time::Time;

/// Changes a run on behalf of an operator. A child and a handler follow their parent, so that whoever waits for it and what it waits
/// for agree.
pub(crate) fn amend_by_operator(
    draft: &mut Draft<'_, '_>,
    changes: &Amendment,
    reason: Option<Arc<str>>,
) -> Result<Answer, Refusal> {
    let run = draft.require_open_run()?;
    if let Some(parent) = run.origin.parent() {
        return Err(Refusal::AmendOfChild { run: run.id, parent });
    }
    let deadline = changes.deadline.map(|deadline| read_deadline(deadline, draft.now())).transpose()?;
    let (labels_removed, labels_set) = changed_labels(run, changes)?;
    let has = AmendedDeadline { at: run.deadline, is_relative: run.deadline_is_relative };
    let amended = Amended {
        priority: changes.priority.filter(|priority| *priority != run.priority),
        labels_removed,
        labels_set,
        deadline: deadline.filter(|deadline| *deadline != has),
        reason: None,
    };
    if amended == Amended::default() {
        return Ok(Answer::Already);
    }
    record(draft, Amended { reason, ..amended });
    Ok(Answer::Done)
}

/// Gives a child or handler the priority that follows from its parent's.
pub(crate) fn amend_child(draft: &mut Draft<'_, '_>, priority: i32) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if run.is_final() || run.priority == priority {
        return Ok(Answer::Already);
    }
    record(draft, Amended { priority: Some(priority), ..Amended::default() });
    Ok(Answer::Done)
}

/// Records the change, and hands a new priority on to what the run waits for.
fn record(draft: &mut Draft<'_, '_>, amended: Amended) {
    let is_priority_new = amended.priority.is_some();
    draft.emit(Fact::Amended(Box::new(amended)));
    if is_priority_new {
        for (child, priority) in priorities_below(draft) {
            draft.notify(child, NoticeBody::AmendChild { priority });
        }
    }
}

/// Lists the children under way and the handler, each with the priority that it would be started with now.
fn priorities_below(draft: &Draft<'_, '_>) -> Vec<(RunId, i32)> {
    let run = draft.run();
    let mut all = Vec::new();
    run.each_unit(|unit, state| {
        if let (UnitState::Active(_), Some(child)) = (&state.state, state.child) {
            all.push((child, run.priority.saturating_add(draft.step(unit).priority)));
        }
    });
    if let Phase::Failing(Failing { handler: Some(Handler { run: Some(handler), .. }), .. }) = &run.phase {
        all.push((*handler, run.priority));
    }
    all
}

/// Returns the deadline that is asked for; one that has passed would only fail the run.
pub(super) fn read_deadline(deadline: NewDeadline, now: Time) -> Result<AmendedDeadline, Refusal> {
    match deadline {
        NewDeadline::After(span) => Ok(AmendedDeadline { at: Some(now + span), is_relative: true }),
        NewDeadline::At(at) if at <= now => Err(Refusal::PastDeadline { deadline: at, now }),
        NewDeadline::At(at) => Ok(AmendedDeadline { at: Some(at), is_relative: false }),
        NewDeadline::None => Ok(AmendedDeadline { at: None, is_relative: false }),
    }
}

/// Returns the labels that go, with their values, and those that come or change. Refuses too many, and bad ones.
fn changed_labels(run: &Run, changes: &Amendment) -> Result<(Labels, Labels), Refusal> {
    let mut now = run.labels.as_deref().cloned().unwrap_or_default();
    let (mut removed, mut set) = (Labels::new(), Labels::new());
    for (name, value) in &changes.labels {
        let had = match value {
            Some(value) => now.insert(name.clone(), value.clone()),
            None => now.remove(name),
        };
        if had.as_ref() == value.as_ref() {
            continue;
        }
        removed.extend(had.map(|had| (name.clone(), had)));
        set.extend(value.clone().map(|value| (name.clone(), value)));
    }
    check_labels(&now)?;
    Ok((removed, set))
}
