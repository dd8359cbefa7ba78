//! A fact with its context: the other facts of its event, the run and the flow.

use crate::event::{Event, Fact, UnitFact};
use crate::model::attempt::Outcome;
use crate::model::flow::{Flow, Step};
use crate::model::run::Run;
use crate::model::unit::{Unit, UnitRef, UnitState};
use crate::reason::phrases;

/// A fact with its context.
#[derive(Clone, Copy)]
pub(super) struct FactContext<'a> {
    pub(super) flow: &'a Flow,
    /// The run after the fact, or after the whole event.
    pub(super) run: Option<&'a Run>,
    pub(super) event: &'a Event,
    /// The place of the fact among those of the event.
    pub(super) place: usize,
}

impl<'a> FactContext<'a> {
    /// Finds `fact` in `event` by identity, else the first that is equal.
    pub(super) fn of(
        flow: &'a Flow,
        run: Option<&'a Run>,
        event: &'a Event,
        fact: &Fact,
    ) -> Option<FactContext<'a>> {
        let same = event.facts.iter().position(|other| std::ptr::eq(other, fact));
        let place = same.or_else(|| event.facts.iter().position(|other| other == fact))?;
        Some(FactContext { flow, run, event, place })
    }

    pub(super) fn fact(&self) -> &'a Fact {
        &self.event.facts[self.place]
    }

    /// The unit as it stands.
    pub(super) fn unit(&self, unit: UnitRef) -> Option<&'a Unit> {
        self.run.and_then(|run| run.unit(unit))
    }

    pub(super) fn step(&self, unit: UnitRef) -> Option<&'a Step> {
        phrases::find_step(self.flow, unit.step)
    }

    pub(super) fn name(&self, unit: UnitRef) -> String {
        phrases::name(self.flow, unit)
    }

    /// Returns the attempt of this unit that ended last: in this event before this fact, else before the event.
    pub(super) fn last_ended_attempt(&self, unit: UnitRef) -> Option<(u32, &'a Outcome)> {
        let here = self.facts_before(unit).rev().find_map(|fact| {
            if let UnitFact::Ended { attempt, outcome } = fact { Some((*attempt, outcome)) } else { None }
        });
        let earlier = || self.unit(unit)?.past.last().map(|past| (past.attempt, &past.outcome));
        here.or_else(earlier)
    }

    /// Iterates over the facts of this event about the unit before this fact.
    pub(super) fn facts_before(&self, unit: UnitRef) -> impl DoubleEndedIterator<Item = &'a UnitFact> {
        facts_of_unit(&self.event.facts[..self.place], unit)
    }

    /// Iterates over the facts of this event about the unit after this fact.
    pub(super) fn facts_after(&self, unit: UnitRef) -> impl DoubleEndedIterator<Item = &'a UnitFact> {
        facts_of_unit(&self.event.facts[self.place + 1..], unit)
    }

    /// Returns the number of the attempt that was queued in this event, else of the unit's latest.
    pub(super) fn latest_attempt(&self, unit: UnitRef) -> Option<u32> {
        let here = self
            .facts_before(unit)
            .rev()
            .find_map(|fact| if let UnitFact::Queued { attempt, .. } = fact { Some(*attempt) } else { None });
        here.or_else(|| self.unit(unit).map(|unit| unit.attempts).filter(|attempts| *attempts > 0))
    }

    /// Counts the attempts under way.
    pub(super) fn count_active(&self) -> usize {
        self.run.map_or(0, |run| run.units_where(|unit| matches!(unit.state, UnitState::Active(_))).len())
    }
}

/// Filters the facts about one unit.
fn facts_of_unit(facts: &[Fact], wanted: UnitRef) -> impl DoubleEndedIterator<Item = &UnitFact> {
    facts.iter().filter_map(move |fact| {
        if let Fact::Unit { unit, fact } = fact
            && *unit == wanted
        {
            return Some(fact);
        }
        None
    })
}
