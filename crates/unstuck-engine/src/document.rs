//! From the model to the wire: the run document, the product of an attempt, an explanation.

mod attempt;
mod explanation;
mod product;

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use unstuck_api as api;
use unstuck_core::decide::unit_name;
use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::explain::why_still_queued;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::error::{Error, RunError};
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::labels::all_labels;
use unstuck_core::model::run::{Phase, Run, RunOutcome};
use unstuck_core::model::unit::{AutoResume, Items, StepRun, Unit, UnitRef, UnitState};
use unstuck_core::reason;
use unstuck_core::time::Time;

pub use explanation::{explanation, policies_paused};
pub use product::{JobDetails, MAX_HISTORY};

/// How the text of a payload is found.
pub type Loading<'a> = &'a mut dyn FnMut(&Payload) -> Json;

/// The run document, everywhere the same. `history` starts with the run's first event.
pub fn run_document(run: &Run, flow: &Flow, history: &[Event], payload: Loading<'_>) -> api::Run {
    run_document_with(run, flow, history, usize::MAX, payload)
}

/// The same with the first `most` items of each `forEach`.
pub fn run_document_with(
    run: &Run,
    flow: &Flow,
    history: &[Event],
    most: usize,
    payload: Loading<'_>,
) -> api::Run {
    let units = UnitDocuments::new(run, flow, history);
    let mut steps = Vec::new();
    for (place, step) in flow.step_indices().zip(&run.steps) {
        match step {
            StepRun::Single(unit) => steps.push(units.unit(UnitRef::step(place), unit, payload)),
            StepRun::Items(items) => {
                steps.push(fan_out_document(flow, place, step, items, payload));
                for (item, unit) in items.units.iter().take(most) {
                    steps.push(units.unit(UnitRef::item(place, *item), unit, payload));
                }
            }
        }
    }
    let resume = first_resume(run);
    api::Run {
        id: run.id.to_string(),
        generation: run.generation,
        flow: flow.name.to_string(),
        version: flow.version.to_string(),
        key: run.key.as_deref().map(str::to_owned),
        labels: all_labels(run.labels.as_deref(), &flow.labels),
        parent: run.origin.parent().map(|parent| parent.to_string()),
        root: None,
        priority: run.priority,
        deadline: run.deadline.map(Time::timestamp),
        by: history.first().and_then(|first| user_name(&first.by)),
        state: run.state().word().to_owned(),
        idle: false,
        go_on: None,
        set_aside: None,
        failing: matches!(run.phase, Phase::Failing(_)),
        handler: handler(run),
        input: raw(&payload(&run.input)),
        output: output_of(run).map(|output| raw(&payload(output))),
        created_at: run.created_at.timestamp(),
        updated_at: run.updated_at.timestamp(),
        error: open_error(run, flow),
        next_auto_resume: resume.as_ref().map(|resume| resume.due.timestamp()),
        next_auto_resume_reason: resume.map(|resume| resume.policy.name.to_string()),
        policies_paused: None,
        steps,
        decisions: decisions(run, flow, history),
    }
}

/// What was decided in this generation: the numbers of attempts start again with each.
fn decisions(run: &Run, flow: &Flow, history: &[Event]) -> Vec<api::Decision> {
    let all = reason::list_decisions(flow, history).into_iter();
    all.filter(|decision| decision.generation == run.generation)
        .map(|decision| api::Decision {
            at: decision.at.timestamp(),
            step: decision.unit.map(|unit| unit_name(flow, unit)),
            attempt: decision.attempt,
            rung: decision.rung.word().to_owned(),
            rule: decision.rule,
            reason: decision.reason,
        })
        .collect()
}

/// Makes documents of the steps and items of a run.
pub struct UnitDocuments<'a> {
    run: &'a Run,
    flow: &'a Flow,
    /// Who acknowledged the error of a unit last: its state does not have it.
    acknowledged_by: BTreeMap<UnitRef, String>,
}

