//! What a worker is told about the attempt that it is given.

use std::sync::Arc;

use unstuck_api as api;
use unstuck_core::decide::unit_name;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, PastAttempt, ResumedBy, Worker};
use unstuck_core::model::flow::{Flow, Kind, Step};
use unstuck_core::model::recent::RECENT_ATTEMPTS;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{Unit, UnitRef, UnitState};
use unstuck_core::time::Time;

use super::attempt::outcome_error;
use super::{Loading, raw};
use crate::executor::Job;
use crate::token::Signer;

/// How many past attempts of its run come with an attempt at most.
pub const MAX_HISTORY: usize = RECENT_ATTEMPTS;

/// What the product of an attempt is made from, besides what every job has. Gathering it copies references; turning it into a
/// product makes the texts, on whatever thread needs them.
#[derive(Clone, Debug)]
pub struct JobDetails {
    pub key: Option<Arc<str>>,
    pub round: u32,
    pub resumed_by: Option<ResumedBy>,
    pub worker: Worker,
    /// Signs its token.
    pub signer: Signer,
    /// The attempts of the run that ended last, oldest first, with their units and generations.
    pub history: Vec<(UnitRef, u32, PastAttempt)>,
    /// The last attempt of the same unit, with its generation and what it last reported.
    pub previous: Option<(u32, PastAttempt, Option<Json>)>,
}

impl JobDetails {
    /// Gathers them from a run for an attempt that was handed to `worker`, with at most `history` past attempts.
    pub fn gather(
        run: &Run,
        attempt: AttemptId,
        worker: &Worker,
        signer: &Signer,
        history: usize,
        payload: Loading<'_>,
    ) -> JobDetails {
        let unit = run.unit(attempt.unit);
        let previous = unit.and_then(|unit| {
            let (generation, past) = attempts(run, unit).last()?;
            Some((generation, past.clone(), past.progress.as_ref().map(payload)))
        });
        JobDetails {
            key: run.key.clone(),
            round: unit.map_or(1, |unit| unit.round.number),
            resumed_by: unit.and_then(resumed_by),
            worker: worker.clone(),
            signer: signer.clone(),
            history: recent_attempts(run, history),
            previous,
        }
    }
}

impl Job {
    /// All that a worker is told about the attempt, where its job came with details.
    pub fn product(&self) -> Option<api::Product> {
        let details = self.details.as_deref()?;
        let Job { attempt, flow, .. } = self;
        Some(api::Product {
            run: attempt.run.to_string(),
            generation: attempt.generation,
            key: details.key.as_deref().map(str::to_owned),
            flow: flow.name.to_string(),
            step: unit_name(flow, attempt.unit),
            action: action(self.step()),
            attempt: attempt.attempt,
            round: details.round,
            resumed_by: details.resumed_by.map(|by| by.word().to_owned()),
            worker: details.worker.name.to_string(),
            incarnation: details.worker.incarnation,
            token: details.signer.sign(*attempt),
            input: raw(&self.input),
            deadline: self.deadline.map(Time::timestamp),
            history: details.history.iter().map(|past| past_attempt(flow, past)).collect(),
            previous: details.previous.as_ref().map(previous_attempt),
        })
    }

    /// Its token, where its job came with details.
    pub fn token(&self) -> Option<String> {
        self.details.as_deref().map(|details| details.signer.sign(self.attempt))
    }
}

/// The action; a step that names none is known by its id.
fn action(step: &Step) -> String {
    match &step.kind {
        Kind::Action(name) => name.to_string(),
        Kind::Process(_)
        | Kind::Http(_)
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

/// The attempts of the run that ended last, `most` of them, oldest first.
fn recent_attempts(run: &Run, most: usize) -> Vec<(UnitRef, u32, PastAttempt)> {
    if most == 0 {
        return Vec::new();
    }
    let all: Vec<_> = run.recent_attempts().collect();
    let skipped = all.len().saturating_sub(most);
    all.into_iter().skip(skipped).map(|(unit, generation, past)| (unit, generation, past.clone())).collect()
}

fn past_attempt(flow: &Flow, (unit, generation, past): &(UnitRef, u32, PastAttempt)) -> api::PastAttempt {
    api::PastAttempt {
        generation: *generation,
        step: unit_name(flow, *unit),
        attempt: past.attempt,
        state: past.outcome.word().to_owned(),
        started_at: past.started_at.map(Time::timestamp),
        ended_at: past.ended_at.timestamp(),
        worker: past.worker.as_ref().map(|worker| worker.name.to_string()),
        error: outcome_error(&past.outcome),
    }
}

fn previous_attempt((generation, past, progress): &(u32, PastAttempt, Option<Json>)) -> api::Previous {
    api::Previous {
        generation: *generation,
        attempt: past.attempt,
        state: past.outcome.word().to_owned(),
        error: outcome_error(&past.outcome),
        progress: progress.as_ref().map(raw),
    }
}
