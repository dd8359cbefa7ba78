//! A fact in its place: between the other facts of its event, with the run and the flow around it.

use crate::event::{Event, Fact, UnitFact};
use crate::model::attempt::Outcome;
use crate::model::flow::{Flow, Step};
use crate::model::run::Run;
use crate::model::unit::{Unit, UnitRef, UnitState};
use crate::reason::phrases;

/// A fact in its place.
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
    /// The place of `fact` in `event`: the very same one, or else the first that is equal.
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

    /// The attempt of this unit that ended last: in this event before this fact, else before the event.
    pub(super) fn last_ended(&self, unit: UnitRef) -> Option<(u32, &'a Outcome)> {
        let here = self.before(unit).rev().find_map(|fact| {
            if let UnitFact::Ended { attempt, outcome } = fact { Some((*attempt, outcome)) } else { None }
        });
        let earlier = || self.unit(unit)?.past.last().map(|past| (past.attempt, &past.outcome));
        here.or_else(earlier)
    }

    /// What this event says about the unit before this fact.
    pub(super) fn before(&self, unit: UnitRef) -> impl DoubleEndedIterator<Item = &'a UnitFact> {
        of_unit(&self.event.facts[..self.place], unit)
    }

    /// What this event says about the unit after this fact.
    pub(super) fn after(&self, unit: UnitRef) -> impl DoubleEndedIterator<Item = &'a UnitFact> {
        of_unit(&self.event.facts[self.place + 1..], unit)
    }

    /// The number of the attempt that was queued here, or that is the unit's latest.
    pub(super) fn attempt(&self, unit: UnitRef) -> Option<u32> {
        let here = self
            .before(unit)
            .rev()
            .find_map(|fact| if let UnitFact::Queued { attempt, .. } = fact { Some(*attempt) } else { None });
        here.or_else(|| self.unit(unit).map(|unit| unit.attempts).filter(|attempts| *attempts > 0))
    }

    /// How many attempts are under way.
    pub(super) fn under_way(&self) -> usize {
        self.run.map_or(0, |run| run.units_where(|unit| matches!(unit.state, UnitState::Active(_))).len())
    }
}

fn of_unit(facts: &[Fact], wanted: UnitRef) -> impl DoubleEndedIterator<Item = &UnitFact> {
    facts.iter().filter_map(move |fact| {
        if let Fact::Unit { unit, fact } = fact
            && *unit == wanted
        {
            return Some(fact);
        }
        None
    })
}