impl<'a> UnitDocuments<'a> {
    /// For a run; who acknowledged errors is found in its history.
    pub fn new(run: &'a Run, flow: &'a Flow, history: &[Event]) -> UnitDocuments<'a> {
        let mut acknowledged_by = BTreeMap::new();
        for event in history.iter().filter(|event| event.generation == run.generation) {
            for fact in &event.facts {
                if let Fact::Unit { unit, fact: UnitFact::Acknowledged { .. } } = fact
                    && let Some(by) = user_name(&event.by)
                {
                    acknowledged_by.insert(*unit, by);
                }
            }
        }
        UnitDocuments { run, flow, acknowledged_by }
    }

    /// The document of a step or item.
    pub fn unit(&self, unit: UnitRef, state: &Unit, payload: Loading<'_>) -> api::Step {
        let mut document = unit_document(self.flow, unit, state, payload);
        if let UnitState::Error { acknowledged: Some(acknowledged), .. } = &state.state {
            document.acknowledged = Some(api::Acknowledged {
                at: acknowledged.at.timestamp(),
                by: self.acknowledged_by.get(&unit).cloned(),
                reason: acknowledged.reason.as_deref().map(str::to_owned),
            });
        }
        if let UnitState::Ready(queued) = &state.state {
            document.waiting_for = Some(why_still_queued(self.run, self.flow.step(unit.step), queued));
        }
        document
    }
}

/// The name of whoever uses Unstuck; none for what the engine or a worker does.
fn user_name(by: &Actor) -> Option<String> {
    match by {
        Actor::User(name) => Some(name.to_string()),
        Actor::Engine | Actor::Worker => None,
    }
}

fn unit_document(flow: &Flow, unit: UnitRef, state: &Unit, payload: Loading<'_>) -> api::Step {
    let output = match &state.state {
        UnitState::Completed { output, .. } => Some(raw(&payload(output))),
        UnitState::Pending
        | UnitState::Ready(_)
        | UnitState::Active(_)
        | UnitState::Waiting(_)
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => None,
    };
    let resume = auto_resume(state);
    let step = flow.step(unit.step);
    api::Step {
        id: unit_name(flow, unit),
        action: Some(step.full_action.to_string()),
        action_type: step.action_type.as_deref().map(str::to_owned),
        state: state.state.word().to_owned(),
        waiting_for: None,
        acknowledged: None,
        items: None,
        output,
        error: unit_error(flow, unit, state),
        next_auto_resume: resume.map(|resume| resume.due.timestamp()),
        next_auto_resume_reason: resume.map(|resume| resume.policy.name.to_string()),
        rounds: rounds(state),
        child: state.child.map(|child| child.to_string()),
        attempts: attempt::attempts(state, payload),
    }
}

/// A fan-out as a whole; its items follow it.
fn fan_out_document(
    flow: &Flow,
    place: StepIndex,
    step: &StepRun,
    items: &Items,
    payload: Loading<'_>,
) -> api::Step {
    let first_error =
        items.units.iter().find_map(|(item, unit)| unit_error(flow, UnitRef::item(place, *item), unit));
    let definition = flow.step(place);
    api::Step {
        id: definition.id.to_string(),
        action: Some(definition.full_action.to_string()),
        action_type: definition.action_type.as_deref().map(str::to_owned),
        state: step.word().to_owned(),
        waiting_for: None,
        acknowledged: None,
        items: Some(items.total),
        output: step.output().map(|output| raw(&payload(output))),
        error: first_error,
        next_auto_resume: None,
        next_auto_resume_reason: None,
        rounds: items.units.values().map(rounds).max().unwrap_or(0),
        child: None,
        attempts: Vec::new(),
    }
}

/// How many rounds a unit has had: none before it begins.
fn rounds(unit: &Unit) -> u32 {
    if unit.attempts == 0 && matches!(unit.state, UnitState::Pending | UnitState::Skipped { .. }) {
        return 0;
    }
    unit.round.number
}

fn output_of(run: &Run) -> Option<&Payload> {
    match &run.phase {
        Phase::Ended(ended) => match &ended.how {
            RunOutcome::Completed { output } => Some(output),
            RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. } | RunOutcome::Superseded { .. } => None,
        },
        Phase::Going | Phase::Failing(_) => None,
    }
}

