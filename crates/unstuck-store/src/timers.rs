//! What is due when: one entry for each place of a run, found in order of time.
//!
//! A store that keeps the timers of a run elsewhere can [park](Timers::park) it: they then take up no more than their
//! places in that order.

use std::collections::BTreeSet;
use std::ops::Bound;

use rustc_hash::FxHashSet;
use unstuck_core::decide::LeaseMove;
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;

use crate::by_run::{ByRun, UnitKey};
use crate::contract::Due;

/// The timers of runs and units.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    order: BTreeSet<(Time, RunId, UnitKey)>,
    /// The timers of runs that are not parked, and those that signs of life have moved.
    places: ByRun<Timer>,
    /// Runs whose timers are not given.
    aside: FxHashSet<RunId>,
    /// Their timers that were met so far, by run: each is met once. And those of other runs that are withheld.
    hidden: BTreeSet<(RunId, Time, UnitKey)>,
    /// Those that wait for a turn, in the order in which they get one.
    waiting: BTreeSet<(Time, RunId, UnitKey)>,
}

/// Timers that one of several withholds, for whatever reason.
#[derive(Clone, Debug, Default)]
pub struct WithheldTimers {
    hidden: Vec<(Time, RunId, UnitKey)>,
    waiting: Vec<(Time, RunId, UnitKey)>,
}

/// The timer of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// When it is due.
    pub due: Time,
    /// When it was due before a sign of life moved it.
    pub set: Time,
    /// The last sign of life that moved it.
    pub heard: Option<Time>,
}

impl Timers {
    /// Sets, or removes, the timer of a place. One that was set to the same time before stays as signs of life
    /// have moved it: the attempt is the same one, and its lease lives.
    pub fn set(&mut self, run: RunId, unit: Option<UnitRef>, due: Option<Time>) {
        let Some(due) = due else { return self.remove(run, unit) };
        if let Some(timer) = self.places.get_mut(run, unit) {
            if timer.set == due {
                return;
            }
            let before = std::mem::replace(timer, Timer { due, set: due, heard: None });
            self.leave(before.due, run, unit);
        } else {
            self.places.insert(run, unit, Timer { due, set: due, heard: None });
        }
        self.order.insert((due, run, unit));
    }

    /// Sets the timers of a run to these, each place once, and removes the others.
    pub fn set_all(&mut self, run: RunId, timers: impl Iterator<Item = (Option<UnitRef>, Time)>) {
        let mut old = self.places.take(run);
        for (unit, due) in timers {
            let timer = match old.remove(unit) {
                Some(timer) if timer.set == due => timer,
                Some(timer) => {
                    self.leave(timer.due, run, unit);
                    Timer { due, set: due, heard: None }
                }
                None => Timer { due, set: due, heard: None },
            };
            self.order.insert((timer.due, run, unit));
            // It is in one of the two only.
            if !self.waiting.is_empty() {
                self.waiting.remove(&(timer.due, run, unit));
            }
            self.places.insert(run, unit, timer);
        }
        old.drain(|unit, timer| self.leave(timer.due, run, unit));
    }

    /// A sign of life moves the timer of a unit; a unit without a timer has no lease to move.
    pub fn move_lease(&mut self, run: RunId, lease: LeaseMove) {
        let unit = Some(lease.unit);
        if let Some(timer) = self.places.get_mut(run, unit) {
            let before = std::mem::replace(&mut timer.due, lease.due);
            timer.heard = timer.heard.max(Some(lease.heard));
            self.leave(before, run, unit);
            self.order.insert((lease.due, run, unit));
        }
    }

    /// The clock was set: leases that signs of life have moved go on from there, by the clock as it is now. What else is
    /// due is set again with the change that this comes with.
    pub fn shift(&mut self, run: RunId, by: i64) {
        let timers = self.places.take(run);
        let mut moved = Vec::new();
        timers.drain(|unit, timer| {
            self.leave(timer.due, run, unit);
            let heard = timer.heard.map(|heard| heard.shifted(by));
            moved.push((unit, Timer { due: timer.due.shifted(by), set: timer.set.shifted(by), heard }));
        });
        for (unit, timer) in moved {
            self.order.insert((timer.due, run, unit));
            self.places.insert(run, unit, timer);
        }
    }

    /// Timers after this one, at most `limit`: by time, then by run and place. Those that wait for a turn are among them, and
    /// those that are hidden.
    pub fn after(&self, after: Option<(Time, RunId, UnitKey)>, limit: usize) -> Vec<Due> {
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let order = self.order.range(range).take(limit).copied();
        let waiting = self.waiting.range(range).take(limit).copied();
        let hidden = self.hidden.iter().map(|(run, due, unit)| (*due, *run, *unit));
        let hidden = hidden.filter(|entry| after.is_none_or(|after| *entry > after));
        let mut all: Vec<_> = order.chain(waiting).chain(hidden).collect();
        all.sort_unstable();
        all.truncate(limit);
        all.iter().map(|entry| self.entry(entry)).collect()
    }

    /// Forgets which timers a run has; they are due as before. Before any of them is changed, asked for or parked
    /// again, each is to be [known](Timers::unpark) again.
    pub fn park(&mut self, run: RunId) {
        self.places.take(run).drain(|unit, timer| {
            if timer.was_moved() {
                self.places.insert(run, unit, timer);
            }
        });
    }

    /// A timer of a parked run is known again. One that has moved since it was kept is known, and stays so.
    pub fn unpark(&mut self, run: RunId, unit: Option<UnitRef>, timer: Timer) {
        if self.places.get(run, unit).is_none() {
            self.places.insert(run, unit, timer);
        }
    }

