//! A decision in progress: each fact is applied as soon as it is emitted, so that the next one sees its effect.

use crate::decide::child::build_parent_notice;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::bulk;
use crate::command::{Notice, NoticeBody};
use crate::decide::{Answer, Context, Decision, Effect, Touched};
use crate::errors::collect_error_records;
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

/// A decision in progress: the run, the facts that were emitted, and the decision they lead to.
pub(crate) struct Draft<'d, 'c> {
    run: DraftRun<'d>,
    pub(crate) context: &'d mut Context<'c>,
    facts: Vec<Fact>,
    pub(crate) decision: Decision,
    /// Steps that may be able to advance, and whether [`advance_steps`](crate::graph) is working through them.
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
    /// Starts a decision on a run, or on one that may be created.
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

    /// Returns the run, or refuses if there is none.
    pub(crate) fn require_run(&self) -> Result<&Run, Refusal> {
        self.run.get().ok_or(Refusal::UnknownRun(self.context.run))
    }

    /// Returns the run, or refuses if there is none or it is final.
    pub(crate) fn require_open_run(&self) -> Result<&Run, Refusal> {
        let run = self.require_run()?;
        if run.is_final() { Err(Refusal::Final(run.state())) } else { Ok(run) }
    }

    /// Returns the unit, or refuses if the run has no such unit.
    pub(crate) fn require_unit(&self, unit: UnitRef) -> Result<&Unit, Refusal> {
        self.require_run()?.unit(unit).ok_or_else(|| Refusal::UnknownUnit(self.name(unit)))
    }

    /// The run, if there is one.
    pub(crate) fn run_if_any(&self) -> Option<&Run> {
        self.run.get()
    }

    /// Returns the run. Panics without one: call it only after [`Draft::require_run`] or a start.
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

    /// Returns a unit that the caller knows to exist.
    pub(crate) fn unit(&self, unit: UnitRef) -> &Unit {
        self.run().unit(unit).expect("the unit was checked to exist")
    }

    /// Returns the name of a unit as people write it: `step` or `step[2]`.
    pub(crate) fn name(&self, unit: UnitRef) -> String {
        unit_name(self.flow(), unit)
    }

    pub(crate) fn attempt_id(&self, unit: UnitRef, attempt: u32) -> AttemptId {
        AttemptId { run: self.run().id, generation: self.run().generation, unit, attempt }
    }

    /// Adds a fact to the event and applies it to the run. Collects the results that bulk actions wait for, and marks
    /// which wakeups may have changed.
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
                    evolve::apply_fact(run, fact, self.context.now);
                }
            }
        }
        match &fact {
            Fact::Unit { unit, .. } => self.touch_unit(*unit),
            Fact::InputChanged { .. }
            | Fact::SignalKept { .. }
            | Fact::SignalTaken { .. }
            | Fact::HandlerChanged { .. } => {}
            Fact::Started(_)
            | Fact::Admitted
            | Fact::Paused { .. }
            | Fact::Unpaused
            | Fact::Amended(_)
            | Fact::Migrated(_)
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

    /// Applies the clock corrections since the run was last changed, and returns the shift in milliseconds. A final run
    /// stays as it is.
    pub(crate) fn correct_clock(&mut self) -> i64 {
        let clock = self.context.clock;
        let by =
            self.run_if_any().filter(|run| !run.is_final()).map_or(0, |run| clock.saturating_sub(run.clock));
        if by != 0 {
            self.emit(Fact::ClockCorrected { by });
        }
        by
    }

    /// Reverts [`Draft::correct_clock`] by `by` for a command that was refused, which must leave the run unchanged.
    pub(crate) fn undo_clock_correction(&mut self, by: i64) {
        if let Some(run) = self.run.get_mut().filter(|_| by != 0) {
            evolve::apply_fact(run, &Fact::ClockCorrected { by: by.saturating_neg() }, self.context.now);
        }
    }

    /// Marks the wakeups of a unit as changed.
    fn touch_unit(&mut self, unit: UnitRef) {
        let Touched { all, units } = &mut self.decision.touched;
        if !*all && !units.contains(&unit) {
            units.push(unit);
        }
    }

    pub(crate) fn notify(&mut self, to: RunId, body: NoticeBody) {
        self.decision.notices.push(Notice { to: to.into(), body });
    }

    /// Adds the effect that tells a worker, after the commit, that the attempt is no longer its own.
    pub(crate) fn interrupt(&mut self, unit: UnitRef, attempt: u32, worker: &Worker, why: impl Into<String>) {
        let attempt = self.attempt_id(unit, attempt);
        self.decision.effects.push(Effect::Interrupt { attempt, worker: worker.clone(), why: why.into() });
    }

    /// Returns where a payload is kept: inline with the event if it is small, else stored under a new id.
    pub(crate) fn store_payload(&mut self, json: Json) -> Payload {
        if json.text().len() <= INLINE_BYTES {
            return Payload::Inline(json);
        }
        let id = PayloadId(self.context.ids.next(self.context.now));
        self.decision.payloads.push((id, json));
        Payload::Stored(id)
    }

    /// Returns the text of a payload: inline, made by this decision, or loaded beforehand.
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

    /// Builds the scope for an expression, with only the values that it reads.
    pub(crate) fn build_scope(&self, reads: &Reads, item: Option<(Value, u32)>) -> Result<Scope, String> {
        let mut scope = Scope { item, now: self.now(), ..Scope::default() };
        if reads.input {
            scope.input = self.payload_json(&self.run().input)?.value();
        }
        if reads.run {
            scope.run = self.run_as_value();
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

    /// Returns what expressions see as `run`.
    fn run_as_value(&self) -> Value {
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

    /// Completes the decision: numbers its event, collects error records, and notifies the parent if the state has
    /// changed since `before`. Returns the run too if it is new.
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
            let clock = (at != now).then_some(now);
            evolve::finish_event(run, seq, at, clock);
            // An event that only corrects the clock is the engine's, whoever sent the command.
            let is_clock = |fact: &Fact| matches!(fact, Fact::ClockCorrected { .. });
            let by = if self.facts.iter().all(is_clock) { Actor::Engine } else { by };
            let event = Event { seq, generation: run.generation, at, clock, by, facts: self.facts };
            self.decision.errors = collect_error_records(&event, run, self.context.flow);
            self.decision.event = Some(event);
            let after = run.state();
            // A parent assumes that a new child is running until a notice says otherwise.
            if before.unwrap_or((1, RunState::Running)) != (run.generation, after)
                && let Some(parent) = run.origin.parent()
            {
                let body = build_parent_notice(run, after);
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

/// Returns the name of a unit as people write it: `step` or `step[2]`; `#9` where the flow has no such step.
pub fn unit_name(flow: &Flow, unit: UnitRef) -> String {
    let step = flow.steps.get(usize::from(unit.step.0));
    let id: Arc<str> = step.map_or_else(|| format!("#{}", unit.step.0).into(), |step| step.id.clone());
    match unit.item {
        None => id.to_string(),
        Some(item) => format!("{id}[{item}]"),
    }
}
