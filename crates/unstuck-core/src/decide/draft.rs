//! A decision in the making: facts are applied as they are found, so that each next one sees the last.

use crate::decide::child::notice_to_parent;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::bulk;
use crate::command::{Notice, NoticeBody};
use crate::decide::{Answer, Context, Decision, Effect, Touched};
use crate::errors::errors_of;
use crate::event::{Actor, Event, Fact, UnitFact};
use crate::evolve;
use crate::id::{PayloadId, RunId};
use crate::json::{INLINE_BYTES, Json, Payload};
use crate::model::attempt::{AttemptId, Worker};
use crate::model::expression::{Reads, Scope};
use crate::model::flow::{Flow, Step, StepIndex};
use crate::model::run::{Run, RunState};
use crate::model::unit::{Unit, UnitRef};
use crate::refusal::Refusal;
use crate::time::Time;

/// A decision in the making.
pub(crate) struct Draft<'d, 'c> {
    run: DraftRun<'d>,
    pub(crate) context: &'d mut Context<'c>,
    facts: Vec<Fact>,
    pub(crate) decision: Decision,
    /// Steps that are worth a look, and whether somebody is looking.
    pub(crate) work: Vec<StepIndex>,
    pub(crate) is_advancing: bool,
}

/// The run that is decided on.
enum DraftRun<'d> {
    /// It exists.
    Existing(&'d mut Run),
    /// It does not, until it is started.
    New(Option<Box<Run>>),
}

impl DraftRun<'_> {
    fn get(&self) -> Option<&Run> {
        match self {
            DraftRun::Existing(run) => Some(run),
            DraftRun::New(run) => run.as_deref(),
        }
    }

    fn get_mut(&mut self) -> Option<&mut Run> {
        match self {
            DraftRun::Existing(run) => Some(run),
            DraftRun::New(run) => run.as_deref_mut(),
        }
    }
}

impl<'d, 'c> Draft<'d, 'c> {
    pub(crate) fn new(run: Option<&'d mut Run>, context: &'d mut Context<'c>) -> Draft<'d, 'c> {
        Draft {
            run: run.map_or(DraftRun::New(None), DraftRun::Existing),
            context,
            facts: Vec::with_capacity(4),
            decision: Decision::default(),
            work: Vec::new(),
            is_advancing: false,
        }
    }

    /// The run, which must exist.
    pub(crate) fn existing_run(&self) -> Result<&Run, Refusal> {
        self.run.get().ok_or(Refusal::UnknownRun(self.context.run))
    }

    /// The run, which must exist and not be final.
    pub(crate) fn open_run(&self) -> Result<&Run, Refusal> {
        let run = self.existing_run()?;
        if run.is_final() { Err(Refusal::Final(run.state())) } else { Ok(run) }
    }

    /// The unit, which must exist.
    pub(crate) fn existing_unit(&self, unit: UnitRef) -> Result<&Unit, Refusal> {
        self.existing_run()?.unit(unit).ok_or_else(|| Refusal::UnknownUnit(self.name(unit)))
    }

    /// The run, if there is one.
    pub(crate) fn run_if_any(&self) -> Option<&Run> {
        self.run.get()
    }

    /// The run; only after [`Draft::existing`] or a start.
    pub(crate) fn run(&self) -> &Run {
        self.run.get().expect("the run was checked to exist")
    }

    pub(crate) fn now(&self) -> Time {
        self.context.now
    }

