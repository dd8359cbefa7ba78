//! Hands: an attempt is handed out once, after it is durable, to somebody who has room; who loses one is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::event::{Event, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{AttemptId, Cancelled, Outcome, StuckLimit, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{AttemptPhase, UnitRef, UnitState};

use super::leases::{stuck_by, worker_of};
use super::{Broken, Promise};

/// The name and the incarnation of a worker.
type WorkerKey = (Arc<str>, u64);

/// What is in whose hands.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    /// Recorded as handed out, and not handed out yet.
    to_dispatch: BTreeMap<AttemptId, ToDispatch>,
    /// Recorded as taken away, and its worker not told yet.
    to_interrupt: BTreeMap<AttemptId, ToInterrupt>,
    dispatched: BTreeSet<AttemptId>,
    /// How much each worker can have, as far as that was told.
    max_load: BTreeMap<WorkerKey, u32>,
    /// The session that each worker is connected to, where several servers share the store.
    connected: BTreeMap<WorkerKey, u64>,
    /// What each worker of this process has: the load, and whether it must be alone.
    has: BTreeMap<WorkerKey, BTreeMap<AttemptId, (u32, bool)>>,
}

/// An attempt that a session has to hand out.
#[derive(Debug)]
struct ToDispatch {
    worker: Worker,
    load: u32,
    alone: bool,
    session: u64,
    /// The number of the event that says so.
    seq: u64,
}

/// An attempt whose worker a session has to tell that it is taken away.
#[derive(Debug)]
struct ToInterrupt {
    worker: Worker,
    session: u64,
    /// The number of the event that says so.
    seq: u64,
}

impl Assignments {
    /// A worker comes to another server, with what it has.
    pub(super) fn moved(&mut self, worker: &Worker, session: u64) {
        self.has.remove(&who(worker));
        self.connected.insert(who(worker), session);
    }

    /// The server with this session died, and its executors with it; what it was about to tell is not told.
    pub(super) fn died(&mut self, session: u64) {
        self.to_dispatch.retain(|_, entry| entry.session != session);
        self.to_interrupt.retain(|_, entry| entry.session != session);
    }

    /// The session that has to hand out an attempt has stepped since that is durable: it has, and who has lost one is told.
    /// Where another server has taken it away, that is in the store until this one loads something, as it has when it
    /// `is_quiet`: it may have to wait for the store before. Events that are `unknown` are durable, and it does not know.
    pub(super) fn check_done_by(
        &self,
        session: u64,
        is_quiet: bool,
        unknown: &BTreeSet<(RunId, u64)>,
    ) -> Result<(), Broken> {
        let is_known = |id: &AttemptId, seq: u64| !unknown.contains(&(id.run, seq));
        let is_due =
            |(id, entry): &(&AttemptId, &ToDispatch)| entry.session == session && is_known(id, entry.seq);
        let dispatch = self.to_dispatch.iter().find(is_due);
        let is_due = |(id, entry): &(&AttemptId, &ToInterrupt)| {
            is_quiet && entry.session == session && is_known(id, entry.seq)
        };
        let interrupt = self.to_interrupt.iter().find(is_due);
        check_none_left(
            dispatch.map(|(id, entry)| (id, &entry.worker)),
            interrupt.map(|(id, entry)| (id, &entry.worker)),
        )
    }

    /// Whether an attempt is about to be handed out, as the last event says.
    pub(super) fn is_of_event(&self, id: AttemptId, seq: u64) -> bool {
        self.to_dispatch.get(&id).is_some_and(|entry| entry.seq == seq)
    }

    /// A worker takes so much.
    pub(super) fn hired(&mut self, worker: &Worker, max_load: u32) {
        self.max_load.insert(who(worker), max_load);
    }

    /// A worker has said its last word about an attempt.
    pub(super) fn let_go(&mut self, attempt: AttemptId) {
        for attempts in self.has.values_mut() {
            attempts.remove(&attempt);
        }
    }

    /// The process died, and its executors with it; what it was about to tell is not told.
    pub(super) fn crashed(&mut self) {
        self.has.clear();
        self.to_dispatch.clear();
        self.to_interrupt.clear();
    }

    /// What a fact says about whose the attempt is.
    pub(super) fn fact(
        &mut self,
        before: Option<&Run>,
        flow: &Flow,
        event: &Event,
        unit: UnitRef,
        fact: &UnitFact,
        (id, session): (AttemptId, u64),
    ) {
        // One event may end a generation and begin the next, whose attempts are numbered from 1.
        let before = before.filter(|run| run.generation == id.generation);
        let state = before.and_then(|run| run.unit(unit)).map(|unit| &unit.state);
        match fact {
            UnitFact::Dequeued { worker } | UnitFact::Started { worker } => {
                // Work on what was handed out before has begun.
                if matches!(state, Some(UnitState::Active(live)) if matches!(live.doing, AttemptPhase::Dequeued { .. }) && live.attempt == id.attempt)
                {
                    return;
                }
                let alone = is_alone(state, event, unit);
                let load = flow.step(unit.step).load;
                let (worker, seq) = (worker.clone(), event.seq);
                self.to_dispatch.insert(id, ToDispatch { worker, load, alone, session, seq });
            }
            UnitFact::Ended { outcome, .. } => {
                let Some(UnitState::Active(live)) = state else { return };
                let Some(worker) = worker_of(&live.doing) else { return };
                let by_limit = stuck_by(outcome, flow.step(unit.step), &live.doing, &event.by);
                let is_taken_away = by_limit.is_some_and(|limit| limit != StuckLimit::Gone)
                    || matches!(outcome, Outcome::Cancelled(why) if *why != Cancelled::Released);
                if is_taken_away && live.attempt == id.attempt {
                    // Where several servers share a store, each speaks to its own executors.
                    let session = if worker.local && session != 0 { worker.incarnation } else { session };
                    let (worker, seq) = (worker.clone(), event.seq);
                    self.to_interrupt.insert(id, ToInterrupt { worker, session, seq });
                }
            }
            _ => {}
        }
    }

