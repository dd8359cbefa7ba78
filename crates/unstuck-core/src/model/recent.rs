//! The attempts of a run that ended last, kept in order, so that reading them does not visit every unit.

use serde::{Deserialize, Serialize};

use crate::model::attempt::PastAttempt;
use crate::model::flow::StepIndex;
use crate::model::run::Run;
use crate::model::unit::{EarlierAttempt, StepRun, Unit, UnitRef};
use crate::time::Time;

/// How many ended attempts of a run are kept in order, over the generations; the history has all of them.
pub const RECENT_ATTEMPTS: usize = 20;

/// Refers to an attempt that has ended; orders by its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecentAttempt {
    pub generation: u32,
    pub ended_at: Time,
    pub unit: UnitRef,
    pub attempt: u32,
}

/// A run with at most this many steps and no items has few attempts: they are sorted when they are read.
const FEW_STEPS: usize = 32;

impl Run {
    /// Iterates over the attempts that ended last, oldest first, at most [`RECENT_ATTEMPTS`], with their units and
    /// generations. Attempts of earlier generations are included as far as this generation continues them.
    pub fn recent_attempts(&self) -> impl Iterator<Item = (UnitRef, u32, &PastAttempt)> {
        let is_in_order = !self.recent.is_empty() || self.steps.len() > FEW_STEPS;
        let names = if is_in_order { self.recent.clone() } else { self.recent_attempts_of_steps() };
        let found =
            |recent: RecentAttempt| Some((recent.unit, recent.generation, self.find_attempt(&recent)?));
        names.into_iter().filter_map(found)
    }

    /// Inserts an attempt that is about to end into the ordered list. The list is built only once the run has many
    /// steps or an item; before, it stays empty.
    pub(crate) fn record_recent_attempt(&mut self, unit: UnitRef, attempt: u32, ended_at: Time) {
        if self.recent.is_empty() {
            if unit.item.is_none() && self.steps.len() <= FEW_STEPS {
                return;
            }
            self.recent = self.recent_attempts_of_steps();
        }
        let recent = RecentAttempt { generation: self.generation, ended_at, unit, attempt };
        let place = self.recent.partition_point(|other| *other <= recent);
        if self.recent.len() < RECENT_ATTEMPTS {
            self.recent.insert(place, recent);
        } else if place > 0 {
            self.recent[..place].rotate_left(1);
            self.recent[place - 1] = recent;
        }
    }

    /// Builds the list of a run that has more steps than before, and so many that it is kept.
    pub(crate) fn begin_recent_attempts(&mut self) {
        if self.recent.is_empty() && self.steps.len() > FEW_STEPS {
            self.recent = self.recent_attempts_of_steps();
        }
    }

    /// Rebuilds the list at the start of a generation, without attempts of steps that start from scratch.
    pub(crate) fn rebuild_recent_attempts(&mut self) {
        if self.recent.is_empty() {
            return;
        }
        let mut all = self.recent_attempts_of_steps();
        let generation = self.generation;
        self.each_unit(|unit, state| {
            if unit.item.is_some() {
                add_attempts(&mut all, unit, generation, state);
            }
        });
        self.recent = last_of(all);
    }

    /// Sorts the ended attempts of all steps, items excluded, and returns the last ones.
    fn recent_attempts_of_steps(&self) -> Vec<RecentAttempt> {
        let mut all = Vec::new();
        for (place, step) in (0..=u16::MAX).map(StepIndex).zip(&self.steps) {
            let unit = UnitRef::step(place);
            match step {
                StepRun::Single(state) => add_attempts(&mut all, unit, self.generation, state),
                // Attempts that a fan-out made itself, before its list was known.
                StepRun::Items(items) => add_earlier_attempts(&mut all, unit, &items.earlier),
            }
        }
        last_of(all)
    }

    /// Moves the ends of attempts by a correction of the clock.
    pub(crate) fn shift_recent_attempts(&mut self, by: i64) {
        self.recent.iter_mut().for_each(|recent| recent.ended_at = recent.ended_at.shifted(by));
        self.recent.sort_unstable();
    }

    /// Finds the attempt that an entry refers to, in this generation or in the attempts kept from earlier ones.
    fn find_attempt(&self, recent: &RecentAttempt) -> Option<&PastAttempt> {
        let in_earlier = |earlier: &'_ [EarlierAttempt]| {
            earlier.iter().position(|earlier| {
                (earlier.generation, earlier.past.attempt) == (recent.generation, recent.attempt)
            })
        };
        match (self.steps.get(usize::from(recent.unit.step.0))?, recent.unit.item) {
            (StepRun::Items(items), None) => in_earlier(&items.earlier).map(|at| &items.earlier[at].past),
            (StepRun::Single(_), _) | (StepRun::Items(_), Some(_)) => {
                let Unit { past, earlier, .. } = self.unit(recent.unit)?;
                if recent.generation == self.generation {
                    return past.iter().find(|past| past.attempt == recent.attempt);
                }
                in_earlier(earlier).map(|at| &earlier[at].past)
            }
        }
    }
}

/// Adds all ended attempts of a unit.
fn add_attempts(all: &mut Vec<RecentAttempt>, unit: UnitRef, generation: u32, state: &Unit) {
    add_earlier_attempts(all, unit, &state.earlier);
    all.extend(state.past.iter().map(|past| recent_attempt(unit, generation, past)));
}

/// Adds attempts of earlier generations.
fn add_earlier_attempts(all: &mut Vec<RecentAttempt>, unit: UnitRef, earlier: &[EarlierAttempt]) {
    all.extend(earlier.iter().map(|earlier| recent_attempt(unit, earlier.generation, &earlier.past)));
}

fn recent_attempt(unit: UnitRef, generation: u32, past: &PastAttempt) -> RecentAttempt {
    RecentAttempt { generation, ended_at: past.ended_at, unit, attempt: past.attempt }
}

fn last_of(mut all: Vec<RecentAttempt>) -> Vec<RecentAttempt> {
    all.sort_unstable();
    all.split_off(all.len().saturating_sub(RECENT_ATTEMPTS))
}
