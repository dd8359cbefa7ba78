//! The run and its descendants as their events leave them, and whether anything will still move them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use unstuck_core::decide::unit_name;
use unstuck_core::event::Event;
use unstuck_core::evolve::evolve;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::{Flow, Kind, StepIndex};
use unstuck_core::model::run::{Origin, ParentAttempt, Phase, Run, Slot};
use unstuck_core::model::unit::{AttemptPhase, UnitRef, UnitState};
use unstuck_core::slot::{SlotClaim, slot_claim};

/// How many unrelated runs are remembered as such before the set is cleared.
const MAX_OTHERS: usize = 100_000;
/// How deep a chain of children is followed. Only a store of an older version can have a deeper one.
const MAX_DEPTH: usize = 200;

/// The run and those of its descendants that are not final, as their events have left them.
pub(super) struct Tree {
    root: RunId,
    runs: BTreeMap<RunId, Option<Run>>,
    /// How many children and handlers of a run are here.
    children: HashMap<RunId, usize>,
    flows: HashMap<FlowId, Arc<Flow>>,
    /// How many slots of a limit runs have that nobody executes and that are no part of this one.
    idle_holders: HashMap<Arc<str>, usize>,
    /// Runs of the same store that are no part of this one.
    others: HashSet<RunId>,
}

/// What a tree did with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// It is taken in.
    Taken,
    /// It is about a run that is no part of this tree, or known already.
    NotOurs,
    /// It is about a run of which too little is known: it has to be read.
    Unknown,
}

