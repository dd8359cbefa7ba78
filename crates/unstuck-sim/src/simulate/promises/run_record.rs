//! The book of one run: every event of it that became durable, and what follows from them.

use std::collections::BTreeMap;

use unstuck_core::command::Report;
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::evolve::evolve;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_store::verify::{self, history::HistoryCheck};

use super::dues::Due;
use super::matching::says_the_same;
use super::model::RunModel;
use super::recount::Recount;
use super::{Broken, Promise, is_under_way};

/// What is known for good of one run.
#[derive(Debug)]
pub(super) struct RunRecord {
    pub(super) events: Vec<Event>,
    pub(super) history: HistoryCheck,
    /// The units of this generation, counted again.
    pub(super) units: BTreeMap<UnitRef, Recount>,
    /// How often it was looked at.
    pub(super) looks: u32,
    /// The run as a second model has it.
    pub(super) model: RunModel,
    /// What it has taken in of corrections of the clock.
    pub(super) clock: i64,
    /// When it is given up on.
    pub(super) deadline: Option<Due>,
}

impl RunRecord {
    pub(super) fn new(run: RunId) -> RunRecord {
        RunRecord {
            events: Vec::new(),
            history: HistoryCheck::new(run),
            units: BTreeMap::new(),
            looks: 0,
            model: RunModel::default(),
            clock: 0,
            deadline: None,
        }
    }

    /// The state that its events give.
    pub(super) fn run(&self) -> Option<&Run> {
        self.history.run()
    }

    /// The number of its last event.
    pub(super) fn seq(&self) -> u64 {
        self.history.seq()
    }

    /// When an attempt that was under way was no longer, by the clock as it was then.
    pub(super) fn ended_at(&self, id: AttemptId) -> Option<Time> {
        let (mut run, mut was_under_way, mut ended) = (None, false, None);
        for event in &self.events {
            evolve(&mut run, event);
            let is_now = run.as_ref().is_some_and(|run| is_under_way(run, id));
            if was_under_way && !is_now {
                ended = Some(event.time());
            }
            was_under_way = is_now;
        }
        ended
    }

    /// Whether the worker of this attempt has said this before: each answer may be repeated safely.
    pub(super) fn has_heard(&self, id: AttemptId, says: &Report) -> bool {
        let of_generation = self.events.iter().filter(|event| event.generation == id.generation);
        of_generation.flat_map(|event| &event.facts).any(|fact| match fact {
            Fact::Unit { unit, fact: UnitFact::Ended { attempt, outcome } } => {
                *unit == id.unit && *attempt == id.attempt && says_the_same(says, outcome)
            }
            Fact::Unit { unit, fact: UnitFact::Started { .. } } => {
                *unit == id.unit && matches!(says, Report::Start)
            }
            _ => false,
        })
    }

    /// Writes an event down; its units are counted again already.
    pub(super) fn write(&mut self, event: Event) -> Result<(), Broken> {
        let mut findings = Vec::new();
        self.history.check_event(&event, &mut findings);
        if let Some(finding) = findings.into_iter().next() {
            let promise = match finding.promise {
                verify::Promise::Final => Promise::Final,
                verify::Promise::Once => Promise::Once,
                verify::Promise::Time => Promise::Time,
                _ => Promise::Replayed,
            };
            let run = self.events.first().and_then(|event| match event.facts.first() {
                Some(Fact::Started(started)) => Some(started.run),
                _ => None,
            });
            return Err(Broken { promise, run, what: format!("{}: {}", finding.place, finding.what) });
        }
        self.check_counts(&event)?;
        self.events.push(event);
        Ok(())
    }

    /// The rounds that the state has are those that the events give.
    fn check_counts(&self, event: &Event) -> Result<(), Broken> {
        let Some(run) = self.history.run() else { return Ok(()) };
        for fact in &event.facts {
            let Fact::Unit { unit, .. } = fact else { continue };
            let (Some(state), Some(recount)) = (run.unit(*unit), self.units.get(unit)) else { continue };
            if let Some(what) = recount.differs(&state.round) {
                let what =
                    format!("event {}, step {}: {what}", event.seq, verify::history::describe_unit(*unit));
                return Err(Broken::of(Promise::Budgets, run.id, what));
            }
        }
        Ok(())
    }
}
