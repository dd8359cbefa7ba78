//! What a bulk action is about in a run, and what is asked of each of its targets.

use crate::bulk::{Acted, Bulk, BulkAction, BulkRef, BulkRerun, Target, TargetResult};
use crate::command::{Changes, Command, Rerun};
use crate::decide::{Answer, check_rerun, unit_name};
use crate::model::flow::Flow;
use crate::model::run::{Run, RunState};
use crate::model::unit::{Unit, UnitRef, UnitState, Waiting};
use crate::step_name::find_units;
use crate::time::Time;

/// What of a run that has in common what was selected is acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetScope {
    /// The run itself.
    Run,
    /// These steps and items of it.
    Units(Vec<UnitRef>),
    /// Nothing: in this run nothing can be done now, and whoever ordered it is told so.
    LeftOut,
    /// Nothing: it was not meant.
    NotMeant,
}

/// Which of what is open is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetFilter {
    /// Errors that somebody has acknowledged, too.
    pub acknowledged: bool,
    /// Only what needs a person: errors that no policy resumes, and held steps.
    pub needs_person: bool,
}

impl TargetFilter {
    /// Whether a unit in this state is meant.
    fn includes(self, state: &UnitState) -> bool {
        match state {
            UnitState::Error { resume, acknowledged, .. } => {
                (self.acknowledged || acknowledged.is_none()) && !(self.needs_person && resume.is_some())
            }
            UnitState::Held { .. } => true,
            UnitState::Pending
            | UnitState::Ready(_)
            | UnitState::Active(_)
            | UnitState::Waiting(_)
            | UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => !self.needs_person,
        }
    }
}

/// Whether somebody has to do something about this very run: one of its steps is held, or in error, with no policy that
/// resumes it and nobody who has acknowledged it.
pub fn needs_person(run: &Run) -> bool {
    let which = TargetFilter { acknowledged: false, needs_person: true };
    !run.is_final() && !run.units_where(|unit| which.includes(&unit.state)).is_empty()
}

/// What of a run is acted on that has in common what was selected. `by_state`: it was selected by its state too.
/// `flow` is its flow, unless that cannot be used any more.
pub fn target_scope(
    action: &BulkAction,
    run: &Run,
    flow: Option<&Flow>,
    which: TargetFilter,
    by_state: bool,
) -> TargetScope {
    let itself = |is_meant: bool| if is_meant { TargetScope::Run } else { TargetScope::NotMeant };
    match action {
        BulkAction::Cancel => itself(!run.is_final() && (!which.needs_person || needs_person(run))),
        BulkAction::Forget if run.is_final() => TargetScope::Run,
        BulkAction::Forget => TargetScope::LeftOut,
        BulkAction::Rerun { .. } => match run.state() {
            RunState::Failed => TargetScope::Run,
            RunState::Completed | RunState::Cancelled => itself(by_state),
            RunState::Queued
            | RunState::Running
            | RunState::Waiting
            | RunState::Error
            | RunState::Held
            | RunState::Paused
            | RunState::Superseded => {
                // Nobody looks for these by chance.
                if by_state { TargetScope::LeftOut } else { TargetScope::NotMeant }
            }
        },
        // What has ended is no concern of the others.
        _ if run.is_final() => TargetScope::NotMeant,
        BulkAction::Resume { .. } | BulkAction::Acknowledge | BulkAction::ApplyPolicies { .. } => units_or(
            run.units_where(|unit| in_error(unit) && which.includes(&unit.state)),
            TargetScope::NotMeant,
        ),
        BulkAction::Choose { step, .. } => {
            let is_meant = |unit: &UnitRef| {
                let is = |step| flow.is_some_and(|flow| is_named(flow, *unit, step));
                step.as_ref().is_none_or(|step| is(step))
            };
            let mut held = run.units_where(|unit| matches!(unit.state, UnitState::Held { .. }));
            held.retain(is_meant);
            units_or(held, TargetScope::NotMeant)
        }
        BulkAction::Signal { name, .. } => {
            let waits = |unit: &Unit| matches!(&unit.state, UnitState::Waiting(Waiting::Signal { name: wanted, .. }) if wanted == name);
            if run.units_where(waits).is_empty() { TargetScope::LeftOut } else { TargetScope::Run }
        }
        BulkAction::Skip { step } | BulkAction::Complete { step, .. } => {
            let id = step.split_once('[').map_or(&**step, |(id, _)| id);
            let Some(flow) = flow.filter(|flow| flow.find_step(id).is_some()) else {
                return TargetScope::NotMeant;
            };
            let mut units = find_units(run, flow, step).unwrap_or_default();
            let is_meant = |unit: &Unit| can_be_ended(&unit.state) && which.includes(&unit.state);
            units.retain(|unit| run.unit(*unit).is_some_and(is_meant));
            units_or(units, if which.needs_person { TargetScope::NotMeant } else { TargetScope::LeftOut })
        }
    }
}

fn units_or(units: Vec<UnitRef>, none: TargetScope) -> TargetScope {
    if units.is_empty() { none } else { TargetScope::Units(units) }
}

fn in_error(unit: &Unit) -> bool {
    matches!(unit.state, UnitState::Error { .. })
}

