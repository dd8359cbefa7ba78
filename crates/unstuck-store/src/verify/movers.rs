//! Something will move every run: a timer, a queue entry, a live attempt, a notice on its way, a slot, or a person.

use unstuck_core::command::NoticeBody;
use unstuck_core::decide::unit_name;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::run::{Failing, Handler, ParentAttempt, Phase, Run};
use unstuck_core::model::unit::{AttemptPhase, ItemsEnd, StepRun, Unit, UnitRef, UnitState, Waiting};
use unstuck_core::slot::{SlotClaim, slot_claim};
use unstuck_core::wakeup::wakeups;

use crate::contract::StoreError;
use crate::verify::{Finding, Promise, REPORT};

/// The other runs, as far as one run depends on them.
pub trait Neighbours {
    /// What is known of a run.
    fn neighbour(&mut self, run: RunId) -> Result<Neighbour, StoreError>;

    /// The attempt for which `parent` waits for `child`, if it does.
    fn awaits(&mut self, parent: RunId, child: RunId) -> Result<Option<ParentAttempt>, StoreError>;

    /// The notices that are on their way to a run, in order.
    fn notices_to(&self, run: RunId) -> &[NoticeBody];
}

/// What a run must know of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// There is no such run.
    Absent,
    /// It is there, and its history cannot be read: it has findings of its own.
    Damaged,
    /// Its generation is over.
    Final,
    /// It goes on, and works for this attempt of its parent, if it has one.
    Open(Option<ParentAttempt>),
}

/// What to do about a run that nothing moves.
const STANDS_STILL: &str = "cancel the run, or pause and unpause it so that it looks for work again; keep a copy of the store and report \
     this as a bug";

/// Finds units of an open run that nothing would advance, and of a final run what should be gone.
pub fn check_movers(
    run: &Run,
    flow: &Flow,
    by_user: bool,
    neighbours: &mut dyn Neighbours,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    check_parent(run, by_user, neighbours, findings)?;
    if run.is_final() {
        check_final(run, flow, findings);
        return Ok(());
    }
    let has_children = check_children(run, flow, neighbours, findings)?;
    for step in flow.step_indices().filter(|step| run.can_schedule() && should_have_begun(run, flow, *step)) {
        let what = format!("step `{}` could start but has not started", flow.step(step).id);
        findings.push(Finding::new(Promise::Moved, run.id.to_string(), what, STANDS_STILL));
    }
    let is_moved = !wakeups(run, flow).is_empty()
        || run.paused.is_some()
        || matches!(slot_claim(run, flow), SlotClaim::Wants { .. })
        || has_children
        || !run.units_where(waits_for_outside).is_empty();
    if !is_moved {
        let state = run.state().word();
        let what = format!(
            "it is stuck in state `{state}`: no timer, queue entry, attempt, notice or person would move it"
        );
        findings.push(Finding::new(Promise::Moved, run.id.to_string(), what, STANDS_STILL));
    }
    Ok(())
}

/// Checks that a final run has no wakeups and no open steps.
fn check_final(run: &Run, flow: &Flow, findings: &mut Vec<Finding>) {
    let open = flow.step_indices().find(|step| !run.step(*step).is_final());
    if let Some(step) = open {
        let state = run.state().word();
        let what = format!("it is {state}, but step `{}` has not ended", flow.step(step).id);
        findings.push(Finding::new(Promise::Final, run.id.to_string(), what, REPORT));
    }
}

/// Returns whether something outside of the store advances the unit: a worker, an operator, or a signal.
fn waits_for_outside(unit: &Unit) -> bool {
    match &unit.state {
        UnitState::Held { .. } | UnitState::Error { .. } => true,
        UnitState::Waiting(Waiting::Signal { .. }) => true,
        UnitState::Active(live) => !matches!(live.doing, AttemptPhase::Child { .. }),
        UnitState::Pending
        | UnitState::Ready(_)
        | UnitState::Waiting(Waiting::Again { .. } | Waiting::Timer { .. })
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => false,
    }
}

/// Returns whether a step has nothing left to wait for, but was not entered or has not launched all items it could.
fn should_have_begun(run: &Run, flow: &Flow, place: StepIndex) -> bool {
    let step = flow.step(place);
    match run.step(place) {
        StepRun::Single(Unit { state: UnitState::Pending, .. }) => {
            step.node.needs.iter().all(|need| run.step(*need).unblocks_dependents())
        }
        // What nobody takes from a queue begins as soon as the run may go on.
        StepRun::Single(Unit { state: UnitState::Ready(_), .. }) => step.queue.is_empty(),
        StepRun::Single(_) => false,
        StepRun::Items(items) => {
            let parallel = step.node.for_each.as_ref().map_or(1, |each| each.parallel);
            matches!(items.end, ItemsEnd::Open)
                && items.in_motion < parallel
                && items.items_to_launch().next().is_some()
        }
    }
}

/// A child or handler that a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The step or item that waits; the run itself waits for its handler.
    pub unit: Option<UnitRef>,
    pub child: Option<RunId>,
    /// The attempt that it works for.
    pub serves: ParentAttempt,
}

