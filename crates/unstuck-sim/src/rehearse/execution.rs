//! One rehearsal from its start to where nothing more happens by itself: runs start, executors play their parts, time passes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use unstuck_core::command::{Changes, Command, OnDuplicate};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Choice, Event, Fact, UnitFact};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::Settings;
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{Output, Request, StartRun};
use unstuck_flow::plan::{Plan, PlannedTime, SignalPlan, Times};
use unstuck_store::contract::{PolicyChange, Store, StoreError};
use unstuck_store::memory::MemoryStore;

use super::ledger::Ledger;
use super::report::Broken;
use super::workers::{EmulatedReport, EmulatedWorkers};
use super::{Keep, Rehearsal};
use crate::event_queue::EventQueue;
use crate::machine::Machine;

/// So much is told of workers that die.
const MOST_NOTES: usize = 10_000;
/// The ticket of whatever is not the start of a run: its answer is not waited for.
const NOBODY: u64 = 0;

/// Why a rehearsal could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearsalError(pub String);

impl fmt::Display for RehearsalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RehearsalError {}

impl From<StoreError> for RehearsalError {
    fn from(error: StoreError) -> RehearsalError {
        RehearsalError(error.to_string())
    }
}

/// A rehearsal that is over.
pub struct ExecutedPlan {
    /// The root runs in the order in which they were started, as they stand.
    pub runs: Vec<Run>,
    /// All that was counted.
    pub(super) ledger: Ledger,
    /// The histories that were kept, with the number of each event in the whole rehearsal.
    pub(super) histories: BTreeMap<RunId, Vec<(u64, Event)>>,
    /// Workers that died and came back.
    pub(super) notes: Vec<(Time, u64, String)>,
    /// The flows, by id.
    pub(super) flows: BTreeMap<FlowId, Arc<Flow>>,
    /// The virtual time that has passed.
    pub took: Millis,
    /// When the clock started.
    pub start: Time,
    /// Why it was broken off, if it was.
    pub broken: Option<Broken>,
    /// How many events there were.
    pub events: u64,
}

/// Something that is to come.
enum Due {
    Start(u32),
    Line(AttemptId),
    Restart(usize),
    Signal { run: RunId, name: Arc<str>, payload: Json },
    Choose { run: RunId, unit: UnitRef, choice: Choice },
    Resume { run: RunId, unit: UnitRef },
}

/// Carries out a rehearsal.
pub fn execute_plan(rehearsal: &Rehearsal) -> Result<ExecutedPlan, RehearsalError> {
    let mut stage = Execution::new(rehearsal)?;
    stage.begin();
    let broken = stage.go_on()?;
    stage.end(broken)
}

struct Execution<'a> {
    rehearsal: &'a Rehearsal,
    plan: Arc<Plan>,
    machine: Machine<MemoryStore>,
    crew: EmulatedWorkers,
    /// What moves runs.
    agenda: EventQueue<Due>,
    /// Deaths to come: they alone keep nothing going.
    deaths: EventQueue<usize>,
    random: Random,
    flows: BTreeMap<FlowId, Arc<Flow>>,
    ledger: Ledger,
    roots: BTreeMap<u64, RunId>,
    histories: BTreeMap<RunId, Vec<(u64, Event)>>,
    operated: BTreeMap<(RunId, UnitRef), u32>,
    notes: Vec<(Time, u64, String)>,
    events: u64,
    last_event: Time,
}