    /// An attempt is handed out.
    pub(super) fn dispatch(&mut self, worker: &Worker, id: AttemptId, session: u64) -> Result<(), Broken> {
        let broken = |promise, what: String| {
            Err(Broken::of(
                promise,
                id.run,
                format!("attempt {} of step #{}: {what}", id.attempt, id.unit.step.0),
            ))
        };
        let Some(ToDispatch { worker: to, load, alone, .. }) = self.to_dispatch.remove(&id) else {
            let what = if self.dispatched.contains(&id) {
                "it is handed out twice"
            } else {
                "it is handed out, and no durable event says so"
            };
            return broken(Promise::Once, what.to_owned());
        };
        if to != *worker {
            return broken(Promise::Once, format!("it is {}'s, and handed to {}", to.name, worker.name));
        }
        self.dispatched.insert(id);
        if self.connected.get(&who(worker)).is_some_and(|to| *to != session) {
            // It is at another server by now, and does not get it.
            return Ok(());
        }
        let has = self.has.entry(who(worker)).or_default();
        // What takes no room is in nobody's way.
        let busy = has.values().filter(|(load, _)| *load > 0).count();
        if alone && busy > 0 {
            return broken(Promise::Limits, format!("it must be alone, and {} has {busy} more", worker.name));
        }
        if load > 0 && has.values().any(|(_, alone)| *alone) {
            return broken(Promise::Limits, format!("{} has one that must be alone", worker.name));
        }
        has.insert(id, (load, alone));
        let Some(max) = self.max_load.get(&who(worker)) else { return Ok(()) };
        let all: u32 = has.values().map(|(load, _)| (*load).min(*max)).sum();
        if all > *max {
            return broken(Promise::Limits, format!("{} has {all}, and can have {max}", worker.name));
        }
        Ok(())
    }

    /// A worker is told that an attempt is no longer its own.
    pub(super) fn interrupt(&mut self, worker: &Worker, id: AttemptId) -> Result<(), Broken> {
        match self.to_interrupt.remove(&id) {
            Some(ToInterrupt { worker: whose, .. }) if whose == *worker => Ok(()),
            Some(ToInterrupt { worker: whose, .. }) => {
                let what = format!("{} is told that it has lost what was {}'s", worker.name, whose.name);
                Err(Broken::of(Promise::Stopped, id.run, what))
            }
            None if self.dispatched.contains(&id) => Ok(()),
            None => Err(Broken::of(
                Promise::Stopped,
                id.run,
                format!("{} is told that it has lost what it never had", worker.name),
            )),
        }
    }

    /// Everything that became durable was heard: what was to be done has been done.
    pub(super) fn check_done(&self) -> Result<(), Broken> {
        let interrupt = self.to_interrupt.first_key_value();
        check_none_left(
            self.to_dispatch.first_key_value().map(|(id, entry)| (id, &entry.worker)),
            interrupt.map(|(id, entry)| (id, &entry.worker)),
        )
    }
}

/// Nothing that was to be handed out or told is left.
fn check_none_left(
    dispatch: Option<(&AttemptId, &Worker)>,
    interrupt: Option<(&AttemptId, &Worker)>,
) -> Result<(), Broken> {
    if let Some((id, worker)) = dispatch {
        let what = format!(
            "attempt {} of step #{} is recorded as {}'s, who never got it",
            id.attempt, id.unit.step.0, worker.name
        );
        return Err(Broken::of(Promise::Moved, id.run, what));
    }
    if let Some((id, worker)) = interrupt {
        let what = format!(
            "{} has lost attempt {} of step #{}, and was not told",
            worker.name, id.attempt, id.unit.step.0
        );
        return Err(Broken::of(Promise::Stopped, id.run, what));
    }
    Ok(())
}

fn who(worker: &Worker) -> WorkerKey {
    (worker.name.clone(), worker.incarnation)
}

/// Whether the attempt that is handed out was queued for a worker that runs nothing else.
fn is_alone(state: Option<&UnitState>, event: &Event, unit: UnitRef) -> bool {
    let queued_now = event.facts.iter().rev().find_map(|fact| match fact {
        unstuck_core::event::Fact::Unit { unit: other, fact: UnitFact::Queued { place, .. } }
            if *other == unit =>
        {
            Some(place.alone)
        }
        _ => None,
    });
    queued_now.unwrap_or(matches!(state, Some(UnitState::Ready(queued)) if queued.place.alone))
}
