//! What a worker is told about the attempt that it is given.

use unstuck_api as api;
use unstuck_core::decide::unit_name;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, PastAttempt, ResumedBy, Worker};
use unstuck_core::model::flow::{Flow, Kind, Step};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{StepRun, Unit, UnitRef, UnitState};
use unstuck_core::time::Time;

use super::attempt::outcome_error;
use super::{Loading, raw};

/// So many attempts of the run are told; the rest is a call away.
const HISTORY: usize = 20;

/// The product of an attempt that was handed to `worker`.
pub fn product(
    run: &Run,
    flow: &Flow,
    attempt: AttemptId,
    worker: &Worker,
    token: String,
    input: &Json,
    payload: Loading<'_>,
) -> api::Product {
    let step = flow.step(attempt.unit.step);
    let unit = run.unit(attempt.unit);
    api::Product {
        run: run.id.to_string(),
        generation: attempt.generation,
        key: run.key.as_deref().map(str::to_owned),
        flow: flow.name.to_string(),
        step: unit_name(flow, attempt.unit),
        action: action(step),
        attempt: attempt.attempt,
        round: unit.map_or(1, |unit| unit.round.number),
        resumed_by: unit.and_then(resumed_by).map(|by| by.word().to_owned()),
        worker: worker.name.to_string(),
        incarnation: worker.incarnation,
        token,
        input: raw(input),
        deadline: run.deadline.map(Time::timestamp),
        history: history(run, flow),
        previous: unit.and_then(|unit| {
            let (generation, past) = attempts(run, unit).last()?;
            Some(previous(generation, past, payload))
        }),
    }
}

/// The action; a step that names none is known by its id.
fn action(step: &Step) -> String {
    match &step.kind {
        Kind::Action(name) => name.to_string(),
        Kind::Process(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Set(_)
        | Kind::Emulate(_) => step.id.to_string(),
    }
}

fn resumed_by(unit: &Unit) -> Option<ResumedBy> {
    match &unit.state {
        UnitState::Ready(queued) => queued.resumed_by,
        UnitState::Active(live) => live.resumed_by,
        UnitState::Pending
        | UnitState::Waiting(_)
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => None,
    }
}

/// The attempts of a unit with their generations, oldest first.
fn attempts<'a>(run: &Run, unit: &'a Unit) -> impl Iterator<Item = (u32, &'a PastAttempt)> + use<'a> {
    let generation = run.generation;
    let earlier = unit.earlier.iter().map(|earlier| (earlier.generation, &earlier.past));
    earlier.chain(unit.past.iter().map(move |past| (generation, past)))
}

/// The attempts of the run that ended last, oldest first; over the generations, where this one continues them.
fn history(run: &Run, flow: &Flow) -> Vec<api::PastAttempt> {
    let mut all: Vec<(UnitRef, u32, &PastAttempt)> = Vec::new();
    // What a fan-out has tried itself, before its list was known.
    for (place, step) in flow.step_indices().zip(&run.steps) {
        if let StepRun::Items(items) = step {
            let own = items.earlier.iter();
            all.extend(own.map(|earlier| (UnitRef::step(place), earlier.generation, &earlier.past)));
        }
    }
    run.each_unit(|unit, state| {
        all.extend(attempts(run, state).map(|(generation, past)| (unit, generation, past)));
    });
    all.sort_by_key(|(unit, generation, past)| (*generation, past.ended_at, *unit, past.attempt));
    let last = all.len().saturating_sub(HISTORY);
    let attempts = all[last..].iter().map(|(unit, generation, past)| api::PastAttempt {
        generation: *generation,
        step: unit_name(flow, *unit),
        attempt: past.attempt,
        state: past.outcome.word().to_owned(),
        started_at: past.started_at.map(Time::timestamp),
        ended_at: past.ended_at.timestamp(),
        worker: past.worker.as_ref().map(|worker| worker.name.to_string()),
        error: outcome_error(&past.outcome),
    });
    attempts.collect()
}

fn previous(generation: u32, past: &PastAttempt, payload: Loading<'_>) -> api::Previous {
    api::Previous {
        generation,
        attempt: past.attempt,
        state: past.outcome.word().to_owned(),
        error: outcome_error(&past.outcome),
        progress: past.progress.as_ref().map(|progress| raw(&payload(progress))),
    }
}
