//! The history of one run, packed: the facts of all events in one list, and where each event's end.

use unstuck_core::event::{Actor, Event, Fact};
use unstuck_core::evolve::replay;
use unstuck_core::model::run::Run;
use unstuck_core::time::Time;

/// The events of a run. Their numbers are their places.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    heads: Vec<Head>,
    facts: Vec<Fact>,
}

/// An event without its number and its facts.
#[derive(Clone, Debug)]
struct Head {
    at: Time,
    clock: Option<Time>,
    by: Actor,
    generation: u32,
    /// Where its facts end.
    end: u32,
}

impl History {
    pub(super) fn append(&mut self, events: Vec<Event>) {
        for event in events {
            let Event { at, clock, by, generation, facts, .. } = event;
            self.facts.extend(facts);
            let end = u32::try_from(self.facts.len()).unwrap_or(u32::MAX);
            self.heads.push(Head { at, clock, by, generation, end });
        }
    }

    /// Lists the events after number `after`, at most `limit`.
    pub(super) fn after(&self, after: u64, limit: usize) -> impl Iterator<Item = Event> {
        let first = usize::try_from(after).unwrap_or(usize::MAX).min(self.heads.len());
        (first..self.heads.len()).take(limit).map(|place| self.event(place))
    }

    /// Replays all events; `None` if there are none or one cannot be applied.
    pub(super) fn replay(&self) -> Option<Run> {
        let events: Vec<Event> = self.after(0, usize::MAX).collect();
        replay(&events)
    }

    fn event(&self, place: usize) -> Event {
        let Head { at, clock, by, generation, end } = self.heads[place].clone();
        let start = place.checked_sub(1).map_or(0, |before| self.heads[before].end);
        let facts = self.facts[start as usize..end as usize].to_vec();
        Event { seq: place as u64 + 1, generation, at, clock, by, facts }
    }
}
