//! The entries of one priority in one queue: flows take turns, and entries of the same load stand together.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_core::wakeup::Ready;

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
    fit: Fit,
    /// Whoever had its last turn first is next.
    lanes: BTreeMap<(u64, FlowId), BTreeSet<Spot>>,
}

/// What decides whether an offer takes an entry of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) load: u32,
    pub(super) alone: bool,
}

/// The place of an entry among those of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    back: bool,
    since: Time,
    pub(super) run: RunId,
    pub(super) unit: UnitRef,
}

/// The next entry of a level; the smaller comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct First {
    last: u64,
    flow: FlowId,
    pub(super) spot: Spot,
    class: usize,
}

impl Level {
    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Adds an entry. A flow that had none waits its turn behind those that are here.
    pub(super) fn insert(&mut self, ready: &Ready, turn: u64) {
        let turns = self.flows.entry(ready.flow).or_insert(Turns { last: turn, waiting: 0 });
        turns.waiting += 1;
        let lane = (turns.last, ready.flow);
        let fit = Fit { load: ready.load, alone: ready.alone };
        let class = match self.classes.iter().position(|class| class.fit == fit) {
            Some(place) => &mut self.classes[place],
            None => self.classes.push_mut(Class { fit, lanes: BTreeMap::new() }),
        };
        class.lanes.entry(lane).or_default().insert(Spot::of(ready));
    }

    pub(super) fn remove(&mut self, ready: &Ready) {
        let fit = Fit { load: ready.load, alone: ready.alone };
        if let Some(class) = self.classes.iter().position(|class| class.fit == fit) {
            self.remove_from(class, ready.flow, Spot::of(ready));
            if self.classes[class].lanes.is_empty() && self.classes.len() > KEPT_EMPTY {
                self.classes.swap_remove(class);
            }
        }
    }

    /// The next entry of those that fit.
    pub(super) fn first(&self, mut fits: impl FnMut(Fit) -> bool) -> Option<(First, Fit)> {
        let mut best: Option<(First, Fit)> = None;
        for (place, class) in self.classes.iter().enumerate() {
            // A flow with entries in several classes is at the head of all of them or of none, since its turn is the
            // same in each: so the smallest of the heads is the next entry of the next flow.
            let Some((&(last, flow), spots)) = class.lanes.first_key_value() else { continue };
            let Some(&spot) = spots.first() else { continue };
            let first = First { last, flow, spot, class: place };
            if best.is_none_or(|(best, _)| first < best) && fits(class.fit) {
                best = Some((first, class.fit));
            }
        }
        best
    }

    /// Takes that entry; its flow has had this turn.
    pub(super) fn take(&mut self, first: First, turn: u64) {
        self.remove_from(first.class, first.flow, first.spot);
        let Some(turns) = self.flows.get_mut(&first.flow) else { return };
        let before = std::mem::replace(&mut turns.last, turn);
        for class in &mut self.classes {
            if let Some(lane) = class.lanes.remove(&(before, first.flow)) {
                class.lanes.insert((turn, first.flow), lane);
            }
        }
    }

    fn remove_from(&mut self, class: usize, flow: FlowId, spot: Spot) {
        let Some(turns) = self.flows.get_mut(&flow) else { return };
        let key = (turns.last, flow);
        let lanes = &mut self.classes[class].lanes;
        let Some(lane) = lanes.get_mut(&key) else { return };
        if !lane.remove(&spot) {
            return;
        }
        if lane.is_empty() {
            lanes.remove(&key);
        }
        turns.waiting -= 1;
        if turns.waiting == 0 {
            self.flows.remove(&flow);
        }
    }
}

impl Spot {
    fn of(ready: &Ready) -> Spot {
        Spot { back: !ready.front, since: ready.since, run: ready.run, unit: ready.unit }
    }
}
