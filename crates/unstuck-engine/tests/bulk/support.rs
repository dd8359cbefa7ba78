//! An engine, a clock and one executor that does what the test says.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkAction, Pace, ResultKind, Target, TargetResult};
use unstuck_core::command::{OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, ResumedBy, Worker};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::bulk::BulkCommand;
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{EngineError, Output, Request, StartRun};
use unstuck_store::contract::Store;
use unstuck_store::memory::MemoryStore;

const BEGIN: Time = Time(1_800_000_000_000);
const FLOW: &str = "flow: f\nsteps:\n  - {id: a, action: work}\n";

/// As fast as it can.
pub(crate) const AT_ONCE: Pace = Pace { rate: 1_000_000, canary: None };

pub(crate) struct Bench {
    pub(crate) engine: Engine<MemoryStore>,
    pub(crate) now: Time,
    pub(crate) jobs: VecDeque<AttemptId>,
    pub(crate) replies: HashMap<u64, Result<Answer, EngineError>>,
    /// How many events the last step has told of.
    pub(crate) told: usize,
    tickets: u64,
}

impl Bench {
    pub(crate) fn new(store: MemoryStore) -> Bench {
        Bench::at(store, BEGIN)
    }

    fn at(store: MemoryStore, now: Time) -> Bench {
        let compile = |record: &unstuck_store::contract::FlowRecord| {
            let loaded =
                unstuck_flow::load(&record.source, "test.yaml", "", &|_| false).expect("was good before");
            Ok(loaded.flows.into_iter().next().expect("one flow"))
        };
        let mut engine = Engine::new(store, Box::new(compile), Settings::default()).expect("opens");
        for flow in unstuck_flow::load(FLOW, "test.yaml", "", &|_| false).expect("a good file").flows {
            engine.put_flow(flow).expect("kept");
        }
        let worker = Worker { name: "w".into(), incarnation: engine.incarnation(), local: true };
        let queues: Arc<[Arc<str>]> = [Arc::from("work")].into();
        engine.register(Offer { worker, queues, free: 1_000_000, max_load: 1_000_000 }, false);
        Bench { engine, now, jobs: VecDeque::new(), replies: HashMap::new(), told: 0, tickets: 0 }
    }

    /// The process dies, and another one goes on with the store.
    pub(crate) fn die_and_start(self) -> Bench {
        Bench::at(self.engine.into_store().crash(), self.now)
    }

    /// What the executors of an engine that died had is handed out again.
    pub(crate) fn try_anew(&mut self) {
        self.run();
        self.pass(Millis::seconds(2));
        self.run();
    }

    pub(crate) fn pass(&mut self, span: Millis) {
        self.now = self.now + span;
    }

    pub(crate) fn step(&mut self) {
        let outputs = self.engine.step(self.now);
        self.told = 0;
        for output in outputs {
            match output {
                Output::Reply { ticket, result } => drop(self.replies.insert(ticket, result)),
                Output::Dispatch { job, .. } => self.jobs.push_back(job.attempt),
                Output::Interrupt { .. } | Output::Forgotten { .. } | Output::CleanUp { .. } => {}
                Output::Happened { .. } => self.told += 1,
            }
        }
    }