/// The exception handler of a run that is failing, or has failed.
fn handler(run: &Run) -> Option<api::Handler> {
    match &run.phase {
        Phase::Going => None,
        Phase::Failing(failing) => failing.handler.as_ref().map(|handler| api::Handler {
            flow: Some(handler.flow.to_string()),
            run: handler.run.map(|run| run.to_string()),
            state: handler.run.map(|_| handler.state.word().to_owned()),
            error: None,
        }),
        Phase::Ended(ended) => match &ended.how {
            RunOutcome::Failed { handler: Some((run, error)), .. } => Some(api::Handler {
                flow: None,
                run: Some(run.to_string()),
                state: Some(if error.is_some() { "failed" } else { "completed" }.to_owned()),
                error: error.as_ref().map(|error| attempt::error_document(&error.error)),
            }),
            RunOutcome::Failed { handler: None, .. }
            | RunOutcome::Completed { .. }
            | RunOutcome::Cancelled { .. }
            | RunOutcome::Superseded { .. } => None,
        },
    }
}

/// The first open error: the one that the run fails of, else that of the first step that is held or in error.
pub fn open_error(run: &Run, flow: &Flow) -> Option<api::Error> {
    let failed = match &run.phase {
        Phase::Failing(failing) => Some(&failing.error),
        Phase::Ended(ended) => match &ended.how {
            RunOutcome::Failed { error, .. } => Some(&**error),
            RunOutcome::Completed { .. } | RunOutcome::Cancelled { .. } | RunOutcome::Superseded { .. } => {
                return None;
            }
        },
        Phase::Going => None,
    };
    if let Some(failed) = failed {
        return Some(run_error(run, flow, failed));
    }
    let mut found = None;
    run.each_unit(|unit, state| {
        let rests = matches!(state.state, UnitState::Held { .. } | UnitState::Error { .. });
        if found.is_none() && rests {
            found = unit_error(flow, unit, state);
        }
    });
    found
}

/// The error that a run fails of.
fn run_error(run: &Run, flow: &Flow, failed: &RunError) -> api::Error {
    let attempts = failed.place().and_then(|unit| run.unit(unit)).map(|unit| unit.attempts);
    full_error(flow, failed.place(), &failed.error, attempts)
}

/// What resumes a unit by itself.
fn auto_resume(state: &Unit) -> Option<&AutoResume> {
    if let UnitState::Error { resume, .. } = &state.state { resume.as_ref() } else { None }
}

/// The earliest automatic resume in a run.
fn first_resume(run: &Run) -> Option<AutoResume> {
    let mut first: Option<AutoResume> = None;
    run.each_unit(|_, state| {
        if let Some(resume) = auto_resume(state)
            && first.as_ref().is_none_or(|first| resume.due < first.due)
        {
            first = Some(resume.clone());
        }
    });
    first
}

/// The error of a unit's last attempt, while that is open.
fn unit_error(flow: &Flow, unit: UnitRef, state: &Unit) -> Option<api::Error> {
    match &state.state {
        UnitState::Held { .. } | UnitState::Error { .. } | UnitState::Failed { .. } => {
            let error = state.last_error()?;
            Some(full_error(flow, Some(unit), error, Some(state.attempts)))
        }
        UnitState::Pending
        | UnitState::Ready(_)
        | UnitState::Active(_)
        | UnitState::Waiting(_)
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => None,
    }
}

/// An error with where it arose: its step and the action of that.
fn full_error(flow: &Flow, unit: Option<UnitRef>, error: &Error, attempts: Option<u32>) -> api::Error {
    let step = unit.map(|unit| flow.step(unit.step));
    let plain = attempt::error_document(error);
    api::Error {
        step: unit.map(|unit| unit_name(flow, unit)),
        action: step.map(|step| step.full_action.to_string()),
        action_type: step.and_then(|step| step.action_type.as_deref()).map(str::to_owned),
        attempts,
        ..plain
    }
}

/// JSON as it travels: text that is checked and kept as it came.
fn raw(json: &Json) -> Box<RawValue> {
    RawValue::from_string(json.text().to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