impl<'a> Execution<'a> {
    fn new(rehearsal: &'a Rehearsal) -> Result<Execution<'a>, RehearsalError> {
        let plan = Arc::new(rehearsal.plan.clone());
        let mut store = MemoryStore::new();
        let policies = rehearsal.policies.clone();
        let switch = unstuck_core::policy::PolicySwitch::default();
        let newest = store.versions()?.policies;
        store.put_policies(
            PolicyChange { policies, switch, changes: Vec::new(), ..PolicyChange::default() },
            newest,
        )?;
        let settings = Settings { seed: rehearsal.seed, ..Settings::default() };
        let unknown = Box::new(|record: &unstuck_store::contract::FlowRecord| {
            Err(format!("flow `{}` is not part of this rehearsal", record.name))
        });
        let mut machine = Machine::start(store, unknown, settings, plan.start)?;
        let mut flows = BTreeMap::new();
        for flow in &rehearsal.flows {
            let kept =
                machine.engine.put_flow(flow.clone()).map_err(|error| RehearsalError(error.to_string()))?;
            flows.insert(kept.id, kept);
        }
        let crew = EmulatedWorkers::new(plan.clone(), &rehearsal.flows, rehearsal.workers, rehearsal.seed);
        crew.register_all(&mut machine.engine);
        Ok(Execution {
            rehearsal,
            machine,
            crew,
            agenda: EventQueue::default(),
            deaths: EventQueue::default(),
            random: Random::new(rehearsal.seed ^ 0x5eed),
            flows,
            ledger: Ledger::default(),
            roots: BTreeMap::new(),
            histories: BTreeMap::new(),
            operated: BTreeMap::new(),
            notes: Vec::new(),
            events: 0,
            last_event: plan.start,
            plan,
        })
    }

    /// Puts what the plan says by itself on the agenda.
    fn begin(&mut self) {
        let mut at = self.plan.start;
        for number in 1..=self.rehearsal.runs {
            self.agenda.put(at, Due::Start(number));
            at = at + self.plan.every;
        }
        for place in 0..self.plan.workers.deaths.len() {
            self.plan_death(place, self.plan.start);
        }
    }

    /// The next death of this kind, from `from` on.
    fn plan_death(&mut self, place: usize, from: Time) {
        let next = match self.plan.workers.deaths[place].when {
            Times::At(when) => when.next(self.plan.start, from),
            Times::Every(every) => Some(from + every),
        };
        if let Some(at) = next {
            self.deaths.put(at, place);
        }
    }

    /// Until nothing more happens by itself, or it has gone on for too long.
    fn go_on(&mut self) -> Result<Option<Broken>, RehearsalError> {
        let end = self.plan.start + self.rehearsal.until;
        loop {
            let outputs = self.machine.work();
            let is_quiet = outputs.is_empty();
            for output in outputs {
                self.take(output)?;
            }
            if self.events > self.rehearsal.max_events {
                return Ok(Some(Broken::Events(self.rehearsal.max_events)));
            }
            let now = self.machine.now();
            let mut acted = false;
            while let Some(due) = self.agenda.pop(now) {
                self.act(due);
                acted = true;
            }
            while let Some(death) = self.deaths.pop(now) {
                self.strike(death);
                acted = true;
            }
            if acted || !is_quiet {
                continue;
            }
            let Some(next) = earliest(self.machine.next_at(), self.agenda.next_at()) else { return Ok(None) };
            let next = earliest(Some(next), self.deaths.next_at()).unwrap_or(next);
            if next > end {
                return Ok(Some(Broken::Until(self.rehearsal.until)));
            }
            self.machine.set_clock(next.max(now));
        }
    }

    /// Does what the engine wants done.
    fn take(&mut self, output: Output) -> Result<(), RehearsalError> {
        let now = self.machine.now();
        match output {
            Output::Reply { ticket: NOBODY, .. } => {}
            Output::Reply { ticket, result: Ok(Answer::Started(run) | Answer::Exists(run)) } => {
                self.roots.insert(ticket, run);
            }
            Output::Reply {
                result: Ok(Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled),
                ..
            } => {}
            Output::Reply { result: Err(error), .. } => return Err(RehearsalError(error.to_string())),
            Output::Dispatch { worker, job } => {
                let (due, word) = self.crew.begin(&worker, &job, now);
                self.say(word);
                if let Some(due) = due {
                    self.agenda.put(due, Due::Line(job.attempt));
                }
            }
            Output::Interrupt { attempt, .. } => {
                let word = self.crew.interrupt(attempt);
                self.say(word);
            }
            Output::Happened { run, event } => self.happened(run, event),
            Output::Forgotten { .. } | Output::CleanUp { .. } => {}
        }
        Ok(())
    }

    /// Something comes about that was on the agenda.
    fn act(&mut self, due: Due) {
        let now = self.machine.now();
        let by = || Actor::User("operator".into());
        match due {
            Due::Start(number) => self.machine.engine.submit(Request::Start {
                ticket: u64::from(number),
                start: StartRun {
                    flow: self.rehearsal.flow.clone(),
                    version: None,
                    key: None,
                    input: self.rehearsal.input.clone(),
                    labels: None,
                    priority: 0,
                    deadline: None,
                    on_duplicate: OnDuplicate::Return,
                    home: None,
                    by: Actor::User("rehearsal".into()),
                },
            }),
            Due::Line(attempt) => {
                let (said, next) = self.crew.go_on(attempt);
                if let Some(next) = next {
                    self.agenda.put(next, Due::Line(attempt));
                }
                match said {
                    EmulatedReport::Word(word) => self.machine.engine.submit(Request::Executor(word)),
                    EmulatedReport::Dies(worker) => self.die(worker, self.plan.workers.restart_after),
                    EmulatedReport::Nothing => {}
                }
            }
            Due::Restart(worker) => {
                if let Some(name) = self.crew.restart(worker, &mut self.machine.engine) {
                    self.note(now, format!("{name} is back; its earlier attempts are lost"));
                }
            }
            Due::Signal { run, name, payload } => {
                self.command(run, Command::Signal { name, payload, by: Actor::User("rehearsal".into()) });
            }
            Due::Choose { run, unit, choice } => {
                self.command(run, Command::Choose { unit, choice, by: by(), bulk: None });
            }
            Due::Resume { run, unit } => {
                let changes = Box::new(Changes::default());
                self.command(run, Command::Resume { unit: Some(unit), by: by(), reason: None, changes });
            }
        }
    }

    fn say(&mut self, word: Option<ExecutorReport>) {
        if let Some(word) = word {
            self.machine.engine.submit(Request::Executor(word));
        }
    }

    fn command(&mut self, run: RunId, command: Command) {
        self.machine.engine.submit(Request::Command { ticket: NOBODY, run, command });
    }

    /// A worker dies because the plan says so.
    fn strike(&mut self, place: usize) {
        let death = self.plan.workers.deaths[place].clone();
        let worker = match death.worker {
            Some(number) => Some(number as usize - 1),
            None => self.crew.any_alive(&mut self.random),
        };
        if let Some(worker) = worker {
            self.die(worker, death.restart_after.unwrap_or(self.plan.workers.restart_after));
        }
        let is_again = matches!(death.when, Times::Every(_) | Times::At(PlannedTime::Daily(_)));
        if is_again {
            let now = self.machine.now();
            let from = if matches!(death.when, Times::Every(_)) { now } else { now + Millis(1) };
            self.plan_death(place, from);
        }
    }

    fn die(&mut self, worker: usize, restart_after: Millis) {
        let now = self.machine.now();
        if let Some((name, had)) = self.crew.die(worker, &mut self.machine.engine) {
            self.ledger.deaths += 1;
            let had = match had {
                0 => "it was idle".to_owned(),
                1 => "it was running 1 attempt".to_owned(),
                n => format!("it was running {n} attempts"),
            };
            self.note(now, format!("{name} dies; {had}"));
            self.agenda.put(now + restart_after, Due::Restart(worker));
        }
    }

    fn note(&mut self, at: Time, what: String) {
        self.events += 1;
        if self.notes.len() < MOST_NOTES {
            self.notes.push((at, self.events, what));
        }
    }

    fn happened(&mut self, run: RunId, event: Event) {
        self.events += 1;
        self.last_event = self.last_event.max(event.at);
        self.ledger.take(run, &event);
        for fact in &event.facts {
            self.follow(run, fact);
        }
        let keep = match self.rehearsal.keep {
            Keep::All | Keep::NotCompleted => true,
            Keep::None => false,
            Keep::First => self.ledger.root_of(run) == self.ledger.first_root(),
        };
        let is_over = self.rehearsal.keep == Keep::NotCompleted
            && self.ledger.root_of(run) == run
            && event.facts.iter().any(|fact| matches!(fact, Fact::Completed { .. }));
        if is_over {
            for member in self.ledger.family(run) {
                self.histories.remove(&member);
            }
        } else if keep {
            self.histories.entry(run).or_default().push((self.events, event));
        }
    }

    /// What follows from a fact, outside of the engine: signals and operators.
    fn follow(&mut self, run: RunId, fact: &Fact) {
        let now = self.machine.now();
        match fact {
            Fact::Started(started) => {
                let Some(flow) = self.flows.get(&started.flow) else { return };
                let SignalPlan::Sent(signals) = &self.plan.signals else { return };
                for signal in signals.iter().filter(|signal| awaits(flow, &signal.name)) {
                    let (name, payload) = (signal.name.clone(), signal.payload.clone());
                    self.agenda.put(now + signal.after, Due::Signal { run, name, payload });
                }
            }
            Fact::Unit { unit, fact: UnitFact::SignalAwaited { name, .. } }
                if self.plan.signals == SignalPlan::AsAwaited =>
            {
                let payload = self.signal_example(run, *unit).unwrap_or(Json::NULL);
                self.agenda.put(now, Due::Signal { run, name: name.clone(), payload });
            }
            Fact::Unit { unit, fact: UnitFact::Held } => {
                let choice = self.plan.operator.and_then(|operator| operator.choose);
                if let Some(choice) = choice {
                    self.operate(run, *unit, Due::Choose { run, unit: *unit, choice });
                }
            }
            Fact::Unit { unit, fact: UnitFact::LeftInError }
                if self.plan.operator.is_some_and(|operator| operator.resume) =>
            {
                self.operate(run, *unit, Due::Resume { run, unit: *unit });
            }
            _ => {}
        }
    }

    /// What the signal carries that this step waits for, if the plan has an example.
    fn signal_example(&self, run: RunId, unit: UnitRef) -> Option<Json> {
        let flow = self.flows.get(self.ledger.flow_of.get(&run)?)?;
        self.plan.example(&flow.name, flow.step(unit.step), None).map(|example| example.output.clone())
    }

    fn operate(&mut self, run: RunId, unit: UnitRef, due: Due) {
        let Some(operator) = self.plan.operator else { return };
        let times = self.operated.entry((run, unit)).or_default();
        *times += 1;
        if operator.times.is_none_or(|most| *times <= most) {
            self.agenda.put(self.machine.now() + operator.after, due);
        }
    }

    fn end(mut self, broken: Option<Broken>) -> Result<ExecutedPlan, RehearsalError> {
        let mut runs = Vec::new();
        for run in self.roots.values() {
            runs.extend(self.machine.engine.store().run(*run)?);
        }
        Ok(ExecutedPlan {
            runs,
            ledger: self.ledger,
            histories: self.histories,
            notes: self.notes,
            flows: self.flows,
            took: if broken.is_some() { self.machine.now() } else { self.last_event }.since(self.plan.start),
            start: self.plan.start,
            broken,
            events: self.events,
        })
    }
}

/// Whether a step of the flow waits for this signal.
fn awaits(flow: &Flow, signal: &str) -> bool {
    flow.steps.iter().any(|step| matches!(&step.kind, Kind::Signal(name) if **name == *signal))
}

fn earliest(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
