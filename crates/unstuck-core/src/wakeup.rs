//! Wakeups: what will move a run next, derived from its state: attempts to dispatch, and times at which something is
//! due.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::eligible::{Demand, Entry};
use crate::id::{FlowId, RunId};
use crate::model::attempt::{StuckLimit, Worker};
use crate::model::flow::{Flow, Kind, Step};
use crate::model::recovery::Limits;
use crate::model::run::{Phase, Run};
use crate::model::unit::{AttemptPhase, LiveAttempt, QueuedAttempt, Unit, UnitRef, UnitState, Waiting};
use crate::time::{Millis, Time};

/// What will move a unit, or the run itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// The attempt that may be handed out.
    pub ready: Option<ReadyAttempt>,
    /// When something is due.
    pub due: Option<Time>,
}

/// An attempt that may be handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyAttempt {
    pub run: RunId,
    pub unit: UnitRef,
    /// The flow version, for taking turns.
    pub flow: FlowId,
    /// Who may take it.
    pub queue: Arc<str>,
    /// Higher first.
    pub priority: i32,
    /// Before all attempts that were queued normally.
    pub front: bool,
    /// Since when; the oldest first.
    pub since: Time,
    /// How much of a worker it takes.
    pub load: u32,
    /// Only for a worker that runs nothing else.
    pub alone: bool,
}

impl ReadyAttempt {
    /// Returns what eligibility is checked on.
    pub fn entry(&self) -> Entry<'_> {
        Entry { queue: &self.queue, demand: self.demand(), priority: self.priority }
    }

    pub fn demand(&self) -> Demand {
        Demand { load: self.load, alone: self.alone }
    }
}

/// Derives the wakeup of one unit, or of the run itself (`None`).
pub fn wakeup(run: &Run, flow: &Flow, unit: Option<UnitRef>) -> Wakeup {
    match unit {
        None => Wakeup { ready: None, due: active_deadline(run) },
        Some(unit) => match run.unit(unit) {
            None => Wakeup::default(),
            Some(state) => unit_wakeup(run, flow, unit, state),
        },
    }
}

/// Derives all wakeups of a run; empty ones are left out.
pub fn wakeups(run: &Run, flow: &Flow) -> Vec<(Option<UnitRef>, Wakeup)> {
    let mut all = vec![(None, wakeup(run, flow, None))];
    run.each_unit(|unit, state| all.push((Some(unit), unit_wakeup(run, flow, unit, state))));
    all.retain(|(_, wakeup)| *wakeup != Wakeup::default());
    all
}

/// Returns the deadline while it can still change the run.
fn active_deadline(run: &Run) -> Option<Time> {
    match &run.phase {
        Phase::Going => run.deadline,
        // Active attempts end at the deadline; a handler is exempt from it.
        Phase::Failing(_) if run.has_active() => run.deadline,
        Phase::Failing(_) | Phase::Ended(_) => None,
    }
}

/// Derives the wakeup of a unit from its state: the attempt that can be dispatched, or the time of its limit, timer or
/// resume.
fn unit_wakeup(run: &Run, flow: &Flow, unit: UnitRef, state: &Unit) -> Wakeup {
    let step = flow.step(unit.step);
    let going = matches!(run.phase, Phase::Going) && run.paused.is_none();
    match &state.state {
        UnitState::Ready(queued) if going && run.slot.allows_progress() && !step.queue.is_empty() => {
            let ready = ReadyAttempt {
                run: run.id,
                unit,
                flow: run.flow,
                queue: Kind::queue_at(&step.queue, run.home.as_ref()),
                priority: run.priority.saturating_add(step.priority),
                front: queued.place.front,
                since: queued.since,
                load: step.load,
                alone: queued.place.alone,
            };
            Wakeup { ready: Some(ready), due: queue_timeout_at(step, queued) }
        }
        UnitState::Active(live) => {
            Wakeup { ready: None, due: first_limit(step, live, None).map(|(due, _)| due) }
        }
        UnitState::Waiting(waiting) if going => Wakeup { ready: None, due: waiting.due() },
        UnitState::Error { resume: Some(resume), .. } if going => {
            Wakeup { ready: None, due: Some(resume.due) }
        }
        UnitState::Ready(_)
        | UnitState::Waiting(Waiting::Again { .. } | Waiting::Timer { .. } | Waiting::Signal { .. })
        | UnitState::Pending
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => Wakeup::default(),
    }
}

/// Returns when a queued attempt reaches its `queueTimeout`.
pub fn queue_timeout_at(step: &Step, queued: &QueuedAttempt) -> Option<Time> {
    step.limits.queue_timeout.map(|limit| extended_due(queued.since + limit, queued.spared))
}

/// Returns the limit that a live attempt reaches first, and when. `heard` is a heartbeat that was not recorded as an
/// event.
pub fn first_limit(step: &Step, live: &LiveAttempt, heard: Option<Time>) -> Option<(Time, StuckLimit)> {
    let total = |from: Time| step.limits.timeout.map(|limit| (from + limit, StuckLimit::Total(limit)));
    match &live.doing {
        AttemptPhase::Dequeued { at, .. } => {
            let limit = step.limits.start_timeout;
            Some((extended_due(*at + limit, live.spared), StuckLimit::Start(limit)))
        }
        AttemptPhase::Working { worker, started_at, heard: recorded, .. } => {
            let heard = heard.map_or(*recorded, |heard| heard.max(*recorded));
            let lease = lease_duration(&step.limits, worker)
                .map(|limit| (extended_due(heard + limit, live.spared), StuckLimit::Heartbeat(limit)));
            [lease, total(*started_at)].into_iter().flatten().min_by_key(|(due, _)| *due)
        }
        AttemptPhase::Child { started_at, .. } => total(*started_at),
    }
}

/// Returns when a limit is reached, downtime included: `moved` is what an earlier downtime has extended it to.
pub(crate) fn extended_due(due: Time, moved: Option<Time>) -> Time {
    moved.map_or(due, |moved| moved.max(due))
}

/// Returns how long a worker may be silent. Local executors need no heartbeats unless the step asks for them, because
/// they live and die with the engine.
pub fn lease_duration(limits: &Limits, worker: &Worker) -> Option<Millis> {
    limits.heartbeat_timeout.or(if worker.local { None } else { Some(Limits::HEARTBEAT_TIMEOUT) })
}