/// Why nothing in a tree moves by itself; the greatest value counts.
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
        Tree {
            root,
            runs: BTreeMap::new(),
            children: HashMap::new(),
            flows: HashMap::new(),
            idle_holders: HashMap::new(),
            others: HashSet::new(),
        }
    }

    /// Applies an event, if it is about a run of this tree.
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
                    Some(new) if self.is_ours(&new) => self.add_run(new),
                    Some(_) | None => {
                        self.ignore(run);
                        return Takes::NotOurs;
                    }
                }
            }
        }
        Takes::Taken
    }

    /// Adds a run as it is.
    pub(super) fn add_run(&mut self, run: Run) {
        let parent = run.origin.parent();
        if self.runs.insert(run.id, Some(run)).is_none()
            && let Some(parent) = parent
        {
            *self.children.entry(parent).or_default() += 1;
        }
    }

    /// Replaces the whole tree by runs that were loaded.
    pub(super) fn replace_runs(&mut self, family: Vec<(Run, Arc<Flow>)>) {
        self.runs.clear();
        self.children.clear();
        for (run, flow) in family {
            self.add_flow(flow);
            self.add_run(run);
        }
    }

    /// Drops a run that has ended, and ancestors that ended before it: there may be a million of them.
    pub(super) fn drop_ended(&mut self, run: RunId) {
        let mut at = run;
        while at != self.root
            && !self.children.contains_key(&at)
            && self.runs.get(&at).is_some_and(|run| run.as_ref().is_some_and(Run::is_final))
        {
            let Some(parent) = self.runs.remove(&at).flatten().and_then(|run| run.origin.parent()) else {
                return;
            };
            if let Some(count) = self.children.get_mut(&parent) {
                *count -= 1;
                if *count == 0 {
                    self.children.remove(&parent);
                }
            }
            at = parent;
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns whether a run is the root, or a child of one in the tree.
    pub(super) fn is_ours(&self, run: &Run) -> bool {
        run.id == self.root || run.origin.parent().is_some_and(|parent| self.runs.contains_key(&parent))
    }

    /// Remembers a run as unrelated.
    pub(super) fn ignore(&mut self, run: RunId) {
        if self.others.len() >= MAX_OTHERS {
            self.others.clear();
        }
        self.others.insert(run);
    }

    pub(super) fn add_flow(&mut self, flow: Arc<Flow>) {
        self.flows.insert(flow.id, flow);
    }

    /// Returns the flow of a run if it has not been loaded.
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

    /// Returns a run and its flow, once both are known.
    pub(super) fn get(&self, run: RunId) -> Option<(&Run, &Flow)> {
        let run = self.runs.get(&run)?.as_ref()?;
        Some((run, self.flows.get(&run.flow)?))
    }

    /// Returns the steps that lead from the root to a run: `orders > ship[2]`; empty for the root.
    pub(super) fn path(&self, run: RunId) -> String {
        let mut parts = Vec::new();
        let mut at = run;
        while let Some((run, flow)) = self.get(at).filter(|_| parts.len() < MAX_DEPTH) {
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

    /// Returns each limit that runs of the tree wait for, with its size and one of these runs.
    pub(super) fn waiting_for_slots(&self) -> HashMap<Arc<str>, (u32, Run)> {
        let mut waiting = HashMap::new();
        for (run, flow) in self.runs.keys().filter_map(|run| self.get(*run)) {
            if let SlotClaim::Wants { limit, .. } = slot_claim(run, flow) {
                waiting.entry(limit.name).or_insert_with(|| (limit.max, run.clone()));
            }
        }
        waiting
    }

    /// Sets how many slots of a limit are held by idle runs outside of the tree.
    pub(super) fn set_idle_holders(&mut self, limit: Arc<str>, count: usize) {
        self.idle_holders.insert(limit, count);
    }

    /// Returns why nothing moves, if only an operator can move the tree.
    pub(super) fn rest(&self) -> Option<Rest> {
        self.rest_of_run(self.root, 0)
    }

    /// Lists the actions that ready steps of the tree need a worker for.
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

    /// Returns why a run does not move by itself, descendants included; nothing if it will move.
    fn rest_of_run(&self, run: RunId, depth: usize) -> Option<Rest> {
        let (run, flow) = self.get(run).filter(|_| depth < MAX_DEPTH)?;
        match &run.phase {
            // The parent has not handled its end yet.
            Phase::Ended(_) => return None,
            Phase::Failing(failing) => {
                let busy = run.units_where(|unit| unit.state.is_progressing());
                let handler = failing.handler.as_ref().and_then(|handler| handler.run)?;
                return if busy.is_empty() { self.rest_of_run(handler, depth + 1) } else { None };
            }
            Phase::Going => {}
        }
        let blocked = match slot_claim(run, flow) {
            SlotClaim::Wants { limit, .. } if self.count_taken_slots(&limit.name) < limit.max as usize => {
                return None;
            }
            SlotClaim::Wants { .. } => Some(Rest::Blocked),
            SlotClaim::None | SlotClaim::Has { .. } => None,
        };
        if flow.step_indices().any(|step| has_moving_items(run, flow, step)) {
            return None;
        }
        let mut rest = blocked;
        for unit in run.units_where(|unit| !unit.state.is_final()) {
            match self.rest_of_unit(run, flow, unit, depth) {
                UnitRest::Moves => return None,
                UnitRest::Nothing => {}
                UnitRest::At(other) => rest = rest.max(Some(other)),
            }
        }
        rest
    }

    /// Returns whether a unit will move by itself, or why not.
    fn rest_of_unit(&self, run: &Run, flow: &Flow, name: UnitRef, depth: usize) -> UnitRest {
        let Some(unit) = run.unit(name) else { return UnitRest::Moves };
        match &unit.state {
            UnitState::Held { .. } => UnitRest::At(Rest::Held),
            // A policy will resume it.
            UnitState::Error { resume: Some(_), .. } => UnitRest::Moves,
            UnitState::Error { resume: None, .. } => UnitRest::At(Rest::Error),
            UnitState::Ready(_) if !run.slot.allows_progress() => UnitRest::Nothing,
            UnitState::Ready(_) => {
                let step = flow.step(name.step);
                let timed = step.limits.queue_timeout.is_some() || self.has_deadline(run);
                match step.kind {
                    Kind::Action(_) if !timed => UnitRest::At(Rest::NoWorker),
                    _ => UnitRest::Moves,
                }
            }
            UnitState::Active(live) => match (&live.doing, unit.child) {
                (AttemptPhase::Child { .. }, Some(child)) => {
                    // A child that continues for this attempt may not have got the notice yet.
                    let serves = Some(ParentAttempt { generation: run.generation, attempt: live.attempt });
                    let at_it = self.get(child).is_some_and(|(child, _)| child.origin.serves() == serves);
                    match self.rest_of_run(child, depth + 1).filter(|_| at_it) {
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

    /// Returns whether the run or one of its ancestors has a deadline, which will move it.
    fn has_deadline(&self, run: &Run) -> bool {
        let above = |run: &&Run| Some(self.get(run.origin.parent()?)?.0);
        std::iter::successors(Some(run), above).take(MAX_DEPTH).any(|run| run.deadline.is_some())
    }

    /// Counts the runs that hold a slot of this limit.
    fn count_taken_slots(&self, name: &str) -> usize {
        let taken = |run: &&Run| matches!(&run.slot, Slot::Taken(limit) if &*limit.name == name);
        let idle = self.idle_holders.get(name).copied().unwrap_or(0);
        self.runs.values().flatten().filter(taken).count() + idle
    }
}

/// Returns whether items of a fan-out move, judged by its counters alone: there may be thousands of items.
fn has_moving_items(run: &Run, flow: &Flow, step: StepIndex) -> bool {
    let in_motion = run.items(step).is_some_and(|items| items.in_motion > 0);
    let by_itself = !matches!(flow.step(step).kind, Kind::Child(_) | Kind::Action(_));
    in_motion && by_itself && run.slot.allows_progress()
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

#[cfg(test)]
mod tests {
    use unstuck_core::event::{Actor, Fact, Started};
    use unstuck_core::json::Payload;
    use unstuck_core::model::run::Origin;
    use unstuck_core::time::Time;

    use super::*;

    fn event(seq: u64, fact: Fact) -> Event {
        Event { seq, generation: 1, at: Time(0), clock: None, by: Actor::Engine, facts: vec![fact] }
    }

    fn started(run: u64, parent: Option<u64>) -> Event {
        let serves = ParentAttempt { generation: 1, attempt: 1 };
        let unit = UnitRef::step(StepIndex(0));
        let origin = parent.map_or(Origin::Root, |parent| Origin::Child {
            parent: RunId(parent),
            unit,
            serves,
            in_handler: false,
        });
        let started = Started {
            run: RunId(run),
            flow: FlowId(1),
            steps: 1,
            key: None,
            labels: None,
            input: Payload::NULL,
            input_digest: None,
            origin,
            root_flow: "f".into(),
            nesting: None,
            home: None,
            priority: 0,
            deadline: None,
            deadline_is_relative: false,
            clock: 0,
            limit: None,
        };
        event(1, Fact::Started(Box::new(started)))
    }

    fn completed() -> Event {
        event(2, Fact::Completed { output: Payload::NULL })
    }

    fn take(tree: &mut Tree, run: u64, event: &Event) {
        assert_eq!(tree.take(RunId(run), event), Takes::Taken, "{run}");
        tree.drop_ended(RunId(run));
    }

    #[test]
    fn descendants_that_have_ended_are_let_go_of_however_many_there_are() {
        let mut tree = Tree::new(RunId(1));
        take(&mut tree, 1, &started(1, None));
        for run in (2..20_000).step_by(2) {
            take(&mut tree, run, &started(run, Some(1)));
            take(&mut tree, run + 1, &started(run + 1, Some(run)));
            assert_eq!(tree.len(), 3);
            // One that has ended is kept while something that works for it is here.
            take(&mut tree, run, &completed());
            assert_eq!(tree.len(), 3);
            take(&mut tree, run + 1, &completed());
            assert_eq!((tree.len(), tree.children.len()), (1, 0));
        }
        take(&mut tree, 1, &completed());
        assert_eq!(tree.len(), 1, "the root stays: it is what was asked for");
        // What happens to one of them later has to be read.
        assert_eq!(tree.take(RunId(2), &event(3, Fact::Unpaused)), Takes::Unknown);
    }
}
