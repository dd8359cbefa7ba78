//! What may be handed out now: by queue, by priority, by turns over the flows, the front first, then by age.
//!
//! What an offer has no room for keeps its place and costs nothing: entries of the same load stand together, so that
//! one look tells whether any of them fits. A pick costs a few steps for every distinct priority and load that waits
//! in a queue, however many entries wait there.
//!
//! A line knows all about its entries, but not where those of a given run are. A store that keeps them elsewhere can
//! [park](ReadyQueues::park) a run: its entries then take up no more than their places in line.

mod level;
mod pick;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::wakeup::ReadyAttempt;

use crate::by_run::ByRun;
use crate::contract::Candidate;
use crate::ready::level::{KEPT_EMPTY, Level};

/// Everything that waits to be handed out.
///
/// Turns are not kept over a restart: they begin again, with the oldest flow.
#[derive(Clone, Debug, Default)]
pub struct ReadyQueues {
    names: FxHashMap<Arc<str>, usize>,
    queues: Vec<Queue>,
    /// The entries of runs that are not parked.
    waiting: ByRun<Waiting>,
    /// How many entries are in line.
    in_line: usize,
    /// Picked, and not put back yet.
    picked: Vec<(RunId, UnitRef)>,
    /// How many turns there have been.
    turn: u64,
    /// Runs whose entries are not given. An entry that was met has left its line, and is not among the picked.
    aside: FxHashSet<RunId>,
}

/// One queue.
#[derive(Clone, Debug)]
struct Queue {
    name: Arc<str>,
    levels: BTreeMap<Reverse<i32>, Level>,
}

/// One entry.
#[derive(Clone, Debug)]
struct Waiting {
    ready: ReadyAttempt,
    /// Picked: it has left its line, for now.
    picked: bool,
}

impl ReadyQueues {
    /// Sets or removes the entry of a unit. An equal entry keeps its place in line.
    pub fn set(&mut self, run: RunId, unit: UnitRef, ready: Option<&ReadyAttempt>) {
        let Some(ready) = ready else { return self.remove(run, unit) };
        match self.waiting.get(run, Some(unit)) {
            Some(waiting) if waiting.ready == *ready => return,
            Some(_) => self.remove(run, unit),
            None => {}
        }
        self.enqueue(ready);
        self.waiting.insert(run, Some(unit), Waiting { ready: ready.clone(), picked: false });
    }