/// Lists the children and the handler that a run waits for.
pub fn awaited(run: &Run) -> Vec<Awaited> {
    let generation = run.generation;
    let mut awaited = Vec::new();
    run.each_unit(|unit, state| {
        if let Some(live) = state.state.live()
            && matches!(live.doing, AttemptPhase::Child { .. })
        {
            let serves = ParentAttempt { generation, attempt: live.attempt };
            awaited.push(Awaited { unit: Some(unit), child: state.child, serves });
        }
    });
    if let Phase::Failing(Failing { handler: Some(Handler { run: Some(handler), .. }), .. }) = &run.phase {
        let serves = ParentAttempt { generation, attempt: 0 };
        awaited.push(Awaited { unit: None, child: Some(*handler), serves });
    }
    awaited
}

/// Checks that each awaited child, and the handler, exists and will report its end. Returns whether there is one.
fn check_children(
    run: &Run,
    flow: &Flow,
    neighbours: &mut dyn Neighbours,
    findings: &mut Vec<Finding>,
) -> Result<bool, StoreError> {
    let awaited = awaited(run);
    for Awaited { unit, child, serves } in &awaited {
        let who = unit.map_or("the run".to_owned(), |unit| format!("step `{}`", unit_name(flow, unit)));
        let what = match child {
            None => format!("{who} waits for a child, but which one is not recorded"),
            Some(child) if will_notify_parent(run.id, *child, *serves, neighbours)? => continue,
            Some(child) => format!(
                "{who} waits forever for {child}, which does not exist, has ended or works for another attempt; no \
                 notice about it is on its way"
            ),
        };
        findings.push(Finding::new(Promise::Child, run.id.to_string(), what, STANDS_STILL));
    }
    Ok(!awaited.is_empty())
}

/// Returns whether a child will report its end for this attempt: it is open and knows the attempt, or its notice is
/// under way.
fn will_notify_parent(
    parent: RunId,
    child: RunId,
    wanted: ParentAttempt,
    neighbours: &mut dyn Neighbours,
) -> Result<bool, StoreError> {
    let starts = |body: &NoticeBody| match body {
        NoticeBody::StartChild(start) => start.origin.serves() == Some(wanted),
        NoticeBody::ContinueChild { serves, .. } => *serves == wanted,
        NoticeBody::CancelChild { .. }
        | NoticeBody::PauseChild
        | NoticeBody::UnpauseChild
        | NoticeBody::AmendChild { .. }
        | NoticeBody::ChildChanged { .. }
        | NoticeBody::ChildEnded { .. }
        | NoticeBody::TargetEnded { .. } => false,
    };
    let ends = |body: &NoticeBody| match body {
        NoticeBody::ChildEnded { child: ended, .. } => {
            ended.run == child && ended.origin.serves() == Some(wanted)
        }
        NoticeBody::StartChild(_)
        | NoticeBody::ContinueChild { .. }
        | NoticeBody::CancelChild { .. }
        | NoticeBody::PauseChild
        | NoticeBody::UnpauseChild
        | NoticeBody::AmendChild { .. }
        | NoticeBody::ChildChanged { .. }
        | NoticeBody::TargetEnded { .. } => false,
    };
    if neighbours.notices_to(child).iter().any(starts) || neighbours.notices_to(parent).iter().any(ends) {
        return Ok(true);
    }
    Ok(match neighbours.neighbour(child)? {
        Neighbour::Open(serves) => serves == Some(wanted),
        Neighbour::Damaged => true,
        Neighbour::Absent | Neighbour::Final => false,
    })
}

/// Checks that the parent of a child exists and waits for it, unless the parent has told it to end, or a person has
/// started it again.
fn check_parent(
    run: &Run,
    by_user: bool,
    neighbours: &mut dyn Neighbours,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let Some(parent) = run.origin.parent() else { return Ok(()) };
    let known = neighbours.neighbour(parent)?;
    if known == Neighbour::Absent {
        let what = format!("its parent {parent} does not exist, so its result goes nowhere");
        let hint = "restore a copy of the store, let the run end, or cancel it";
        findings.push(Finding::new(Promise::Child, run.id.to_string(), what, hint));
        return Ok(());
    }
    let is_told = |body: &NoticeBody| match body {
        NoticeBody::CancelChild { serves } => run.origin.serves() == Some(*serves),
        NoticeBody::ContinueChild { .. } => true,
        NoticeBody::StartChild(_)
        | NoticeBody::PauseChild
        | NoticeBody::UnpauseChild
        | NoticeBody::AmendChild { .. }
        | NoticeBody::ChildChanged { .. }
        | NoticeBody::ChildEnded { .. }
        | NoticeBody::TargetEnded { .. } => false,
    };
    if run.is_final()
        || by_user
        || known == Neighbour::Damaged
        || neighbours.notices_to(run.id).iter().any(is_told)
        || neighbours.awaits(parent, run.id)? == run.origin.serves()
    {
        return Ok(());
    }
    let what = format!("its parent {parent} does not wait for it and has not cancelled it");
    let hint = "cancel this run if it is not needed; keep a copy of the store and report this as a bug";
    findings.push(Finding::new(Promise::Child, run.id.to_string(), what, hint));
    Ok(())
}
