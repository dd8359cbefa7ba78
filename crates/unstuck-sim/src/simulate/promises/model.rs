//! A second, plain model of one run: what was put out where, which signals wait, why attempts repeat, who paused it.
//!
//! It follows the events and shares nothing with how the core decides: what the engine records, hands out and tells is
//! compared with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};
use unstuck_core::decide::unit_name;
use unstuck_core::event::{Actor, Choice, Closing, Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::json::Payload;
use unstuck_core::model::attempt::{Cancelled, Outcome, ResumedBy};
use unstuck_core::model::error::{Error, RunError};
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::run::PausedBy;
use unstuck_core::model::unit::{ITEMS_PER_PART, UnitRef};
use unstuck_core::time::Time;

use super::{Broken, Promise};

/// Gives the value of a payload, if it can be read now.
pub(super) type Look<'a> = &'a mut dyn FnMut(&Payload) -> Option<Value>;

/// One run, as its events tell it.
#[derive(Debug, Default)]
pub(super) struct RunModel {
    id: Option<RunId>,
    generation: u32,
    pub(super) input: Option<Payload>,
    /// What was computed as the input of a unit.
    pub(super) bound: BTreeMap<UnitRef, Payload>,
    /// Units that are done in this generation, or were kept.
    done: BTreeMap<UnitRef, Put>,
    /// The lists of fan-outs, and their outputs once these are done.
    lists: BTreeMap<StepIndex, (Vec<Payload>, u32)>,
    fan_outs: BTreeMap<StepIndex, Option<Payload>>,
    /// The queue of each signal, oldest first.
    signals: BTreeMap<Arc<str>, VecDeque<Payload>>,
    /// Every attempt of this generation that has ended, in order.
    pub(super) past: Vec<Past>,
    progress: BTreeMap<UnitRef, Payload>,
    errors: BTreeMap<UnitRef, Error>,
    /// Why the next attempt of a unit is a repeat, and whether it goes to the front.
    why: BTreeMap<UnitRef, ResumedBy>,
    front: BTreeMap<UnitRef, bool>,
    /// How often a unit was stuck in its round, the free times too.
    stuck: BTreeMap<UnitRef, u32>,
    pub(super) paused: Option<PausedBy>,
    /// Whether somebody has let it go on since its parent was paused.
    pub(super) let_go_on: bool,
    pub(super) failing: Option<RunError>,
    /// What the last completed generation put out.
    pub(super) output: Option<Payload>,
}

/// What a unit has come to.
#[derive(Clone, Debug)]
enum Put {
    Out(Payload),
    Skipped,
    Ignored,
}

/// An attempt that has ended.
#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) generation: u32,
    pub(super) unit: UnitRef,
    pub(super) attempt: u32,
    pub(super) state: &'static str,
    pub(super) cause: Option<Arc<str>>,
    pub(super) progress: Option<Payload>,
    pub(super) at: Time,
}

/// One event while it is followed.
struct Step<'a> {
    flow: &'a Flow,
    event: &'a Event,
    /// When it was, paced.
    at: Time,
    place: usize,
}

impl RunModel {
    /// Follows an event, and compares with it what must follow from those before.
    pub(super) fn follow(
        &mut self,
        id: RunId,
        flow: &Flow,
        (event, at): (&Event, Time),
        look: Look<'_>,
    ) -> Result<(), Broken> {
        self.id = Some(id);
        self.generation = self.generation.max(1);
        for (place, fact) in event.facts.iter().enumerate() {
            let step = Step { flow, event, at, place };
            match fact {
                Fact::Unit { unit, fact } => self.unit(&step, *unit, fact, look)?,
                other => self.fact(&step, other, look)?,
            }
        }
        Ok(())
    }

    fn broken<T>(&self, promise: Promise, step: &Step<'_>, what: impl Into<String>) -> Result<T, Broken> {
        let what = format!("event {}: {}", step.event.seq, what.into());
        Err(Broken { promise, run: self.id, what })
    }

