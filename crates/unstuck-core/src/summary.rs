//! What a list tells of a run: made from its state, small, and the same whatever the run is made of.

use std::sync::Arc;

use crate::bulk::needs_person;
use crate::home::{Homes, run_has_work};
use crate::id::{FlowId, RunId};
use crate::model::run::{Attention, Phase, Run, RunOutcome, RunState};
use crate::model::unit::{AutoResume, UnitState};
use crate::policy::PolicyRef;
use crate::time::Time;

/// A run, as lists tell it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    pub id: RunId,
    /// The version of its flow.
    pub flow: FlowId,
    pub key: Option<Arc<str>>,
    pub generation: u32,
    /// The number of its last event.
    pub seq: u64,
    pub state: RunState,
    /// Which of `error` and `held` its steps are in.
    pub attention: Attention,
    /// The run that it is a child or handler of.
    pub parent: Option<RunId>,
    /// Whether it will fail, and its handler comes first.
    pub is_failing: bool,
    /// The exception handler of a failing run, once started.
    pub handler: Option<RunId>,
    pub home: Option<Arc<str>>,
    /// Whether it has something to do, for whoever drives its home.
    pub has_work: bool,
    /// Whether somebody has to do something about this very run.
    pub needs_person: bool,
    pub created_at: Time,
    pub updated_at: Time,
    /// What it fails of, or why its first step that is at rest is.
    pub cause: Option<Arc<str>>,
    /// What a policy resumes first: when, and which policy.
    pub next_resume: Option<(Time, PolicyRef)>,
}

impl RunSummary {
    pub fn of(run: &Run) -> RunSummary {
        RunSummary {
            id: run.id,
            flow: run.flow,
            key: run.key.clone(),
            generation: run.generation,
            seq: run.seq,
            state: run.state(),
            attention: run.attention(),
            parent: run.origin.parent(),
            is_failing: matches!(run.phase, Phase::Failing(_)),
            handler: handler(run),
            home: run.home.clone(),
            has_work: run_has_work(run),
            needs_person: needs_person(run),
            created_at: run.created_at,
            updated_at: run.updated_at,
            cause: cause(run),
            next_resume: next_resume(run).map(|resume| (resume.due, resume.policy)),
        }
    }

    pub fn is_final(&self) -> bool {
        self.state.is_final()
    }

    /// Whether it is idle where these homes are driven (see [`is_idle`](crate::home::is_idle)).
    pub fn is_idle(&self, homes: &Homes) -> bool {
        self.has_work && !homes.drives(self.home.as_ref())
    }
}

fn handler(run: &Run) -> Option<RunId> {
    let Phase::Failing(failing) = &run.phase else { return None };
    failing.handler.as_ref()?.run
}

fn cause(run: &Run) -> Option<Arc<str>> {
    match &run.phase {
        Phase::Failing(failing) => return Some(failing.error.error.cause.clone()),
        Phase::Ended(ended) => {
            return match &ended.how {
                RunOutcome::Failed { error, .. } => Some(error.error.cause.clone()),
                RunOutcome::Cancelled { reason } => reason.clone(),
                RunOutcome::Completed { .. } | RunOutcome::Superseded { .. } => None,
            };
        }
        Phase::Going => {}
    }
    let mut found = None;
    run.each_unit(|_, unit| {
        let rests = matches!(unit.state, UnitState::Held { .. } | UnitState::Error { .. });
        if found.is_none() && rests {
            found = unit.last_error().map(|error| error.cause.clone());
        }
    });
    found
}

fn next_resume(run: &Run) -> Option<AutoResume> {
    let mut first: Option<AutoResume> = None;
    if run.is_final() {
        return None;
    }
    run.each_unit(|_, unit| {
        if let UnitState::Error { resume: Some(resume), .. } = &unit.state
            && first.as_ref().is_none_or(|first| resume.due < first.due)
        {
            first = Some(resume.clone());
        }
    });
    first
}
