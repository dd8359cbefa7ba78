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
    /// Sets or removes the timer of a place. One set to the same time again keeps what heartbeats have moved: it is
    /// the same attempt, and its lease lives.
    pub fn set(&mut self, run: RunId, unit: Option<UnitRef>, due: Option<Time>) {
        let Some(due) = due else { return self.remove(run, unit) };
        if let Some(timer) = self.places.get_mut(run, unit) {
            if timer.set == due {
                return;
            }
            let before = std::mem::replace(timer, Timer { due, set: due, heard: None });
            self.remove_entry(before.due, run, unit);
        } else {
            self.places.insert(run, unit, Timer { due, set: due, heard: None });
        }
        self.order.insert((due, run, unit));
    }

    /// Replaces the timers of a run; each place has at most one.
    pub fn set_all(&mut self, run: RunId, timers: impl Iterator<Item = (Option<UnitRef>, Time)>) {
        let mut old = self.places.take(run);
        for (unit, due) in timers {
            let timer = match old.remove(unit) {
                Some(timer) if timer.set == due => timer,
                Some(timer) => {
                    self.remove_entry(timer.due, run, unit);
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
        old.drain(|unit, timer| self.remove_entry(timer.due, run, unit));
    }

    /// Moves the timer of a unit after a heartbeat; a unit without a timer has no lease to move.
    pub fn move_lease(&mut self, run: RunId, lease: LeaseMove) {
        let unit = Some(lease.unit);
        if let Some(timer) = self.places.get_mut(run, unit) {
            let before = std::mem::replace(&mut timer.due, lease.due);
            timer.heard = timer.heard.max(Some(lease.heard));
            self.remove_entry(before, run, unit);
            self.order.insert((lease.due, run, unit));
        }
    }

    /// Moves leases that heartbeats have moved by as much as the clock was set. Other timers are set again by the
    /// change that this comes with.
    pub fn shift_moved_leases(&mut self, run: RunId, by: i64) {
        let timers = self.places.take(run);
        let mut moved = Vec::new();
        timers.drain(|unit, timer| {
            self.remove_entry(timer.due, run, unit);
            let heard = timer.heard.map(|heard| heard.shifted(by));
            moved.push((unit, Timer { due: timer.due.shifted(by), set: timer.set.shifted(by), heard }));
        });
        for (unit, timer) in moved {
            self.order.insert((timer.due, run, unit));
            self.places.insert(run, unit, timer);
        }
    }

    /// Lists timers after this one in order of time, then of run and place, at most `limit`: withheld and hidden ones
    /// too.
    pub fn list_after(&self, after: Option<(Time, RunId, UnitKey)>, limit: usize) -> Vec<Due> {
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let order = self.order.range(range).take(limit).copied();
        let waiting = self.waiting.range(range).take(limit).copied();
        let hidden = self.hidden.iter().map(|(run, due, unit)| (*due, *run, *unit));
        let hidden = hidden.filter(|entry| after.is_none_or(|after| *entry > after));
        let mut all: Vec<_> = order.chain(waiting).chain(hidden).collect();
        all.sort_unstable();
        all.truncate(limit);
        all.iter().map(|entry| self.due_entry(entry)).collect()
    }

    /// Forgets which timers a run has, to save memory; they stay due. Before any of them is changed, asked for or
    /// parked again, each is to be [known](Timers::unpark) again.
    pub fn park(&mut self, run: RunId) {
        self.places.take(run).drain(|unit, timer| {
            if timer.was_moved() {
                self.places.insert(run, unit, timer);
            }
        });
    }

    /// Makes a timer of a parked run known again. One that is known already may have moved since, and stays.
    pub fn unpark(&mut self, run: RunId, unit: Option<UnitRef>, timer: Timer) {
        if self.places.get(run, unit).is_none() {
            self.places.insert(run, unit, timer);
        }
    }

    /// Adds a timer of a parked run, without keeping it by run.
    pub fn add_parked(&mut self, run: RunId, unit: Option<UnitRef>, timer: Timer) {
        self.order.insert((timer.due, run, unit));
        if timer.was_moved() {
            self.places.insert(run, unit, timer);
        }
    }

    pub fn remove(&mut self, run: RunId, unit: Option<UnitRef>) {
        if let Some(timer) = self.places.remove(run, unit) {
            self.remove_entry(timer.due, run, unit);
        }
    }

    /// Returns when the first timer of a run that is not parked is due. Of very many only some are looked at.
    pub fn first_due_of(&self, run: RunId) -> Option<Time> {
        const MOST: usize = 32;
        self.places.of_run(run).take(MOST).map(|timer| timer.due).min()
    }

    pub fn get(&self, run: RunId, unit: Option<UnitRef>) -> Option<Timer> {
        self.places.get(run, unit).copied()
    }

    /// Lists what is due at `now` in order of time, then of run and place, at most `limit`.
    pub fn due(&mut self, now: Time, limit: usize) -> Vec<Due> {
        self.hide_set_aside(now, limit);
        let due = self.order.iter().take_while(|(due, ..)| *due <= now).take(limit);
        due.map(|entry| self.due_entry(entry)).collect()
    }

    fn due_entry(&self, &(due, run, unit): &(Time, RunId, UnitKey)) -> Due {
        let heard = self.places.get(run, unit).and_then(|timer| timer.heard);
        Due { due, run, unit, heard }
    }

    /// Returns when the next timer is due, leaving out what is withheld or set aside.
    pub fn next_due(&mut self) -> Option<Time> {
        self.hide_set_aside(Time(i64::MAX), 1);
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

    /// Makes the first timers that wait for a turn due again, at most `limit`, and returns how many.
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

    /// Brings everything back, and returns what was withheld.
    pub fn take_withheld(&mut self) -> WithheldTimers {
        let hidden: Vec<_> = self.hidden.iter().map(|(run, due, unit)| (*due, *run, *unit)).collect();
        let waiting = self.waiting.iter().copied().collect();
        self.bring_back();
        WithheldTimers { hidden, waiting }
    }

    /// Withholds these again, except timers that have moved since.
    pub fn withhold_again(&mut self, withheld: WithheldTimers) {
        for entry in withheld.hidden {
            let due = self.due_entry(&entry);
            self.withhold(&due);
        }
        for entry in withheld.waiting {
            let due = self.due_entry(&entry);
            self.wait_for_turn(&due);
        }
    }

    /// Makes everything due again that was withheld or waits for a turn.
    pub fn bring_back(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        self.order.extend(hidden.into_iter().map(|(run, due, unit)| (due, run, unit)));
        self.order.append(&mut self.waiting);
    }

    /// Stops giving out timers of this run, later ones too; they stay as they are.
    pub fn set_aside(&mut self, run: RunId) {
        self.aside.insert(run);
    }

    /// Gives out timers of this run again.
    pub fn release(&mut self, run: RunId) {
        self.aside.remove(&run);
        let from = (run, Time(i64::MIN), None);
        let own = self.hidden.range(from..).take_while(|(of, ..)| *of == run).copied().collect::<Vec<_>>();
        for (run, due, unit) in own {
            self.hidden.remove(&(run, due, unit));
            self.order.insert((due, run, unit));
        }
    }

    /// Moves due timers of runs that are set aside out of the order, until the first `limit` in it can be given out.
    /// Done when it is needed: a run may have very many timers.
    fn hide_set_aside(&mut self, now: Time, limit: usize) {
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

    /// Removes a timer from wherever it is: in order, hidden, or waiting for a turn.
    fn remove_entry(&mut self, due: Time, run: RunId, unit: UnitKey) {
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
    /// Returns whether a heartbeat has moved it since it was set.
    pub fn was_moved(&self) -> bool {
        self.heard.is_some() || self.due != self.set
    }
}