    pub(crate) fn flow(&self) -> &'c Flow {
        self.context.flow
    }

    pub(crate) fn step(&self, unit: UnitRef) -> &'c Step {
        self.context.flow.step(unit.step)
    }

    /// The unit, which the caller knows to exist.
    pub(crate) fn unit(&self, unit: UnitRef) -> &Unit {
        self.run().unit(unit).expect("the unit was checked to exist")
    }

    /// How people write this unit: `step` or `step[2]`.
    pub(crate) fn name(&self, unit: UnitRef) -> String {
        unit_name(self.flow(), unit)
    }

    pub(crate) fn attempt_id(&self, unit: UnitRef, attempt: u32) -> AttemptId {
        AttemptId { run: self.run().id, generation: self.run().generation, unit, attempt }
    }

    pub(crate) fn emit(&mut self, fact: Fact) {
        if let Some(run) = self.run_if_any() {
            let of_unit = if let Fact::Unit { unit, fact } = &fact {
                run.unit(*unit).and_then(|unit| bulk::unit_outcome(unit, fact))
            } else {
                None
            };
            let of_run = bulk::run_outcome(run, &fact);
            self.decision.notices.extend(of_unit.into_iter().chain(of_run));
        }
        match (&mut self.run, &fact) {
            (DraftRun::New(run), Fact::Started(started)) => {
                *run = Some(Box::new(evolve::new_run(started, self.context.now)));
            }
            (subject, fact) => {
                if let Some(run) = subject.get_mut() {
                    evolve::apply(run, fact, self.context.now);
                }
            }
        }
        match &fact {
            Fact::Unit { unit, .. } => self.touch(*unit),
            Fact::InputChanged { .. }
            | Fact::SignalKept { .. }
            | Fact::SignalTaken { .. }
            | Fact::HandlerChanged { .. } => {}
            Fact::Started(_)
            | Fact::Admitted
            | Fact::Paused { .. }
            | Fact::Unpaused
            | Fact::ClockCorrected { .. }
            | Fact::Failing { .. }
            | Fact::HandlerStarted { .. }
            | Fact::Completed { .. }
            | Fact::RunFailed { .. }
            | Fact::RunCancelled { .. }
            | Fact::Reran { .. }
            | Fact::ItemsKnown { .. }
            | Fact::ItemsCompleted { .. }
            | Fact::ItemsEnded { .. } => self.decision.touched.all = true,
        }
        self.facts.push(fact);
    }

    pub(crate) fn emit_unit(&mut self, unit: UnitRef, fact: UnitFact) {
        self.emit(Fact::unit(unit, fact));
    }

    /// Takes in what the clock was set by since the run was last looked at. A final generation never changes. Gives by
    /// how much.
    pub(crate) fn correct_clock(&mut self) -> i64 {
        let clock = self.context.clock;
        let by =
            self.run_if_any().filter(|run| !run.is_final()).map_or(0, |run| clock.saturating_sub(run.clock));
        if by != 0 {
            self.emit(Fact::ClockCorrected { by });
        }
        by
    }

    /// Takes that back: the command is refused, and the run is as it was.
    pub(crate) fn undo_clock_correction(&mut self, by: i64) {
        if let Some(run) = self.run.get_mut().filter(|_| by != 0) {
            evolve::apply(run, &Fact::ClockCorrected { by: by.saturating_neg() }, self.context.now);
        }
    }

    fn touch(&mut self, unit: UnitRef) {
        let Touched { all, units } = &mut self.decision.touched;
        if !*all && !units.contains(&unit) {
            units.push(unit);
        }
    }

    pub(crate) fn notify(&mut self, to: RunId, body: NoticeBody) {
        self.decision.notices.push(Notice { to: to.into(), body });
    }

    pub(crate) fn interrupt(&mut self, unit: UnitRef, attempt: u32, worker: &Worker, why: impl Into<String>) {
        let attempt = self.attempt_id(unit, attempt);
        self.decision.effects.push(Effect::Interrupt { attempt, worker: worker.clone(), why: why.into() });
    }

    /// Keeps a payload: with the event if it is small, else apart.
    pub(crate) fn store_payload(&mut self, json: Json) -> Payload {
        if json.text().len() <= INLINE_BYTES {
            return Payload::Inline(json);
        }
        let id = PayloadId(self.context.ids.next(self.context.now));
        self.decision.payloads.push((id, json));
        Payload::Stored(id)
    }

    /// The text of a payload that was asked for, or that this decision has made.
    pub(crate) fn payload_json(&self, payload: &Payload) -> Result<Json, String> {
        match payload {
            Payload::Inline(json) => Ok(json.clone()),
            Payload::Stored(id) => {
                let made = self.decision.payloads.iter().find(|(made, _)| made == id).map(|(_, json)| json);
                let found = made.or_else(|| self.context.payloads.get(id));
                found.cloned().ok_or_else(|| format!("payload {id} was not loaded"))
            }
        }
    }

    /// The values that an expression reads.
    pub(crate) fn scope(&self, reads: &Reads, item: Option<(Value, u32)>) -> Result<Scope, String> {
        let mut scope = Scope { item, now: self.now(), ..Scope::default() };
        if reads.input {
            scope.input = self.payload_json(&self.run().input)?.value();
        }
        if reads.run {
            scope.run = self.run_value();
        }
        for step in &reads.steps {
            let output = match self.run().step(*step).output() {
                Some(output) => self.payload_json(output)?.value(),
                None => Value::Null,
            };
            scope.steps.push((self.flow().step(*step).id.clone(), output));
        }
        Ok(scope)
    }

    fn run_value(&self) -> Value {
        let run = self.run();
        json!({
            "id": run.id.to_string(),
            "key": run.key.as_deref(),
            "flow": &*self.flow().name,
            "version": &*self.flow().version,
            "generation": run.generation,
            "createdAt": run.created_at.to_string(),
        })
    }

    /// Ends the decision: its event, what a parent must be told, and the run if it is new.
    pub(crate) fn finish(
        mut self,
        answer: Answer,
        before: Option<(u32, RunState)>,
        by: Actor,
    ) -> (Decision, Option<Box<Run>>) {
        self.decision.answer = answer;
        if let Some(run) = self.run.get_mut()
            && !self.facts.is_empty()
        {
            let (seq, now) = (run.seq + 1, self.context.now);
            let at = now.max(run.updated_at);
            evolve::finish_event(run, seq, at);
            let clock = (at != now).then_some(now);
            // Whoever asked for something that changes nothing has not set the clock.
            let is_clock = |fact: &Fact| matches!(fact, Fact::ClockCorrected { .. });
            let by = if self.facts.iter().all(is_clock) { Actor::Engine } else { by };
            let event = Event { seq, generation: run.generation, at, clock, by, facts: self.facts };
            self.decision.errors = errors_of(&event, run, self.context.flow);
            self.decision.event = Some(event);
            let after = run.state();
            // The parent takes a new child to be running until it hears otherwise.
            if before.unwrap_or((1, RunState::Running)) != (run.generation, after)
                && let Some(parent) = run.origin.parent()
            {
                let body = notice_to_parent(run, after);
                self.decision.notices.push(Notice { to: parent.into(), body });
            }
        }
        let new = match self.run {
            DraftRun::Existing(_) => None,
            DraftRun::New(run) => run,
        };
        (self.decision, new)
    }
}

/// How people write a unit: `step` or `step[2]`; `#9` where the flow has no such step.
pub fn unit_name(flow: &Flow, unit: UnitRef) -> String {
    let step = flow.steps.get(usize::from(unit.step.0));
    let id: Arc<str> = step.map_or_else(|| format!("#{}", unit.step.0).into(), |step| step.id.clone());
    match unit.item {
        None => id.to_string(),
        Some(item) => format!("{id}[{item}]"),
    }
}