    /// Steps until there is nothing to do now; a deferred store is made durable on the way.
    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            self.step();
            self.engine.store().make_durable(100);
            match self.engine.next_step() {
                NextStep::Now | NextStep::Settling => {}
                NextStep::At(_) | NextStep::Idle => return,
            }
        }
        panic!("the engine never rests");
    }

    pub(crate) fn ask(&mut self, request: impl FnOnce(u64) -> Request) -> u64 {
        self.tickets += 1;
        self.engine.submit(request(self.tickets));
        self.tickets
    }

    /// Starts so many runs.
    pub(crate) fn start(&mut self, count: usize) -> Vec<RunId> {
        let mut tickets = Vec::new();
        for _ in 0..count {
            let start = StartRun {
                flow: "f".into(),
                version: None,
                key: None,
                input: Json::NULL,
                labels: None,
                priority: 0,
                deadline: None,
                on_duplicate: OnDuplicate::Return,
                home: None,
                by: Actor::Engine,
            };
            tickets.push(self.ask(|ticket| Request::Start { ticket, start }));
        }
        self.run();
        let started = tickets.iter().map(|ticket| match self.replies.remove(ticket) {
            Some(Ok(Answer::Started(run))) => run,
            other => panic!("{other:?}"),
        });
        started.collect()
    }

    /// So many runs, each with its step in error.
    pub(crate) fn in_error(&mut self, count: usize) -> Vec<RunId> {
        let runs = self.start(count);
        for attempt in std::mem::take(&mut self.jobs) {
            self.say(attempt, broken());
        }
        self.run();
        runs
    }

    pub(crate) fn say(&mut self, attempt: AttemptId, says: Report) {
        self.engine.submit(Request::Executor(ExecutorReport::Report(attempt, says)));
    }

    /// Whatever was handed out ends as `says` says of its run.
    pub(crate) fn work(&mut self, says: impl Fn(RunId) -> Report) {
        for attempt in std::mem::take(&mut self.jobs) {
            self.say(attempt, says(attempt.run));
        }
        self.run();
    }

    /// Begins a bulk action on the first steps of these runs.
    pub(crate) fn begin(&mut self, action: BulkAction, runs: &[RunId], pace: Pace) -> BulkId {
        let id = self.engine.new_bulk_id(self.now);
        let is_about_runs = matches!(
            action,
            BulkAction::Cancel | BulkAction::Rerun { .. } | BulkAction::Signal { .. } | BulkAction::Forget
        );
        let unit = (!is_about_runs).then(|| UnitRef::step(StepIndex(0)));
        let target = |(place, run): (u64, &RunId)| {
            let result = TargetResult::Pending;
            Target { place, run: *run, unit, result }
        };
        let targets: Vec<Target> = (0..).zip(runs).map(target).collect();
        for part in targets.chunks(10_000) {
            self.engine.put_targets(id, part.to_vec()).expect("puts");
        }
        let by = (Actor::User("ops".into()), Some("it is mended".into()));
        let bulk = Bulk::new(id, action, by, "some runs".into(), pace, runs.len() as u64, self.now);
        self.engine.begin_bulk(bulk).expect("begins");
        if pace == AT_ONCE || pace.canary.is_some() {
            // It has earned a second's worth.
            self.pass(Millis::seconds(1));
        }
        id
    }

    pub(crate) fn resume(&mut self, runs: &[RunId], pace: Pace) -> BulkId {
        self.begin(resume(), runs, pace)
    }

    pub(crate) fn change(&mut self, bulk: BulkId, command: BulkCommand) -> Result<Answer, EngineError> {
        let ticket = self.ask(|ticket| Request::Bulk { ticket, bulk, command });
        self.run();
        self.replies.remove(&ticket).expect("it is answered")
    }

    pub(crate) fn bulk(&mut self, bulk: BulkId) -> Bulk {
        self.engine.store().bulk(bulk).expect("reads").expect("it is there")
    }

    /// Passed, failed again, refused, under way.
    pub(crate) fn counts(&mut self, bulk: BulkId) -> (u64, u64, u64, u64) {
        let counts = self.bulk(bulk).counts;
        (counts.passed, counts.failed, counts.refused, counts.under_way)
    }

    pub(crate) fn results(&mut self, bulk: BulkId) -> Vec<TargetResult> {
        let targets = self.engine.store().targets(bulk, None, 0, usize::MAX).expect("reads");
        targets.into_iter().map(|target| target.result).collect()
    }

    pub(crate) fn kinds(&mut self, bulk: BulkId) -> Vec<ResultKind> {
        self.results(bulk).iter().map(TargetResult::kind).collect()
    }

    /// How often a person has resumed each of these runs.
    pub(crate) fn resumed(&mut self, runs: &[RunId]) -> Vec<usize> {
        let is_resumed = |fact: &Fact| {
            matches!(fact, Fact::Unit { fact: UnitFact::Resumed { by: ResumedBy::Operator, .. }, .. })
        };
        let count = |history: Vec<Event>| {
            history.iter().flat_map(|event| &event.facts).filter(|fact| is_resumed(fact)).count()
        };
        runs.iter().map(|run| count(self.engine.store().history(*run, 0, 99).expect("reads"))).collect()
    }
}

pub(crate) fn resume() -> BulkAction {
    BulkAction::Resume { input: None, step_input: None }
}

pub(crate) fn done() -> Report {
    Report::Complete { output: Json::NULL }
}

pub(crate) fn broken() -> Report {
    Report::Fail { error: Box::new(Error::new("the archive is full")), fatal: false }
}