    /// Replaces the entries of a run; each unit has at most one.
    pub fn set_all<'a>(&mut self, run: RunId, entries: impl Iterator<Item = &'a ReadyAttempt>) {
        let mut old = self.waiting.take(run);
        for ready in entries {
            let unit = Some(ready.unit);
            let waiting = match old.remove(unit) {
                Some(waiting) if waiting.ready == *ready => waiting,
                before => {
                    before.inspect(|before| self.dequeue(before));
                    self.enqueue(ready);
                    Waiting { ready: ready.clone(), picked: false }
                }
            };
            self.waiting.insert(run, unit, waiting);
        }
        old.drain(|_, waiting| self.dequeue(&waiting));
    }

    /// Removes the entry of a unit.
    pub fn remove(&mut self, run: RunId, unit: UnitRef) {
        if let Some(waiting) = self.waiting.remove(run, Some(unit)) {
            self.dequeue(&waiting);
        }
    }

    /// The entry of a unit.
    pub fn get(&self, run: RunId, unit: UnitRef) -> Option<&ReadyAttempt> {
        self.waiting.get(run, Some(unit)).map(|waiting| &waiting.ready)
    }

    /// Forgets which entries a run has, to save memory; they keep their places in line. Before any of them is
    /// changed, asked for or parked again, each is to be [known](ReadyQueues::unpark) again.
    pub fn park(&mut self, run: RunId) {
        self.waiting.take(run).drain(|unit, waiting| {
            if waiting.picked {
                self.waiting.insert(run, unit, waiting);
            }
        });
    }

    /// Makes an entry of a parked run known again.
    pub fn unpark(&mut self, ready: &ReadyAttempt) {
        let (run, unit) = (ready.run, Some(ready.unit));
        if self.waiting.get(run, unit).is_none() {
            self.waiting.insert(run, unit, Waiting { ready: ready.clone(), picked: false });
        }
    }

    /// Puts an entry of a parked run in line, without keeping it by run.
    pub fn add_parked(&mut self, ready: &ReadyAttempt) {
        self.enqueue(ready);
    }

    /// Attempts for these offers, at most `limit`, best first, dealt to them in turn. What was picked is not picked
    /// again, nor does it count as waiting, until it is [put back](ReadyQueues::put_back).
    pub fn pick(&mut self, offers: &[Offer], limit: usize) -> Vec<Candidate> {
        if self.in_line == 0 {
            return Vec::new();
        }
        pick::pick(self, offers, limit)
    }

    /// Returns picked entries that are still there to their places in line.
    pub fn put_back(&mut self) {
        for (run, unit) in std::mem::take(&mut self.picked) {
            if let Some(waiting) = self.waiting.get_mut(run, Some(unit))
                && waiting.picked
            {
                waiting.picked = false;
                let ready = waiting.ready.clone();
                self.enqueue(&ready);
            }
        }
    }

    /// Stops giving out entries of this run, new ones too; they stay in line.
    pub fn set_aside(&mut self, run: RunId) {
        self.aside.insert(run);
    }

    /// Gives out entries of this run again.
    pub fn release(&mut self, run: RunId) {
        if !self.aside.remove(&run) {
            return;
        }
        let mut back = Vec::new();
        self.waiting.take(run).drain(|unit, mut waiting| {
            if waiting.picked && !self.picked.contains(&(run, waiting.ready.unit)) {
                waiting.picked = false;
                back.push(waiting.ready.clone());
            }
            self.waiting.insert(run, unit, waiting);
        });
        for ready in &back {
            self.enqueue(ready);
        }
    }

    /// Returns the highest waiting priority of each of these queues that is not empty.
    pub fn highest_waiting(&self, queues: &[Arc<str>]) -> Vec<(Arc<str>, i32)> {
        let highest = |name: &Arc<str>| {
            let queue = &self.queues[*self.names.get(name)?];
            let level = queue.levels.iter().find(|(_, level)| !level.is_empty());
            level.map(|(priority, _)| (name.clone(), priority.0))
        };
        queues.iter().filter_map(highest).collect()
    }

    /// Forgets which flow had the last turn and what is set aside, as a restart does.
    pub fn forget_turns(&mut self) {
        self.put_back();
        for run in std::mem::take(&mut self.aside) {
            self.aside.insert(run);
            self.release(run);
        }
        let before = std::mem::take(self);
        self.waiting = before.waiting;
        for queue in before.queues {
            for (priority, level) in queue.levels {
                level.for_each(|entry| self.enqueue(&entry.into_ready_attempt(&queue.name, priority.0)));
            }
        }
    }

    /// Puts an entry at the end of its flow's line, at its priority.
    fn enqueue(&mut self, ready: &ReadyAttempt) {
        let queue = self.names.get(&ready.queue).copied().unwrap_or_else(|| {
            self.names.insert(ready.queue.clone(), self.queues.len());
            self.queues.push(Queue { name: ready.queue.clone(), levels: BTreeMap::new() });
            self.queues.len() - 1
        });
        let level = self.queues[queue].levels.entry(Reverse(ready.priority)).or_default();
        level.insert(ready, self.turn);
        self.in_line += 1;
    }

    /// Removes an entry from its line; one that was picked is in no line.
    fn dequeue(&mut self, waiting: &Waiting) {
        let Waiting { ready, picked: false } = waiting else { return };
        let Some(queue) = self.names.get(&ready.queue) else { return };
        let levels = &mut self.queues[*queue].levels;
        let Some(level) = levels.get_mut(&Reverse(ready.priority)) else { return };
        self.in_line -= usize::from(level.remove(ready));
        if level.is_empty() && levels.len() > KEPT_EMPTY {
            levels.remove(&Reverse(ready.priority));
        }
    }
}
