//! What will move a run next, derived from its state: what may be handed out, and what is due when.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::evolve::gives_slot_back;
use crate::id::{FlowId, RunId};
use crate::model::attempt::{StuckLimit, Worker};
use crate::model::flow::{Flow, Kind, Step};
use crate::model::recovery::Limits;
use crate::model::run::{Limit, Phase, Run, Slot};
use crate::model::unit::{Doing, Live, Queued, Unit, UnitRef, UnitState, Waiting};
use crate::schedule::could_go_on;
use crate::time::{Millis, Time};

/// What will move one place of a run: a unit, or the run itself (`None`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// The attempt that may be handed out.
    pub ready: Option<Ready>,
    /// When something is due.
    pub due: Option<Time>,
}

/// An attempt that may be handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The run.
    pub run: RunId,
    /// The step or item.
    pub unit: UnitRef,
    /// The flow version, for taking turns.
    pub flow: FlowId,
    /// Who may take it.
    pub queue: Arc<str>,
    /// Higher first.
    pub priority: i32,
    /// Before all that came by itself.
    pub front: bool,
    /// Since when; the oldest first.
    pub since: Time,
    /// How much of a worker it takes.
    pub load: u32,
    /// Only for a worker that runs nothing else.
    pub alone: bool,
}

/// What a run has or wants of its flow's `concurrency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotUse {
    /// Nothing.
    None,
    /// It would go on if it had one.
    Wants {
        /// Which limit.
        limit: Limit,
        /// Higher first.
        priority: i32,
    },
    /// It has one.
    Has {
        /// Which limit.
        limit: Limit,
    },
}

/// The wakeup of one unit, or of the run itself.
pub fn wakeup(run: &Run, flow: &Flow, unit: Option<UnitRef>) -> Wakeup {
    match unit {
        None => Wakeup { ready: None, due: run_due(run) },
        Some(unit) => match run.unit(unit) {
            None => Wakeup::default(),
            Some(state) => unit_wakeup(run, flow, unit, state),
        },
    }
}

/// Every wakeup of a run that is not empty.
pub fn wakeups(run: &Run, flow: &Flow) -> Vec<(Option<UnitRef>, Wakeup)> {
    let mut all = vec![(None, wakeup(run, flow, None))];
    run.each_unit(|unit, state| all.push((Some(unit), unit_wakeup(run, flow, unit, state))));
    all.retain(|(_, wakeup)| *wakeup != Wakeup::default());
    all
}

/// What the run has or wants of its limit.
pub fn slot_use(run: &Run, flow: &Flow) -> SlotUse {
    match &run.slot {
        Slot::Unlimited => SlotUse::None,
        Slot::Taken(limit) => SlotUse::Has { limit: limit.clone() },
        Slot::Wanted(limit) if wants_to_go_on(run, flow, limit) => {
            SlotUse::Wants { limit: limit.clone(), priority: run.priority }
        }
        Slot::Wanted(_) => SlotUse::None,
    }
}

/// Whether a run without a slot would do something, and keep the slot, if it had one.
fn wants_to_go_on(run: &Run, flow: &Flow, limit: &Limit) -> bool {
    if !matches!(run.phase, Phase::Going) || run.paused.is_some() {
        return false;
    }
    could_go_on(run, flow) || !gives_slot_back(run.state_with_slot(), limit)
}

fn run_due(run: &Run) -> Option<Time> {
    match &run.phase {
        Phase::Going => run.deadline,
        // What is still active ends at the deadline; a handler is exempt from it.
        Phase::Failing(_) if run.has_active() => run.deadline,
        Phase::Failing(_) | Phase::Ended(_) => None,
    }
}

fn unit_wakeup(run: &Run, flow: &Flow, unit: UnitRef, state: &Unit) -> Wakeup {
    let step = flow.step(unit.step);
    let going = matches!(run.phase, Phase::Going) && run.paused.is_none();
    match &state.state {
        UnitState::Ready(queued) if going && run.slot.lets_go_on() && !step.queue.is_empty() => {
            let ready = Ready {
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
            Wakeup { ready: Some(ready), due: queue_limit(step, queued) }
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

/// When a queued attempt has waited for too long.
pub fn queue_limit(step: &Step, queued: &Queued) -> Option<Time> {
    step.limits.queue_timeout.map(|limit| spared(queued.since + limit, queued.spared))
}

/// The first limit that an attempt under way will run into, and when. `heard` is a heartbeat that was no event.
pub fn first_limit(step: &Step, live: &Live, heard: Option<Time>) -> Option<(Time, StuckLimit)> {
    let total = |from: Time| step.limits.timeout.map(|limit| (from + limit, StuckLimit::Total(limit)));
    match &live.doing {
        Doing::Dequeued { at, .. } => {
            let limit = step.limits.start_timeout;
            Some((spared(*at + limit, live.spared), StuckLimit::Start(limit)))
        }
        Doing::Working { worker, started_at, heard: recorded, .. } => {
            let heard = heard.map_or(*recorded, |heard| heard.max(*recorded));
            let lease = lease(&step.limits, worker)
                .map(|limit| (spared(heard + limit, live.spared), StuckLimit::Heartbeat(limit)));
            [lease, total(*started_at)].into_iter().flatten().min_by_key(|(due, _)| *due)
        }
        Doing::Child { started_at, .. } => total(*started_at),
    }
}

/// A limit, or what downtime has moved it to.
pub(crate) fn spared(due: Time, moved: Option<Time>) -> Time {
    moved.map_or(due, |moved| moved.max(due))
}

/// How long a worker may be silent. One of this process holds its lease as long as it lives, unless the step
/// asks for signs of life.
pub fn lease(limits: &Limits, worker: &Worker) -> Option<Millis> {
    limits.heartbeat_timeout.or(if worker.local { None } else { Some(Limits::HEARTBEAT_TIMEOUT) })
}
