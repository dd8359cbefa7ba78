//! The run and what it has started, followed by their events, and whether anything will still move them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use unstuck_core::decide::unit_name;
use unstuck_core::event::Event;
use unstuck_core::evolve::evolve;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::{Flow, Kind, StepIx};
use unstuck_core::model::run::{Origin, Phase, Run, Serves, Slot};
use unstuck_core::model::unit::{Doing, Unit, UnitRef, UnitState};
use unstuck_core::wakeup::{SlotUse, slot_use};

/// The run and its descendants, as their events have left them.
pub(super) struct Tree {
    root: RunId,
    runs: BTreeMap<RunId, Option<Run>>,
    flows: HashMap<FlowId, Arc<Flow>>,
    /// Runs of the same store that are no part of this one.
    others: HashSet<RunId>,
}

/// What a tree does with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// It is taken in.
    Taken,
    /// It is about a run that is no part of this tree, or known already.
    NotOurs,
    /// It is about a run of which too little is known: it has to be read.
    Unknown,
}

/// What a tree in which nothing moves by itself has come to; the strongest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rest {
    /// It waits for a slot that a resting run keeps.
    Blocked,
    /// A step is for a worker, and there is none.
    NoWorker,
    /// A step is at rest after an error.
    Error,
    /// An operator chooses.
    Held,
}

impl Tree {
    pub(super) fn new(root: RunId) -> Tree {
        Tree { root, runs: BTreeMap::new(), flows: HashMap::new(), others: HashSet::new() }
    }

    /// Takes in what happened.
    pub(super) fn take(&mut self, run: RunId, event: &Event) -> Takes {
        if self.others.contains(&run) {
            return Takes::NotOurs;
        }
        match self.runs.get_mut(&run) {
            Some(Some(known)) if event.seq <= known.seq => return Takes::NotOurs,
            Some(Some(known)) if event.seq > known.seq + 1 => return Takes::Unknown,
            Some(known) => evolve(known, event),
            None if event.seq != 1 => return Takes::Unknown,
            None => {
                let mut new = None;
                evolve(&mut new, event);
                match new {
                    Some(new) if self.is_ours(&new) => self.put(new),
                    Some(_) | None => {
                        self.ignore(run);
                        return Takes::NotOurs;
                    }
                }
            }
        }
        Takes::Taken
    }

    /// Takes in a run as it is.
    pub(super) fn put(&mut self, run: Run) {
        self.runs.insert(run.id, Some(run));
    }

    /// Whether a run is the root, or a part of one that is in the tree.
    pub(super) fn is_ours(&self, run: &Run) -> bool {
        run.id == self.root || run.origin.parent().is_some_and(|parent| self.runs.contains_key(&parent))
    }

    /// Nothing about this run matters here.
    pub(super) fn ignore(&mut self, run: RunId) {
        self.others.insert(run);
    }

    pub(super) fn know(&mut self, flow: Arc<Flow>) {
        self.flows.insert(flow.id, flow);
    }

    /// The flow of a run, if it is not known.
    pub(super) fn unknown_flow(&self, run: RunId) -> Option<FlowId> {
        let flow = self.runs.get(&run)?.as_ref()?.flow;
        (!self.flows.contains_key(&flow)).then_some(flow)
    }

    pub(super) fn root_id(&self) -> RunId {
        self.root
    }

    pub(super) fn root(&self) -> Option<(&Run, &Flow)> {
        self.get(self.root)
    }

    /// A run and its flow, once it has begun.
    pub(super) fn get(&self, run: RunId) -> Option<(&Run, &Flow)> {
        let run = self.runs.get(&run)?.as_ref()?;
        Some((run, self.flows.get(&run.flow)?))
    }

    /// The steps that lead to a run from the root: `orders > ship[2]`; empty for the root.
    pub(super) fn path(&self, run: RunId) -> String {
        let mut parts = Vec::new();
        let mut at = run;
        while let Some((run, flow)) = self.get(at) {
            let part = match &run.origin {
                Origin::Root => break,
                Origin::Handler { parent, .. } => {
                    at = *parent;
                    flow.name.to_string()
                }
                Origin::Child { parent, unit, .. } => {
                    at = *parent;
                    self.get(at).map_or_else(String::new, |(_, flow)| unit_name(flow, *unit))
                }
            };
            parts.push(part);
        }
        parts.reverse();
        parts.join(" > ")
    }

    /// What it has come to, if nothing will move it but a person.
    pub(super) fn rest(&self) -> Option<Rest> {
        self.rest_of(self.root)
    }

