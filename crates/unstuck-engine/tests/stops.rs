//! Time in which nobody takes answers counts against nobody, whatever the thread was doing: asleep, stopped, or waiting for
//! its disk. What has ended meanwhile is known before any limit is looked at.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use unstuck_core::command::{OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::offer::Offer;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::clock::TimeSource;
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::{Executor, ExecutorReport, Job, ReportSink};
use unstuck_engine::request::{Output, Request, StartRun};
use unstuck_engine::runtime::{Handle, Runtime};
use unstuck_store::contract::{FlowRecord, Store};
use unstuck_store::memory::MemoryStore;

const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: leased\nsteps:\n  - {id: a, action: work, heartbeatTimeout: 3s, timeout: 10s}\n---\n\
    flow: empty\nsteps:\n  - {id: s, set: 1}\n";

/// Clocks that go on when somebody says so.
#[derive(Clone, Default)]
struct Clocks(Arc<AtomicI64>);

impl Clocks {
    fn pass(&self, span: Millis) {
        self.0.fetch_add(i64::try_from(span.0).expect("a short time"), Ordering::SeqCst);
    }
}

impl TimeSource for Clocks {
    fn wall(&mut self) -> Time {
        Time(BEGIN.0 + self.0.load(Ordering::SeqCst))
    }

    fn uptime(&mut self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// A store whose next sync takes eight seconds, if it is slow.
struct SlowDisk {
    store: MemoryStore,
    clocks: Clocks,
    is_slow: Arc<AtomicBool>,
}

impl SlowDisk {
    fn store(&mut self) -> &mut MemoryStore {
        &mut self.store
    }
}

unstuck_store::delegate_store! {
    SlowDisk, store, but {
        fn settle(&mut self, wait: bool) -> Vec<Settled> {
            if wait && self.is_slow.swap(false, Ordering::SeqCst) {
                self.clocks.pass(Millis::seconds(8));
            }
            self.store().settle(wait)
        }

        fn record_alive(&mut self, now: Time) {
            self.store().record_alive(now);
        }

        fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
            self.store().last_seen()
        }
    }
}

/// An executor that says what it is told to say, and only when it is asked: its threads come last.
#[derive(Clone, Default)]
struct Slow {
    has: Arc<Mutex<Vec<(AttemptId, ReportSink)>>>,
    says: Arc<Mutex<Option<Report>>>,
}

impl Executor for Slow {
    fn name(&self) -> Arc<str> {
        "slow".into()
    }

    fn queues(&self) -> Vec<Arc<str>> {
        vec!["work".into()]
    }

    fn max_load(&self) -> u32 {
        9
    }

    fn execute(&mut self, job: Job, answers: &ReportSink) {
        self.has.lock().expect("nobody panics").push((job.attempt, answers.clone()));
    }

    fn interrupt(&mut self, _: AttemptId, _: &str) {}

    fn catch_up(&mut self) {
        if let Some(says) = self.says.lock().expect("nobody panics").take() {
            for (attempt, answers) in self.has.lock().expect("nobody panics").iter() {
                answers.report(*attempt, says.clone());
            }
        }
    }
}

struct House {
    runtime: Runtime,
    clocks: Clocks,
    is_slow: Arc<AtomicBool>,
    slow: Slow,
}

impl House {
    fn new() -> House {
        let (clocks, is_slow, slow) = (Clocks::default(), Arc::new(AtomicBool::new(false)), Slow::default());
        let store = MemoryStore::deferred();
        let disk = SlowDisk { store, clocks: clocks.clone(), is_slow: is_slow.clone() };
        let engine = engine(disk);
        let executors: Vec<Box<dyn Executor>> = vec![Box::new(slow.clone())];
        let runtime = Runtime::start_with(engine, executors, None, clocks.clone());
        House { runtime, clocks, is_slow, slow }
    }

    fn handle(&self) -> Handle {
        self.runtime.handle()
    }

    fn start(&self, flow: &str) -> RunId {
        match self.handle().start(start_of(flow)) {
            Ok(Answer::Started(run)) => run,
            other => panic!("{other:?}"),
        }
    }

    fn run(&self, run: RunId) -> Run {
        self.handle().read(move |store, _| store.run(run)).expect("there").expect("reads").expect("kept")
    }

    /// The facts about a run's units so far.
    fn facts(&self, run: RunId) -> Vec<UnitFact> {
        let events = self.handle().read(move |store, _| store.history(run, 0, 100));
        let facts = events.expect("there").expect("reads").into_iter().flat_map(|event| event.facts);
        facts.filter_map(|fact| if let Fact::Unit { fact, .. } = fact { Some(fact) } else { None }).collect()
    }

