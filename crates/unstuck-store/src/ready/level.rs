//! The entries of one priority in one queue: flows take turns, and entries of the same load stand together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::eligible::Demand;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_core::wakeup::ReadyAttempt;

/// So many empty levels or classes are kept, as most will be needed again at once.
pub(super) const KEPT_EMPTY: usize = 4;

/// The entries of one priority.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    flows: FxHashMap<FlowId, Turns>,
    classes: Vec<Class>,
}

/// The turns of a flow.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// Its last one, or how many there had been when it came.
    last: u64,
    /// How many of its entries wait.
    waiting: usize,
}

/// Entries that an offer either takes or does not, all of them.
#[derive(Clone, Debug)]
struct Class {
    demand: Demand,
    /// Whoever had its last turn first is next.
    lanes: BTreeMap<(u64, FlowId), BTreeSet<StepLocation>>,
}

/// The place of an entry among those of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepLocation {
    back: bool,
    since: Time,
    run: RunId,
    unit: UnitRef,
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    demand: Demand,
    flow: FlowId,
    location: StepLocation,
}

/// The next entry of a level; the smaller comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct First {
    last: u64,
    flow: FlowId,
    location: StepLocation,
    class: usize,
}

impl Level {
    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Adds an entry. A flow that had none joins behind those that wait for their turn.
    pub(super) fn insert(&mut self, ready: &ReadyAttempt, turn: u64) {
        let turns = self.flows.entry(ready.flow).or_insert(Turns { last: turn, waiting: 0 });
        turns.waiting += 1;
        let lane = (turns.last, ready.flow);
        let demand = ready.demand();
        let class = match self.classes.iter().position(|class| class.demand == demand) {
            Some(place) => &mut self.classes[place],
            None => self.classes.push_mut(Class { demand, lanes: BTreeMap::new() }),
        };
        class.lanes.entry(lane).or_default().insert(StepLocation::of(ready));
    }

    /// Removes an entry; returns whether it was there.
    pub(super) fn remove(&mut self, ready: &ReadyAttempt) -> bool {
        let demand = ready.demand();
        let Some(class) = self.classes.iter().position(|class| class.demand == demand) else { return false };
        let was_there = self.remove_from_class(class, ready.flow, StepLocation::of(ready));
        if self.classes[class].lanes.is_empty() && self.classes.len() > KEPT_EMPTY {
            self.classes.swap_remove(class);
        }
        was_there
    }

    /// Calls `each` with every entry, in no order.
    pub(super) fn for_each(&self, mut each: impl FnMut(Entry)) {
        for Class { demand, lanes } in &self.classes {
            for ((_, flow), steps) in lanes {
                for location in steps {
                    each(Entry { demand: *demand, flow: *flow, location: *location });
                }
            }
        }
    }

    /// Finds the next entry among those whose demand fits: of the flow whose last turn is longest ago, the one that
    /// stands first.
    pub(super) fn find_first(&self, mut fits: impl FnMut(Demand) -> bool) -> Option<(First, Demand)> {
        let mut best: Option<(First, Demand)> = None;
        for (place, class) in self.classes.iter().enumerate() {
            // A flow with entries in several classes is at the head of all of them or of none, since its turn is the
            // same in each: so the smallest of the heads is the next entry of the next flow.
            let Some((&(last, flow), steps)) = class.lanes.first_key_value() else { continue };
            let Some(&location) = steps.first() else { continue };
            let first = First { last, flow, location, class: place };
            if best.is_none_or(|(best, _)| first < best) && fits(class.demand) {
                best = Some((first, class.demand));
            }
        }
        best
    }

    /// Returns an entry without removing it.
    pub(super) fn peek(&self, first: First) -> Entry {
        Entry { demand: self.classes[first.class].demand, flow: first.flow, location: first.location }
    }

    /// Removes an entry, and moves its flow behind the others: it has had this turn.
    pub(super) fn take(&mut self, first: First, turn: u64) -> Entry {
        let First { flow, location, class, .. } = first;
        let entry = self.peek(first);
        self.remove_from_class(class, flow, location);
        let Some(turns) = self.flows.get_mut(&flow) else { return entry };
        let before = std::mem::replace(&mut turns.last, turn);
        for class in &mut self.classes {
            if let Some(lane) = class.lanes.remove(&(before, flow)) {
                class.lanes.insert((turn, flow), lane);
            }
        }
        entry
    }

    /// Removes an entry from the lane of its flow, and what is empty then.
    fn remove_from_class(&mut self, class: usize, flow: FlowId, location: StepLocation) -> bool {
        let Some(turns) = self.flows.get_mut(&flow) else { return false };
        let key = (turns.last, flow);
        let lanes = &mut self.classes[class].lanes;
        let Some(lane) = lanes.get_mut(&key) else { return false };
        if !lane.remove(&location) {
            return false;
        }
        if lane.is_empty() {
            lanes.remove(&key);
        }
        turns.waiting -= 1;
        if turns.waiting == 0 {
            self.flows.remove(&flow);
        }
        true
    }
}

impl Entry {
    /// Completes an entry with the queue and priority, which it does not repeat in memory.
    pub(super) fn into_ready_attempt(self, queue: &Arc<str>, priority: i32) -> ReadyAttempt {
        let Entry { demand: Demand { load, alone }, flow, location: StepLocation { back, since, run, unit } } =
            self;
        let queue = queue.clone();
        ReadyAttempt { run, unit, flow, queue, priority, front: !back, since, load, alone }
    }
}

impl StepLocation {
    fn of(ready: &ReadyAttempt) -> StepLocation {
        StepLocation { back: !ready.front, since: ready.since, run: ready.run, unit: ready.unit }
    }
}
