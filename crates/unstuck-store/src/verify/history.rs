//! What a history must be, looked at event by event while the state that it gives is made again.

use std::collections::BTreeMap;

use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::evolve::evolve;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;

use crate::invariants::is_final_after;
use crate::verify::{FORGET, Finding, Promise};

/// The history of one run, as far as it has been read.
#[derive(Debug)]
pub struct HistoryCheck {
    id: RunId,
    run: Option<Run>,
    seq: u64,
    at: Option<Time>,
    generation: u32,
    is_final: bool,
    steps: u16,
    units: BTreeMap<UnitRef, Seen>,
    /// Whether a person started this generation.
    by_user: bool,
    input_of: InputOf,
    /// Whether the events so far make sense, so that the next one can be applied.
    is_sound: bool,
}

/// Whose input a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputOf {
    Start,
    Operator,
}

/// What the events of this generation say about a unit.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The highest attempt that has a number.
    numbered: u32,
    /// The highest attempt that has ended.
    ended: u32,
    is_done: bool,
}

impl HistoryCheck {
    /// The history of this run, before its first event.
    pub fn new(id: RunId) -> HistoryCheck {
        HistoryCheck {
            id,
            run: None,
            seq: 0,
            at: None,
            generation: 0,
            is_final: false,
            steps: 0,
            units: BTreeMap::new(),
            by_user: false,
            input_of: InputOf::Start,
            is_sound: true,
        }
    }