    /// The actions that steps of the tree wait for.
    pub(super) fn wanted_actions(&self) -> Vec<String> {
        let mut wanted = Vec::new();
        for (run, flow) in self.runs.keys().filter_map(|run| self.get(*run)) {
            run.each_unit(|unit, state| {
                if let (UnitState::Ready(_), Kind::Action(action)) =
                    (&state.state, &flow.step(unit.step).kind)
                {
                    wanted.push(format!("`{}` (action `{action}`)", unit_name(flow, unit)));
                }
            });
        }
        wanted
    }

    fn rest_of(&self, run: RunId) -> Option<Rest> {
        let (run, flow) = self.get(run)?;
        match &run.phase {
            // Its parent has yet to hear of it.
            Phase::Ended(_) => return None,
            Phase::Failing(failing) => {
                let busy = run.units_where(|unit| unit.state.is_in_motion());
                let handler = failing.handler.as_ref().and_then(|handler| handler.run)?;
                return if busy.is_empty() { self.rest_of(handler) } else { None };
            }
            Phase::Going => {}
        }
        let blocked = match slot_use(run, flow) {
            SlotUse::Wants { limit, .. } if self.taken(&limit.name) < limit.max as usize => return None,
            SlotUse::Wants { .. } => Some(Rest::Blocked),
            SlotUse::None | SlotUse::Has { .. } => None,
        };
        if flow.places().any(|step| items_move(run, flow, step)) {
            return None;
        }
        let mut rest = blocked;
        for unit in run.units_where(|unit| !unit.state.is_final()) {
            match self.unit_rest(run, flow, unit, run.unit(unit)?) {
                UnitRest::Moves => return None,
                UnitRest::Nothing => {}
                UnitRest::At(other) => rest = rest.max(Some(other)),
            }
        }
        rest
    }

    fn unit_rest(&self, run: &Run, flow: &Flow, name: UnitRef, unit: &Unit) -> UnitRest {
        match &unit.state {
            UnitState::Held { .. } => UnitRest::At(Rest::Held),
            // A policy will resume it.
            UnitState::Error { resume: Some(_), .. } => UnitRest::Moves,
            UnitState::Error { resume: None, .. } => UnitRest::At(Rest::Error),
            UnitState::Ready(_) if !run.slot.lets_go_on() => UnitRest::Nothing,
            UnitState::Ready(_) => {
                let step = flow.step(name.step);
                let timed = step.limits.queue_timeout.is_some() || self.has_deadline(run);
                match step.kind {
                    Kind::Action(_) if !timed => UnitRest::At(Rest::NoWorker),
                    _ => UnitRest::Moves,
                }
            }
            UnitState::Active(live) => match (&live.doing, unit.child) {
                (Doing::Child { .. }, Some(child)) => {
                    // A child that is to go on for this attempt may not have heard of it yet.
                    let serves = Some(Serves { generation: run.generation, attempt: live.attempt });
                    let at_it = self.get(child).is_some_and(|(child, _)| child.origin.serves() == serves);
                    match self.rest_of(child).filter(|_| at_it) {
                        Some(rest) => UnitRest::At(rest),
                        None => UnitRest::Moves,
                    }
                }
                _ => UnitRest::Moves,
            },
            UnitState::Waiting(_) => UnitRest::Moves,
            UnitState::Pending
            | UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => UnitRest::Nothing,
        }
    }

    /// Whether the run, or one that it works for, is given up on some day.
    fn has_deadline(&self, run: &Run) -> bool {
        let above = || run.origin.parent().and_then(|parent| self.get(parent));
        run.deadline.is_some() || above().is_some_and(|(parent, _)| self.has_deadline(parent))
    }

    /// How many runs have a slot of this limit.
    fn taken(&self, name: &str) -> usize {
        let taken = |run: &&Run| matches!(&run.slot, Slot::Taken(limit) if &*limit.name == name);
        self.runs.values().flatten().filter(taken).count()
    }
}

/// Whether items of a fan-out are on their way, where that can be told without a look at each: there may be thousands.
fn items_move(run: &Run, flow: &Flow, step: StepIx) -> bool {
    let in_motion = run.items(step).is_some_and(|items| items.in_motion > 0);
    let by_itself = !matches!(flow.step(step).kind, Kind::Child(_) | Kind::Action(_));
    in_motion && by_itself && run.slot.lets_go_on()
}

/// What a unit means for the rest of its run.
enum UnitRest {
    /// It will move by itself.
    Moves,
    /// It says nothing.
    Nothing,
    /// It waits for a person.
    At(Rest),
}