    fn attempt(&self) -> (AttemptId, ReportSink) {
        loop {
            if let Some(had) = self.slow.has.lock().expect("nobody panics").first() {
                return had.clone();
            }
            std::thread::yield_now();
        }
    }
}

fn engine<S: Store>(store: S) -> Engine<S> {
    let flows = unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows;
    let compile = |_: &FlowRecord| Err("nothing is read back".to_owned());
    let mut engine = Engine::new(store, Box::new(compile), Settings::default()).expect("opens");
    for flow in flows {
        engine.put_flow(flow).expect("kept");
    }
    engine
}

fn start_of(flow: &str) -> StartRun {
    StartRun {
        flow: flow.into(),
        version: None,
        key: None,
        input: Json::NULL,
        labels: None,
        priority: 0,
        deadline: None,
        home: None,
        on_duplicate: OnDuplicate::default(),
        by: Actor::Engine,
    }
}

#[test]
fn a_slow_sync_of_eight_seconds_takes_nobodys_lease_of_three() {
    let house = House::new();
    let run = house.start("leased");
    let (attempt, answers) = house.attempt();
    house.is_slow.store(true, Ordering::SeqCst);
    house.start("empty");
    assert!(!house.is_slow.load(Ordering::SeqCst), "the sync was slow");
    while !house.facts(run).iter().any(|fact| matches!(fact, UnitFact::LimitExtended { .. })) {
        let facts = house.facts(run);
        assert!(!facts.iter().any(|fact| matches!(fact, UnitFact::Ended { .. })), "{facts:?}");
    }
    answers.report(attempt, Report::Complete { output: Json::NULL });
    while !house.run(run).is_final() {}
    assert_eq!(house.run(run).state(), RunState::Completed);
    assert_eq!(attempt.attempt, 1);
}

#[test]
fn what_has_ended_while_the_engine_was_stopped_is_asked_for_before_any_limit_is_looked_at() {
    // Over the lease, and over its timeout.
    for stopped in [Millis::seconds(5), Millis::seconds(30)] {
        let house = House::new();
        let run = house.start("leased");
        house.attempt();
        *house.slow.says.lock().expect("nobody panics") = Some(Report::Complete { output: Json::NULL });
        house.clocks.pass(stopped);
        while !house.run(run).is_final() {}
        let facts = house.facts(run);
        assert_eq!(house.run(run).state(), RunState::Completed, "{facts:?}");
        assert_eq!(
            facts.iter().filter(|fact| matches!(fact, UnitFact::Queued { .. })).count(),
            1,
            "{facts:?}"
        );
    }
}

#[test]
fn what_was_said_is_decided_before_a_limit_of_the_same_attempt_however_long_the_line_is() {
    for says in [Report::Complete { output: Json::NULL }, Report::Heartbeat { progress: None }] {
        let mut engine = engine(MemoryStore::new());
        let worker = Worker { name: "w".into(), incarnation: engine.incarnation(), local: true };
        engine.register(Offer { worker, queues: [Arc::from("work")].into(), free: 9, max_load: 9 }, false);
        engine.submit(Request::Start { ticket: 1, start: start_of("leased") });
        let mut outputs = go(&mut engine, BEGIN);
        let Some(attempt) = outputs.drain(..).find_map(|output| match output {
            Output::Dispatch { job, .. } => Some(job.attempt),
            Output::Reply { .. }
            | Output::Interrupt { .. }
            | Output::Happened { .. }
            | Output::Forgotten { .. }
            | Output::CleanUp { .. } => None,
        }) else {
            panic!("nothing is handed out")
        };
        for ticket in 0..2_000 {
            engine.submit(Request::Start { ticket, start: start_of("empty") });
        }
        engine.submit(Request::Executor(ExecutorReport::Report(attempt, says.clone())));
        go(&mut engine, BEGIN + Millis::seconds(4));
        let run = engine.store().run(attempt.run).expect("reads").expect("there");
        let unit = run.unit(attempt.unit).expect("there");
        match says {
            Report::Complete { .. } => assert_eq!(run.state(), RunState::Completed),
            _ => assert!(unit.past.is_empty() && unit.state.live().is_some(), "{unit:?}"),
        }
    }
}

fn go<S: Store>(engine: &mut Engine<S>, now: Time) -> Vec<Output> {
    let mut outputs = Vec::new();
    loop {
        outputs.extend(engine.step(now));
        outputs.extend(engine.wait());
        match engine.next_step() {
            NextStep::Now | NextStep::Settling => {}
            NextStep::At(_) | NextStep::Idle => return outputs,
        }
    }
}