    /// Returns the run as the events so far give it; `None` once one of them could not be applied.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref().filter(|_| self.is_sound)
    }

    /// As [`HistoryCheck::run`], by value.
    pub fn into_run(self) -> Option<Run> {
        self.run.filter(|_| self.is_sound)
    }

    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn last_time(&self) -> Option<Time> {
        self.at
    }

    /// Returns whether a person started this generation, rather than a parent.
    pub fn was_started_by_user(&self) -> bool {
        self.by_user
    }

    /// Returns whether an operator has changed the input since the last start or rerun with one.
    pub fn is_input_changed(&self) -> bool {
        self.input_of == InputOf::Operator
    }

    /// Notes that an event could not be read: those after it cannot be applied.
    pub fn mark_unreadable(&mut self) {
        self.seq += 1;
        self.is_sound = false;
    }

    /// Checks that the next event may follow, then applies it.
    pub fn check_event(&mut self, event: &Event, findings: &mut Vec<Finding>) {
        self.check_number(event, findings);
        self.check_time(event, findings);
        if !self.is_sound {
            return;
        }
        for (place, fact) in event.facts.iter().enumerate() {
            if let Err(finding) = self.check_fact(event, place, fact) {
                self.is_sound &= finding.promise != Promise::History;
                findings.push(finding);
            }
            if !self.is_sound {
                return;
            }
            self.is_final = is_final_after(self.is_final, fact);
            if let Fact::InputChanged { digest, .. } = fact {
                self.input_of = if digest.is_none() { InputOf::Operator } else { InputOf::Start };
            }
        }
        evolve(&mut self.run, event);
        let found = self.run.as_ref().map_or(0, |run| run.generation);
        if found != event.generation {
            let said = event.generation;
            let what = format!("it names generation {said}, but belongs to generation {found}");
            findings.push(self.finding(Promise::History, event, what));
        }
        self.generation = found;
    }

    fn check_number(&mut self, event: &Event, findings: &mut Vec<Finding>) {
        let wanted = self.seq + 1;
        if event.seq != wanted {
            let what = format!("it is where event {wanted} must be: the history has a gap or a duplicate");
            findings.push(self.finding(Promise::History, event, what));
            self.is_sound = false;
        }
        self.seq = event.seq;
    }

    fn check_time(&mut self, event: &Event, findings: &mut Vec<Finding>) {
        if let Some(before) = self.at.filter(|before| event.at < *before) {
            let what = format!("its time is {}, but the event before it has {before}", event.at);
            findings.push(self.finding(Promise::Time, event, what));
        }
        self.at = self.at.max(Some(event.at));
    }

    fn check_fact(&mut self, event: &Event, place: usize, fact: &Fact) -> Result<(), Finding> {
        let is_start = matches!(fact, Fact::Started(_));
        if is_start != (event.seq == 1 && place == 0) {
            let what =
                if is_start { "it starts a run that already exists" } else { "it does not start the run" };
            return Err(self.finding(Promise::History, event, what));
        }
        match fact {
            Fact::Started(started) => {
                if started.run != self.id {
                    let what = format!("it starts another run, {}", started.run);
                    return Err(self.finding(Promise::History, event, what));
                }
                (self.generation, self.steps) = (1, started.steps);
                self.by_user = matches!(event.by, Actor::User(_));
            }
            Fact::Reran { .. } => self.check_rerun(event, fact)?,
            Fact::Migrated(migrated) if !self.is_final => {
                let begun = |step: u16| self.units.keys().any(|unit| unit.step.0 == step);
                if let Some(step) = (migrated.steps..self.steps).find(|step| begun(*step)) {
                    return Err(self.unknown_step(event, StepIndex(step), migrated.steps));
                }
                self.steps = migrated.steps;
            }
            _ if self.is_final => {
                let what = format!("it changes generation {}, which was already final", self.generation);
                return Err(self.finding(Promise::Final, event, what));
            }
            _ => {}
        }
        self.check_step(event, fact)?;
        match fact {
            Fact::Unit { unit, fact } => self.check_unit(event, *unit, fact),
            _ => Ok(()),
        }
    }

    /// A rerun follows a final generation, and keeps what steps have come to.
    fn check_rerun(&mut self, event: &Event, fact: &Fact) -> Result<(), Finding> {
        let Fact::Reran { generation, steps, keep, .. } = fact else { return Ok(()) };
        if !self.is_final || *generation != self.generation + 1 {
            let is = if self.is_final { "final" } else { "not final" };
            let what = format!(
                "it starts generation {generation}, but generation {} before it is {is}",
                self.generation
            );
            return Err(self.finding(Promise::Final, event, what));
        }
        let fewer = self.steps.min(*steps);
        if let Some(step) = keep.iter().find(|step| step.0 >= fewer) {
            return Err(self.unknown_step(event, *step, fewer));
        }
        (self.generation, self.steps) = (*generation, *steps);
        self.by_user = matches!(event.by, Actor::User(_));
        self.units.retain(|unit, seen| keep.contains(&unit.step) && seen.is_done);
        for seen in self.units.values_mut() {
            *seen = Seen { is_done: true, ..Seen::default() };
        }
        Ok(())
    }

    fn check_step(&self, event: &Event, fact: &Fact) -> Result<(), Finding> {
        let step = match fact {
            Fact::Unit { unit, .. } => unit.step,
            Fact::ItemsKnown { step, .. }
            | Fact::ItemsCompleted { step, .. }
            | Fact::ItemsEnded { step, .. } => *step,
            _ => return Ok(()),
        };
        if step.0 < self.steps { Ok(()) } else { Err(self.unknown_step(event, step, self.steps)) }
    }

    fn unknown_step(&self, event: &Event, step: StepIndex, steps: u16) -> Finding {
        let what = format!("it names step #{}, but the run has {steps} steps", step.0);
        self.finding(Promise::History, event, what)
    }

    /// Attempts are numbered from 1 and end once; what is completed is not run again.
    fn check_unit(&mut self, event: &Event, unit: UnitRef, fact: &UnitFact) -> Result<(), Finding> {
        let seen = self.units.entry(unit).or_default();
        let before = *seen;
        let mut wrong = None;
        match fact {
            UnitFact::Queued { attempt, .. } => {
                if *attempt != before.numbered + 1 {
                    wrong = Some(format!("it queues attempt {attempt} after attempt {}", before.numbered));
                }
                seen.numbered = before.numbered.max(*attempt);
            }
            UnitFact::ChildStarted { attempt, .. } => {
                let is_queued = *attempt == before.numbered && before.ended < *attempt;
                if *attempt != before.numbered + 1 && !is_queued {
                    wrong = Some(format!("it starts attempt {attempt} after attempt {}", before.numbered));
                }
                seen.numbered = before.numbered.max(*attempt);
            }
            UnitFact::Dequeued { .. } | UnitFact::Started { .. } if before.numbered == before.ended => {
                wrong = Some("it dispatches an attempt, but none was queued".to_owned());
            }
            UnitFact::Ended { attempt, outcome } => {
                if *attempt <= before.ended {
                    wrong = Some(format!("it ends attempt {attempt}, which had already ended"));
                } else if *attempt > before.numbered + 1 {
                    wrong = Some(format!("it ends attempt {attempt}, which had not started"));
                }
                seen.numbered = before.numbered.max(*attempt);
                seen.ended = before.ended.max(*attempt);
                seen.is_done |= matches!(outcome, Outcome::Completed(_));
            }
            UnitFact::Done { .. } => seen.is_done = true,
            _ => {}
        }
        if before.is_done {
            wrong = Some("it changes a step that had already completed in this generation".to_owned());
        }
        match wrong {
            None => Ok(()),
            Some(wrong) => {
                let unit = describe_unit(unit);
                Err(self.finding(Promise::Once, event, format!("step {unit}: {wrong}")))
            }
        }
    }

    fn finding(&self, promise: Promise, event: &Event, what: impl Into<String>) -> Finding {
        Finding::new(promise, format!("event {} of {}", event.seq, self.id), what, FORGET)
    }
}

/// Describes a unit by its numbers, where the flow with its names is not at hand.
pub fn describe_unit(unit: UnitRef) -> String {
    match unit.item {
        None => format!("#{}", unit.step.0),
        Some(item) => format!("#{}[{item}]", unit.step.0),
    }
}