    fn fact(&mut self, step: &Step<'_>, fact: &Fact, look: Look<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Started(started) => self.input = Some(started.input.clone()),
            Fact::InputChanged { input, .. } => self.input = Some(input.clone()),
            Fact::Paused { by, .. } => {
                if *by == PausedBy::Parent && self.paused == Some(PausedBy::Operator) {
                    return self.broken(
                        Promise::Paused,
                        step,
                        "an operator has paused it, and it is its parent's now",
                    );
                }
                self.paused = Some(*by);
                self.let_go_on = false;
            }
            Fact::Unpaused => {
                if step.event.by == Actor::Engine && self.paused != Some(PausedBy::Parent) {
                    return self.broken(
                        Promise::Paused,
                        step,
                        format!("it goes on with its parent, and was paused by {:?}", self.paused),
                    );
                }
                self.let_go_on = step.event.by != Actor::Engine;
                self.paused = None;
            }
            Fact::SignalKept { name, payload } => {
                self.signals.entry(name.clone()).or_default().push_back(payload.clone());
            }
            Fact::SignalTaken { name } => self.take_signal(step, name)?,
            Fact::Failing { error, .. } => {
                if let Some(known) = error.unit.and_then(|unit| self.errors.get(&unit))
                    && *known != error.error
                {
                    let what =
                        format!("it fails with `{}`, and the error was `{}`", error.error.cause, known.cause);
                    return self.broken(Promise::Values, step, what);
                }
                self.failing = Some((**error).clone());
            }
            Fact::HandlerStarted { .. } if self.paused.is_some() => {
                return self.broken(Promise::Paused, step, "its handler begins, and it is paused");
            }
            Fact::Completed { output } => {
                self.check_output(step, output, look)?;
                self.output = Some(output.clone());
                self.end();
            }
            Fact::RunFailed { .. } | Fact::RunCancelled { .. } => self.end(),
            Fact::Reran { .. } => self.rerun(fact),
            Fact::ItemsKnown { step, values, total } => {
                self.lists.insert(*step, (values.clone(), *total));
            }
            Fact::ItemsCompleted { step: of, output } => {
                self.check_items(step, *of, output, look)?;
                self.fan_outs.insert(*of, Some(output.clone()));
            }
            Fact::ItemsEnded { step, how: Closing::Skipped } => drop(self.fan_outs.insert(*step, None)),
            Fact::Amended(_)
            | Fact::Migrated(_)
            | Fact::Admitted
            | Fact::ClockCorrected { .. }
            | Fact::HandlerStarted { .. }
            | Fact::HandlerChanged { .. }
            | Fact::ItemsEnded { .. }
            | Fact::Unit { .. } => {}
        }
        Ok(())
    }

    fn end(&mut self) {
        self.signals.clear();
        self.paused = None;
    }

    fn rerun(&mut self, fact: &Fact) {
        let Fact::Reran { generation, keep, keep_children: continues, .. } = fact else { return };
        self.generation = *generation;
        let fan_outs = &self.fan_outs;
        self.done.retain(|unit, put| {
            let is_whole = unit.item.is_none() || fan_outs.contains_key(&unit.step);
            keep.contains(&unit.step) && (is_whole || !matches!(put, Put::Ignored))
        });
        self.bound.retain(|unit, _| self.done.contains_key(unit));
        self.fan_outs.retain(|step, _| keep.contains(step));
        self.lists.retain(|step, _| keep.contains(step));
        // Whoever continues is told of what was before; what starts over is not.
        self.past.retain(|past| *continues || keep.contains(&past.unit.step));
        self.progress.clear();
        self.errors.clear();
        self.why.clear();
        self.front.clear();
        self.stuck.clear();
        self.failing = None;
    }

    /// First in, first out, and what is taken is what the step puts out.
    fn take_signal(&mut self, step: &Step<'_>, name: &Arc<str>) -> Result<(), Broken> {
        let Some(oldest) = self.signals.get_mut(name).and_then(VecDeque::pop_front) else {
            return self.broken(Promise::Values, step, format!("signal `{name}` is taken, and none is left"));
        };
        match step.event.facts.get(step.place + 1) {
            Some(Fact::Unit { fact: UnitFact::Done { output }, .. }) if *output == oldest => Ok(()),
            other => self.broken(
                Promise::Values,
                step,
                format!("signal `{name}` with {oldest:?} is the oldest, and {other:?} follows"),
            ),
        }
    }

    fn unit(
        &mut self,
        step: &Step<'_>,
        unit: UnitRef,
        fact: &UnitFact,
        look: Look<'_>,
    ) -> Result<(), Broken> {
        match fact {
            UnitFact::InputBound { input } => {
                self.check_bound(step, unit, input, look)?;
                self.bound.insert(unit, input.clone());
            }
            UnitFact::Queued { resumed_by, place, .. } => {
                self.check_repeat(step, unit, *resumed_by)?;
                let front = self.front.remove(&unit).unwrap_or(false);
                if place.front != front {
                    let what = format!(
                        "step {} is at the front: {}, and should be: {front}",
                        unit.step.0, place.front
                    );
                    return self.broken(Promise::Queues, step, what);
                }
            }
            UnitFact::ChildStarted { resumed_by, .. } => {
                self.front.remove(&unit);
                self.check_repeat(step, unit, *resumed_by)?;
            }
            UnitFact::Started { .. } => drop(self.progress.remove(&unit)),
            UnitFact::Progress { value } => drop(self.progress.insert(unit, value.clone())),
            UnitFact::Ended { attempt, outcome } => self.ended(step, unit, *attempt, outcome),
            UnitFact::Retry { .. } => self.again(unit, ResumedBy::Retry, false),
            UnitFact::Deferred { .. } => self.again(unit, ResumedBy::Defer, false),
            UnitFact::Requeued { place, .. } => {
                let times = self.stuck.get(&unit).copied().unwrap_or(0);
                if place.front != (times == 1) {
                    let what = format!("stuck {times} times in its round, and at the front: {}", place.front);
                    return self.broken(Promise::Queues, step, what);
                }
                self.again(unit, ResumedBy::Reclaim, times == 1);
            }
            UnitFact::Chosen { choice: Choice::Retry, .. } => self.again(unit, ResumedBy::Operator, false),
            UnitFact::Resumed { by, .. } => {
                self.stuck.remove(&unit);
                self.again(unit, *by, false);
            }
            UnitFact::Done { output } | UnitFact::DoneByHand { output, .. } => {
                self.done.insert(unit, Put::Out(output.clone()));
            }
            UnitFact::Skipped { .. } | UnitFact::Closed { how: Closing::Skipped } => {
                self.done.insert(unit, Put::Skipped);
            }
            UnitFact::Ignored => drop(self.done.insert(unit, Put::Ignored)),
            UnitFact::Dequeued { .. }
            | UnitFact::ReportIgnored { .. }
            | UnitFact::LimitExtended { .. }
            | UnitFact::Held
            | UnitFact::Scheduled { .. }
            | UnitFact::PassedOver { .. }
            | UnitFact::LeftInError
            | UnitFact::Acknowledged { .. }
            | UnitFact::Failed
            | UnitFact::TimerSet { .. }
            | UnitFact::SignalAwaited { .. }
            | UnitFact::ChildChanged { .. }
            | UnitFact::Chosen { .. }
            | UnitFact::Closed { .. } => {}
        }
        Ok(())
    }

    fn again(&mut self, unit: UnitRef, why: ResumedBy, front: bool) {
        self.why.insert(unit, why);
        self.front.insert(unit, front);
    }

    fn ended(&mut self, step: &Step<'_>, unit: UnitRef, attempt: u32, outcome: &Outcome) {
        let error = outcome.error();
        self.past.push(Past {
            unit,
            generation: self.generation,
            attempt,
            state: state_word(outcome),
            cause: cause_of(outcome),
            progress: self.progress.remove(&unit),
            at: step.at,
        });
        if let Some(error) = error {
            self.errors.insert(unit, error.clone());
        }
        match outcome {
            Outcome::Completed(output) => drop(self.done.insert(unit, Put::Out(output.clone()))),
            Outcome::Stuck(_) => *self.stuck.entry(unit).or_default() += 1,
            Outcome::Cancelled(Cancelled::Released) => self.again(unit, ResumedBy::Release, true),
            Outcome::Stalled(_) | Outcome::Failed(_) | Outcome::Deferred { .. } | Outcome::Cancelled(_) => {}
        }
    }

    /// Why the next attempt of a unit is a repeat, if it is one.
    pub(super) fn repeats(&self, unit: UnitRef) -> Option<ResumedBy> {
        self.why.get(&unit).copied().or((self.generation > 1).then_some(ResumedBy::Rerun))
    }

    fn check_repeat(&self, step: &Step<'_>, unit: UnitRef, by: Option<ResumedBy>) -> Result<(), Broken> {
        let wanted = self.repeats(unit);
        if self.done.contains_key(&unit) {
            let what = format!("step {} is done in this generation, and runs again", unit.step.0);
            return self.broken(Promise::Reruns, step, what);
        }
        if by == wanted {
            return Ok(());
        }
        let what = format!("step {} is told to be a repeat by {by:?}, and it is by {wanted:?}", unit.step.0);
        self.broken(Promise::Values, step, what)
    }

    /// What a step has put out; `None` where it is not done, or cannot be read.
    fn output_of(&self, of: StepIndex, look: Look<'_>) -> Option<Value> {
        if let Some(output) = self.fan_outs.get(&of) {
            return output.as_ref().map_or(Some(Value::Null), look);
        }
        match self.done.get(&UnitRef::step(of))? {
            Put::Out(output) => look(output),
            Put::Skipped | Put::Ignored => Some(Value::Null),
        }
    }

    /// Whether a step is done in this generation.
    pub(super) fn is_done(&self, of: StepIndex) -> bool {
        self.fan_outs.contains_key(&of) || self.done.contains_key(&UnitRef::step(of))
    }

    /// Whether the list of a fan-out is known.
    pub(super) fn has_list(&self, of: StepIndex) -> bool {
        self.lists.contains_key(&of)
    }

    /// The input of a unit: an item of its list, or with the output of an earlier step in its place.
    fn check_bound(
        &self,
        step: &Step<'_>,
        unit: UnitRef,
        input: &Payload,
        look: Look<'_>,
    ) -> Result<(), Broken> {
        let is_given = step.event.facts.iter().any(
            |fact| matches!(fact, Fact::Unit { unit: of, fact: UnitFact::Resumed { .. } } if *of == unit),
        );
        if is_given {
            return Ok(());
        }
        let (wanted, has) = match (&step.flow.step(unit.step).node.with, unit.item) {
            (Some(Template::Computed(expression)), _) => {
                let Some(earlier) = only(&expression.reads.steps) else { return Ok(()) };
                let has = look(input).and_then(|input| input.get("earlier").cloned());
                (self.output_of(earlier, look), has)
            }
            (None, Some(item)) => (self.item(unit.step, item, look), look(input)),
            _ => return Ok(()),
        };
        match (wanted, has) {
            (Some(wanted), Some(has)) if wanted != has => {
                let name = unit_name(step.flow, unit);
                self.broken(Promise::Values, step, format!("`{name}` gets {has}, and should get {wanted}"))
            }
            _ => Ok(()),
        }
    }

    fn item(&self, of: StepIndex, item: u32, look: Look<'_>) -> Option<Value> {
        let (parts, _) = self.lists.get(&of)?;
        let part = look(parts.get(item as usize / ITEMS_PER_PART)?)?;
        part.get(item as usize % ITEMS_PER_PART).cloned()
    }

    /// A fan-out is done: every item is, and the outputs stand in their places.
    fn check_items(
        &self,
        step: &Step<'_>,
        of: StepIndex,
        output: &Payload,
        look: Look<'_>,
    ) -> Result<(), Broken> {
        let Some((_, total)) = self.lists.get(&of) else { return Ok(()) };
        let mut wanted = Vec::new();
        for item in 0..*total {
            match self.done.get(&UnitRef::item(of, item)) {
                None => {
                    let what = format!("fan-out {} is done, and item {item} is not", of.0);
                    return self.broken(Promise::Values, step, what);
                }
                Some(Put::Out(payload)) => {
                    let Some(value) = look(payload) else { return Ok(()) };
                    wanted.push(value);
                }
                Some(Put::Skipped | Put::Ignored) => wanted.push(Value::Null),
            }
        }
        let Some(has) = look(output) else { return Ok(()) };
        let wanted = Value::Array(wanted);
        if has == wanted {
            return Ok(());
        }
        self.broken(Promise::Values, step, format!("fan-out {} puts out {has}, and should {wanted}", of.0))
    }

    /// The run is done: every step is, and its output is what its flow says, or that of the last steps.
    fn check_output(&self, step: &Step<'_>, output: &Payload, look: Look<'_>) -> Result<(), Broken> {
        let flow = step.flow;
        if let Some(open) = flow.step_indices().find(|place| !self.is_done(*place)) {
            let what = format!("the run is completed, and step `{}` was not done", flow.step(open).id);
            return self.broken(Promise::Reruns, step, what);
        }
        let Some(has) = look(output) else { return Ok(()) };
        let (has, wanted) = match &flow.output {
            Some(Template::Computed(expression)) => {
                let (Some(last), Some(has)) = (only(&expression.reads.steps), has.get("last")) else {
                    return Ok(());
                };
                (has.clone(), self.output_of(last, look))
            }
            Some(Template::Fixed(_)) => return Ok(()),
            None => {
                let is_last =
                    |place: &StepIndex| !flow.steps.iter().any(|step| step.node.needs.contains(place));
                let last: Vec<StepIndex> = flow.step_indices().filter(is_last).collect();
                let wanted = match last[..] {
                    [only] => self.output_of(only, look),
                    _ => self.object(flow, &last, look),
                };
                (has, wanted)
            }
        };
        match wanted {
            Some(wanted) if wanted != has => {
                self.broken(Promise::Values, step, format!("the run puts out {has}, and should {wanted}"))
            }
            _ => Ok(()),
        }
    }

    fn object(&self, flow: &Flow, of: &[StepIndex], look: Look<'_>) -> Option<Value> {
        let mut object = Map::new();
        for place in of {
            object.insert(flow.step(*place).id.to_string(), self.output_of(*place, look)?);
        }
        Some(Value::Object(object))
    }
}

/// The one step of these, if it is one.
fn only(steps: &BTreeSet<StepIndex>) -> Option<StepIndex> {
    steps.first().copied().filter(|_| steps.len() == 1)
}

/// What is told of why an attempt ended, if anything is.
fn cause_of(outcome: &Outcome) -> Option<Arc<str>> {
    match outcome {
        Outcome::Stalled(error) | Outcome::Failed(error) => Some(error.cause.clone()),
        Outcome::Stuck(stuck) => Some(format!("stuck: {}", stuck.limit).into()),
        Outcome::Deferred { lacking, .. } => lacking.clone(),
        Outcome::Completed(_) | Outcome::Cancelled(_) => None,
    }
}

fn state_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed(_) => "completed",
        Outcome::Stalled(_) => "stalled",
        Outcome::Failed(_) => "failed",
        Outcome::Deferred { .. } => "deferred",
        Outcome::Stuck(_) => "stuck",
        Outcome::Cancelled(_) => "cancelled",
    }
}
