//! What a list tells of a run: made from its state, small, and the same whatever the run is made of.

use std::sync::Arc;

use crate::bulk::needs_person;
use crate::home::{Homes, run_has_work};
use crate::id::{FlowId, RunId};
use crate::model::flow::StepIndex;
use crate::model::labels::Labels;
use crate::model::run::{Attention, Phase, Run, RunOutcome, RunState};
use crate::model::unit::{AttemptPhase, AutoResume, Unit, UnitState};
use crate::policy::PolicyRef;
use crate::time::Time;

/// A run, as lists tell it.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one answer about the run, and none excludes another"
)]
pub struct RunSummary {
    pub id: RunId,
    /// The version of its flow.
    pub flow: FlowId,
    pub key: Option<Arc<str>>,
    /// Its own labels, without those of its flow.
    pub labels: Option<Arc<Labels>>,
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
    /// Whether a step in error was acknowledged.
    pub has_acknowledged: bool,
    /// The steps with an attempt that is queued, active or in error, in order.
    pub open_steps: Vec<StepIndex>,
    /// Those that hold an attempt now, by name, each once.
    pub workers: Vec<Arc<str>>,
}

impl RunSummary {
    pub fn of(run: &Run) -> RunSummary {
        let open = OpenWork::of(run);
        RunSummary {
            id: run.id,
            flow: run.flow,
            key: run.key.clone(),
            labels: run.labels.clone(),
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
            has_acknowledged: open.has_acknowledged,
            open_steps: open.steps,
            workers: open.workers,
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

/// What is open in a run that is not final.
#[derive(Default)]
struct OpenWork {
    has_acknowledged: bool,
    steps: Vec<StepIndex>,
    workers: Vec<Arc<str>>,
}

impl OpenWork {
    fn of(run: &Run) -> OpenWork {
        let mut open = OpenWork::default();
        if run.is_final() {
            return open;
        }
        run.each_unit(|unit, state| {
            open.has_acknowledged |= is_acknowledged(state);
            if has_open_attempt(state) && open.steps.last() != Some(&unit.step) {
                open.steps.push(unit.step);
            }
            open.workers.extend(worker_of(state).cloned());
        });
        open.workers.sort_unstable();
        open.workers.dedup();
        open
    }
}

fn is_acknowledged(unit: &Unit) -> bool {
    matches!(&unit.state, UnitState::Error { acknowledged: Some(_), .. })
}

fn has_open_attempt(unit: &Unit) -> bool {
    matches!(&unit.state, UnitState::Ready(_) | UnitState::Active(_) | UnitState::Error { .. })
}

/// Returns the name of the worker that holds an attempt of this unit.
pub fn worker_of(unit: &Unit) -> Option<&Arc<str>> {
    match &unit.state.live()?.doing {
        AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } => Some(&worker.name),
        AttemptPhase::Child { .. } => None,
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