/// Whether it can be ended from outside.
fn can_be_ended(state: &UnitState) -> bool {
    matches!(
        state,
        UnitState::Error { .. } | UnitState::Held { .. } | UnitState::Waiting(_) | UnitState::Ready(_)
    )
}

/// Whether `name` is what people call this unit, or the step that it is an item of.
pub fn is_named(flow: &Flow, unit: UnitRef, name: &str) -> bool {
    let name_of = |unit| unit_name(flow, unit);
    name_of(unit) == name || name_of(UnitRef::step(unit.step)) == name
}

/// What is asked of a target, in the run as it is `now` and in its flow. Refused in a sentence where it cannot be.
pub fn command_for(
    bulk: &Bulk,
    target: &Target,
    run: &Run,
    flow: &Flow,
    now: Time,
) -> Result<Command, String> {
    let (by, reason) = (bulk.by.clone(), bulk.reason.clone());
    let own = Some(BulkRef { bulk: bulk.id, place: target.place });
    let in_error = || target.unit.ok_or("none of its steps was in error when the bulk action started");
    Ok(match &bulk.action {
        BulkAction::Resume { input, step_input } => {
            let (input, step_input) = (input.clone(), step_input.clone());
            let changes = Changes { input, step_input, bulk: own, ..Changes::default() };
            Command::Resume { unit: Some(in_error()?), by, reason, changes: Box::new(changes) }
        }
        BulkAction::Acknowledge => Command::Acknowledge { unit: Some(in_error()?), by, reason },
        BulkAction::Cancel => Command::Cancel { by, reason },
        BulkAction::Rerun { again, input, step_input } => {
            check_rerun(run, *again == BulkRerun::Continue).map_err(|refusal| refusal.to_string())?;
            let (input, step_input) = (input.clone(), step_input.clone());
            let changes = Changes { input, step_input, bulk: own, ..Changes::default() };
            Command::Rerun { what: steps_of(again, flow)?, changes: Box::new(changes), by }
        }
        BulkAction::Choose { choice, .. } => {
            let unit = target.unit.ok_or("none of its steps was held when the bulk action started")?;
            Command::Choose { unit, choice: *choice, by, bulk: own }
        }
        BulkAction::Signal { name, payload } => {
            Command::Signal { name: name.clone(), payload: payload.clone(), by }
        }
        BulkAction::Skip { step } => Command::Skip { unit: unit_of(target, run, flow, step)?, by, reason },
        BulkAction::Complete { step, output } => {
            let unit = unit_of(target, run, flow, step)?;
            Command::Complete { unit, output: output.clone(), by, reason }
        }
        BulkAction::Forget => return Err("forget is not a command of a run".to_owned()),
        BulkAction::ApplyPolicies { only } => {
            let after = bulk.turns.next_wait(bulk.pace.rate, now);
            Command::ApplyPolicies { unit: in_error()?, only: only.clone(), after, by }
        }
    })
}

/// What came of acting on the next target `now`, by what its run answered.
pub fn result_of(bulk: &Bulk, answer: Answer, now: Time) -> Acted {
    let already = |why: &str| TargetResult::Refused { why: why.into() };
    let result = match answer {
        Answer::Scheduled(at) => {
            // Whatever is planned for later by itself needs no turn.
            let takes_turn = at <= now + bulk.turns.next_wait(bulk.pace.rate, now);
            return Acted { result: TargetResult::Scheduled, takes_turn };
        }
        Answer::Unscheduled => TargetResult::Unscheduled,
        Answer::Done | Answer::Started(_) | Answer::Exists(_) => bulk.action.result_of_acting(),
        Answer::Already => match &bulk.action {
            BulkAction::ApplyPolicies { .. } => TargetResult::Unchanged,
            BulkAction::Acknowledge => already("it was already acknowledged"),
            BulkAction::Cancel => already("it was already cancelled"),
            BulkAction::Skip { .. } => already("it was already skipped"),
            BulkAction::Complete { .. } => already("it was already completed by hand"),
            BulkAction::Resume { .. }
            | BulkAction::Rerun { .. }
            | BulkAction::Choose { .. }
            | BulkAction::Signal { .. }
            | BulkAction::Forget => already("it is no longer in error"),
        },
    };
    result.into()
}

fn steps_of(again: &BulkRerun, flow: &Flow) -> Result<Rerun, String> {
    Ok(match again {
        BulkRerun::Continue => Rerun::Continue,
        BulkRerun::All => Rerun::All,
        BulkRerun::Steps(names) => {
            let find = |name: &std::sync::Arc<str>| {
                flow.find_step(name).ok_or_else(|| format!("flow `{}` has no step `{name}`", flow.name))
            };
            Rerun::Steps(names.iter().map(find).collect::<Result<_, _>>()?)
        }
    })
}

/// The unit of a target that goes by this name still: the run may have another version of its flow by now.
fn unit_of(target: &Target, run: &Run, flow: &Flow, name: &str) -> Result<UnitRef, String> {
    match target.unit {
        Some(unit) if is_named(flow, unit, name) => Ok(unit),
        Some(_) => Err(format!("its flow has a new version, in which `{name}` is another step")),
        None => match find_units(run, flow, name).map_err(|wrong| wrong.to_string())?.as_slice() {
            [unit] => Ok(*unit),
            _ => Err(format!("step `{name}` has several items: name one, as in `{name}[0]`")),
        },
    }
}
