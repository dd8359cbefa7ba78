//! Moves a run that is under way to another version of its flow.
//!
//! Steps are numbered by their places, and events, tokens, logs and children go by these numbers. So a run can be moved only where every step that
//! has begun has the same place in the new version: then nothing that was written or handed out means anything else, and workers keep their attempts.

use std::sync::Arc;

use crate::decide::{Answer, Draft};
use crate::event::{Fact, Migrated};
use crate::id::FlowId;
use crate::interpreter::advance_all;
use crate::model::flow::{Flow, Step, StepIndex};
use crate::model::run::Run;
use crate::model::unit::{StepRun, UnitState, Waiting};
use crate::refusal::{CannotMigrate, Refusal};

/// Moves the run, and begins what can begin there.
pub(crate) fn migrate_run(
    draft: &mut Draft<'_, '_>,
    to: FlowId,
    reason: Option<Arc<str>>,
) -> Result<Answer, Refusal> {
    let run = draft.require_open_run()?;
    if run.flow == to {
        return Ok(Answer::Already);
    }
    let Some(flow) = draft.context.next_flow.filter(|flow| flow.id == to) else {
        let why = "it is not there; list the versions of the flow".to_owned();
        return Err(refuse(None, why, &to.to_string().into()));
    };
    let changed = check_migration(run, draft.flow(), flow)?;
    let migrated = Migrated {
        flow: to,
        version: flow.version.clone(),
        from: draft.flow().version.clone(),
        steps: u16::try_from(flow.steps.len()).unwrap_or(u16::MAX),
        changed,
        reason,
    };
    draft.emit(Fact::Migrated(Box::new(migrated)));
    draft.context.flow = flow;
    advance_all(draft);
    Ok(Answer::Done)
}

/// Checks that a run can be moved from one version of its flow to another. Returns the steps that have begun, are not at work, and are defined in
/// another way there.
pub fn check_migration(run: &Run, from: &Flow, to: &Flow) -> Result<Vec<StepIndex>, Refusal> {
    if from.name != to.name {
        let why = format!("that is a version of flow `{}`, and the run is one of `{}`", to.name, from.name);
        return Err(refuse(None, why, &to.version));
    }
    let mut changed = Vec::new();
    for (place, (old, state)) in from.step_indices().zip(from.steps.iter().zip(&run.steps)) {
        // Earlier generations may have begun any step.
        if !state.has_begun() && run.generation == 1 {
            continue;
        }
        let new = find_same_place(old, place, to)?;
        if state.has_begun() && !is_same(old, new) {
            check_change(old, new, state, to)?;
            changed.push(place);
        }
    }
    Ok(changed)
}

/// Returns the step that has the place of this one, which must be the same step.
fn find_same_place<'f>(old: &Step, place: StepIndex, to: &'f Flow) -> Result<&'f Step, Refusal> {
    if let Some(new) = to.steps.get(usize::from(place.0)).filter(|new| new.id == old.id) {
        return Ok(new);
    }
    let why = match to.find_step(&old.id) {
        None => "has begun, and is not in that version".to_owned(),
        Some(_) => "has begun, and has another place in that version: add steps after those that have begun, and remove none \
                    before them"
            .to_owned(),
    };
    Err(refuse(Some(old), why, &to.version))
}

/// Returns whether two steps are defined in the same way: both are compiled, and an expression is shown as it was written.
fn is_same(old: &Step, new: &Step) -> bool {
    format!("{old:?}") == format!("{new:?}")
}

/// Refuses a change of a step that is done or at work; one that is held, in error or waits to be tried again may be another one.
fn check_change(old: &Step, new: &Step, state: &StepRun, to: &Flow) -> Result<(), Refusal> {
    let (is_idle, word) = match state {
        StepRun::Items(_) => (false, state.word()),
        StepRun::Single(unit) => {
            let is_idle = match &unit.state {
                UnitState::Pending
                | UnitState::Held { .. }
                | UnitState::Error { .. }
                | UnitState::Waiting(Waiting::Again { .. }) => unit.child.is_none(),
                UnitState::Waiting(Waiting::Timer { .. } | Waiting::Signal { .. })
                | UnitState::Ready(_)
                | UnitState::Active(_)
                | UnitState::Completed { .. }
                | UnitState::Skipped { .. }
                | UnitState::Failed { .. }
                | UnitState::Dropped { .. }
                | UnitState::Cancelled { .. } => false,
            };
            (is_idle, unit.state.word())
        }
    };
    if is_idle && old.node.for_each.is_some() == new.node.for_each.is_some() {
        return Ok(());
    }
    let word = if word == "error" { "in error" } else { word };
    Err(refuse(Some(old), format!("is {word}, and is defined in another way there"), &to.version))
}

fn refuse(step: Option<&Step>, why: String, version: &Arc<str>) -> Refusal {
    let step = step.map(|step| step.id.to_string());
    Refusal::CannotMigrate(Box::new(CannotMigrate { step, why, version: version.clone() }))
}