    /// Adds a timer of a run that is parked.
    pub fn add_parked(&mut self, run: RunId, unit: Option<UnitRef>, timer: Timer) {
        self.order.insert((timer.due, run, unit));
        if timer.was_moved() {
            self.places.insert(run, unit, timer);
        }
    }

    /// Removes the timer of a place.
    pub fn remove(&mut self, run: RunId, unit: Option<UnitRef>) {
        if let Some(timer) = self.places.remove(run, unit) {
            self.leave(timer.due, run, unit);
        }
    }

    /// When the first timer of a run that is not parked is due. Of very many, some are looked at.
    pub fn first_of(&self, run: RunId) -> Option<Time> {
        const MOST: usize = 32;
        self.places.of_run(run).take(MOST).map(|timer| timer.due).min()
    }

    /// The timer of a place.
    pub fn get(&self, run: RunId, unit: Option<UnitRef>) -> Option<Timer> {
        self.places.get(run, unit).copied()
    }

    /// What is due at `now`, at most `limit`: by time, then by run and place.
    pub fn due(&mut self, now: Time, limit: usize) -> Vec<Due> {
        self.hide(now, limit);
        let due = self.order.iter().take_while(|(due, ..)| *due <= now).take(limit);
        due.map(|entry| self.entry(entry)).collect()
    }

    fn entry(&self, &(due, run, unit): &(Time, RunId, UnitKey)) -> Due {
        let heard = self.places.get(run, unit).and_then(|timer| timer.heard);
        Due { due, run, unit, heard }
    }

    /// When the next one is due.
    pub fn next_due(&mut self) -> Option<Time> {
        self.hide(Time(i64::MAX), 1);
        self.order.first().map(|(due, ..)| *due)
    }

    /// Leaves this out of what is due, until the timer is set to another time or all are [brought
    /// back](Timers::bring_back).
    pub fn withhold(&mut self, due: &Due) {
        if self.order.remove(&(due.due, due.run, due.unit)) {
            self.hidden.insert((due.run, due.due, due.unit));
        }
    }

    /// Leaves this out of what is due, until it is given a turn, the timer is set to another time or all are [brought
    /// back](Timers::bring_back).
    pub fn wait_for_turn(&mut self, due: &Due) {
        if self.order.remove(&(due.due, due.run, due.unit)) {
            self.waiting.insert((due.due, due.run, due.unit));
        }
    }

    /// The first that wait for a turn are due again, at most `limit`. Gives how many.
    pub fn give_turns(&mut self, limit: usize) -> usize {
        let mut given = 0;
        while given < limit
            && let Some(first) = self.waiting.pop_first()
        {
            self.order.insert(first);
            given += 1;
        }
        given
    }

    /// Brings everything back, and gives what was withheld.
    pub fn take_withheld(&mut self) -> WithheldTimers {
        let hidden: Vec<_> = self.hidden.iter().map(|(run, due, unit)| (*due, *run, *unit)).collect();
        let waiting = self.waiting.iter().copied().collect();
        self.bring_back();
        WithheldTimers { hidden, waiting }
    }

    /// Withholds these again, as far as they are due when they were.
    pub fn withhold_again(&mut self, withheld: WithheldTimers) {
        for entry in withheld.hidden {
            let due = self.entry(&entry);
            self.withhold(&due);
        }
        for entry in withheld.waiting {
            let due = self.entry(&entry);
            self.wait_for_turn(&due);
        }
    }

    /// What was withheld is due again, and so is what waits for a turn.
    pub fn bring_back(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        self.order.extend(hidden.into_iter().map(|(run, due, unit)| (due, run, unit)));
        self.order.append(&mut self.waiting);
    }

    /// The timers of this run are not given any more, those that are set later neither. They are kept as before.
    pub fn set_aside(&mut self, run: RunId) {
        self.aside.insert(run);
    }

    /// The timers of this run are given again.
    pub fn release(&mut self, run: RunId) {
        self.aside.remove(&run);
        let from = (run, Time(i64::MIN), None);
        let own = self.hidden.range(from..).take_while(|(of, ..)| *of == run).copied().collect::<Vec<_>>();
        for (run, due, unit) in own {
            self.hidden.remove(&(run, due, unit));
            self.order.insert((due, run, unit));
        }
    }

    /// Moves what is not given out of the way of the first `limit` that are.
    fn hide(&mut self, now: Time, limit: usize) {
        if self.aside.is_empty() {
            return;
        }
        let (mut met, mut given) = (Vec::new(), 0);
        for entry in self.order.iter().take_while(|(due, ..)| *due <= now) {
            if self.aside.contains(&entry.1) {
                met.push(*entry);
            } else if given + 1 < limit {
                given += 1;
            } else {
                break;
            }
        }
        for (due, run, unit) in met {
            self.order.remove(&(due, run, unit));
            self.hidden.insert((run, due, unit));
        }
    }

    fn leave(&mut self, due: Time, run: RunId, unit: UnitKey) {
        self.order.remove(&(due, run, unit));
        if !self.hidden.is_empty() {
            self.hidden.remove(&(run, due, unit));
        }
        if !self.waiting.is_empty() {
            self.waiting.remove(&(due, run, unit));
        }
    }
}

impl Timer {
    /// Whether a sign of life has moved it.
    pub fn was_moved(&self) -> bool {
        self.heard.is_some() || self.due != self.set
    }
}
