//! Lives of an engine on one store: what the next one finds, and what it owes to the one before.

use std::collections::VecDeque;
use std::sync::Arc;

use unstuck_core::command::{Command, OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{Outcome, StuckLimit, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::UnitState;
use unstuck_core::offer::Offer;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::function::FunctionExecutor;
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::request::{EngineError, Output, Request, StartRun};
use unstuck_engine::runtime::Runtime;
use unstuck_store::contract::{FlowRecord, Store, StoreError};
use unstuck_store::memory::MemoryStore;

const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: chain\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work}\n---\n\
    flow: timed\nsteps:\n  - {id: a, action: nobody, queueTimeout: 10s}\n---\n\
    flow: parent\nsteps:\n  - {id: c, flow: chain}\n---\n\
    flow: waits\nsteps:\n  - {id: w, wait: 60s}\n";

fn flows() -> Vec<Flow> {
    unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows
}

/// An engine in one session, driven by hand.
struct Bench {
    engine: Engine<MemoryStore>,
    now: Time,
    jobs: VecDeque<Job>,
    replies: Vec<Result<Answer, EngineError>>,
}

impl Bench {
    fn new(store: MemoryStore, now: Time) -> Bench {
        let known = flows();
        let compile = move |record: &FlowRecord| {
            let flow = known.iter().find(|flow| flow.name == record.name).cloned();
            flow.ok_or_else(|| "it was written by somebody else".to_owned())
        };
        let mut engine = Engine::new(store, Box::new(compile), Settings::default()).expect("opens");
        for flow in flows() {
            engine.put_flow(flow).expect("kept");
        }
        let worker = Worker { name: "w".into(), incarnation: engine.incarnation(), local: true };
        engine.register(Offer { worker, queues: [Arc::from("work")].into(), free: 9, max_load: 9 }, false);
        Bench { engine, now, jobs: VecDeque::new(), replies: Vec::new() }
    }

    /// The process dies now, and another one starts a while later.
    fn die_and_start(self, later: Millis) -> Bench {
        let now = self.now + later;
        Bench::new(self.engine.into_store().crash(), now)
    }

    fn start(&mut self, flow: &str) -> RunId {
        self.engine.submit(Request::Start { ticket: 0, start: start_of(flow) });
        self.go();
        match self.replies.pop() {
            Some(Ok(Answer::Started(run))) => run,
            other => panic!("{other:?}"),
        }
    }

    /// Steps until there is nothing to do now.
    fn go(&mut self) {
        for _ in 0..1_000 {
            let mut outputs = self.engine.step(self.now);
            outputs.extend(self.engine.wait());
            for output in outputs {
                match output {
                    Output::Reply { result, .. } => self.replies.push(result),
                    Output::Dispatch { job, .. } => self.jobs.push_back(job),
                    Output::Interrupt { .. }
                    | Output::Happened { .. }
                    | Output::Forgotten { .. }
                    | Output::CleanUp { .. } => {}
                }
            }
            match self.engine.next_step() {
                NextStep::Now | NextStep::Settling => {}
                NextStep::At(_) | NextStep::Idle => return,
            }
        }
        panic!("the engine never rests");
    }

    fn pass(&mut self, span: Millis) {
        self.now = self.now + span;
        self.go();
    }

    fn complete(&mut self) {
        let job = self.jobs.pop_front().expect("there is a job");
        let says = Report::Complete { output: Json::NULL };
        self.engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, says)));
        self.go();
    }

    /// How the attempts of a run's first step have ended.
    fn past(&mut self, run: RunId) -> Vec<(u32, Outcome)> {
        let run = self.engine.store().run(run).expect("readable").expect("there");
        let units = run.units_where(|_| true);
        let unit = run.unit(units[0]).expect("there");
        unit.past.iter().map(|past| (past.attempt, past.outcome.clone())).collect()
    }

    fn state(&mut self, run: RunId) -> RunState {
        self.engine.store().run(run).expect("readable").expect("there").state()
    }
}

#[test]
fn attempts_of_a_dead_engines_executors_are_lost_and_tried_anew() {
    // How many attempts its worker had, and whether the loss is free.
    for (runs, free) in [(1, false), (3, true)] {
        let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
        let runs: Vec<RunId> = (0..runs).map(|_| bench.start("chain")).collect();
        let late = bench.jobs[0].attempt;
        let mut bench = bench.die_and_start(Millis(100));
        bench.go();
        for run in &runs {
            let past = bench.past(*run);
            let [(1, Outcome::Stuck(stuck))] = past.as_slice() else { panic!("{past:?}") };
            assert_eq!((stuck.limit, stuck.free), (StuckLimit::Gone, free));
        }
        // The process that is gone comes back with what it had: nobody believes it.
        bench
            .engine
            .submit(Request::Executor(ExecutorReport::Report(late, Report::Complete { output: Json::NULL })));
        bench.pass(Millis::seconds(2));
        assert_eq!(bench.jobs.len(), runs.len(), "each is tried again");
        assert!(bench.jobs.iter().all(|job| job.attempt.attempt == 2));
        for _ in 0..2 * runs.len() {
            bench.complete();
        }
        assert!(runs.iter().all(|run| bench.state(*run) == RunState::Completed));
    }
}

#[test]
fn a_loss_that_could_not_be_kept_is_told_again() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    let run = bench.start("chain");
    let mut bench = bench.die_and_start(Millis(100));
    bench.engine.step(bench.now);
    assert!(bench.engine.store().fail_next(&StoreError::Full("no room".into())) > 0);
    bench.go();
    assert_eq!(bench.past(run).len(), 0, "the store is asked again in a moment");
    bench.pass(Millis::seconds(1));
    assert_eq!(bench.past(run).len(), 1, "{:?}", bench.past(run));
}

#[test]
fn the_time_between_two_lives_counts_against_nobody() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    let run = bench.start("timed");
    bench.pass(Millis::seconds(4));
    bench.engine.record_alive(bench.now);
    let down = Downtime { from: bench.now, to: bench.now + Millis::hours(1) };
    let mut bench = bench.die_and_start(Millis::hours(1));
    bench.go();
    assert_eq!(bench.engine.store().downtimes(), Ok(vec![down]));
    assert_eq!(bench.state(run), RunState::Running, "queueTimeout 10 s, of which it had 4");
    bench.pass(Millis(5_999));
    assert_eq!(bench.state(run), RunState::Running);
    bench.pass(Millis(1));
    assert_eq!(bench.state(run), RunState::Error);
}

#[test]
fn a_life_that_ends_before_it_has_recorded_the_time_before_it_hides_nothing() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    bench.start("timed");
    bench.engine.record_alive(bench.now);
    let from = bench.now;
    let mut short = bench.die_and_start(Millis::hours(1));
    short.engine.record_alive(short.now);
    let mut bench = short.die_and_start(Millis::hours(1));
    bench.go();
    let down = Downtime { from, to: bench.now };
    assert_eq!(bench.engine.store().downtimes(), Ok(vec![down]));
}

#[test]
fn a_moment_is_no_downtime() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    bench.start("timed");
    let mut bench = bench.die_and_start(Millis(400));
    bench.go();
    assert_eq!(bench.engine.store().downtimes(), Ok(Vec::new()));
}

#[test]
fn a_store_that_is_full_for_a_while_is_a_downtime_once() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    let run = bench.start("timed");
    bench.pass(Millis::seconds(4));
    for _ in 0..50 {
        bench.engine.store().refuse_stage(StoreError::Full("no room".into()));
        bench.engine.submit(Request::Start { ticket: 0, start: start_of("waits") });
        bench.pass(Millis::seconds(1));
    }
    bench.pass(Millis::seconds(1));
    let downtimes = bench.engine.store().downtimes().expect("reads");
    let [down] = downtimes.as_slice() else { panic!("{downtimes:?}") };
    assert!(down.to.since(down.from) >= Millis::seconds(50), "{down:?}");
    assert_eq!(bench.state(run), RunState::Running);
    bench.pass(Millis::seconds(10));
    assert_eq!(bench.state(run), RunState::Error);
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
        on_duplicate: OnDuplicate::Return,
        home: None,
        by: Actor::Engine,
    }
}

#[test]
fn what_is_wrong_with_the_store_is_told_until_it_is_well_again() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    bench.start("waits");
    let full = StoreError::Full("no room".into());
    bench.engine.store().refuse_stage(full.clone());
    bench.engine.submit(Request::Start { ticket: 0, start: start_of("waits") });
    bench.go();
    assert_eq!(bench.engine.trouble(), Some(&full));
    assert!(matches!(bench.replies.pop(), Some(Err(EngineError::Store(StoreError::Full(_))))));
    bench.pass(Millis::seconds(2));
    assert_eq!(bench.engine.trouble(), None, "it goes on by itself");
}

#[test]
fn a_run_whose_flow_cannot_be_used_does_not_keep_the_engine_busy() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    let run = bench.start("waits");
    let store = bench.engine.into_store().crash();
    let compile = |_: &FlowRecord| Err("it was written by somebody else".to_owned());
    let mut engine = Engine::new(store, Box::new(compile), Settings::default()).expect("opens");
    let now = BEGIN + Millis::minutes(2);
    for _ in 0..3 {
        engine.step(now);
        engine.wait();
    }
    assert_eq!(engine.next_step(), NextStep::Idle);
    let run = engine.store().run(run).expect("reads").expect("there");
    assert!(run.units_where(|unit| matches!(unit.state, UnitState::Waiting(_))).len() == 1);
}

#[test]
fn forgetting_removes_a_final_run_and_its_children() {
    let mut engine =
        Engine::new(MemoryStore::new(), Box::new(|_: &_| Err(String::new())), Settings::default()).unwrap();
    for flow in flows() {
        engine.put_flow(flow).expect("kept");
    }
    let work = FunctionExecutor::new("work", 4).on("work", |_| Ok(Json::NULL));
    let runtime = Runtime::start(engine, vec![Box::new(work)], None);
    let handle = runtime.handle();
    let Ok(Answer::Started(waits)) = handle.start(start_of("waits")) else { panic!("starts") };
    let refused = handle.forget(waits);
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::WrongRunState { .. }))), "{refused:?}");
    let Ok(Answer::Started(parent)) = handle.start(start_of("parent")) else { panic!("starts") };
    while !handle.read(move |store, _| store.run(parent)).unwrap().unwrap().unwrap().is_final() {
        std::thread::yield_now();
    }
    let child = RunId(parent.0 + 1);
    let belongs = handle.forget(child);
    assert!(matches!(belongs, Err(EngineError::Refused(Refusal::BelongsTo { .. }))), "{belongs:?}");
    assert_eq!(handle.forget(parent), Ok(vec![parent, child]));
    assert!(matches!(handle.forget(parent), Err(EngineError::Refused(Refusal::UnknownRun(_)))));
    for run in [parent, child] {
        assert_eq!(handle.read(move |store, _| store.run(run)), Ok(Ok(None)));
    }
    let cancel = Command::Cancel { by: Actor::Engine, reason: None };
    handle.command(waits, cancel).expect("cancelled");
    assert_eq!(handle.forget(waits), Ok(vec![waits]));
}

/// Number 9: stopping tried for ever, as fast as it could, while the store had no room.
#[test]
fn stopping_on_a_full_disk_ends_and_says_what_was_not_recorded() {
    let compile = |_: &FlowRecord| Err("it was written by somebody else".to_owned());
    let mut engine = Engine::new(MemoryStore::new(), Box::new(compile), Settings::default()).expect("opens");
    for flow in flows() {
        engine.put_flow(flow).expect("kept");
    }
    let full = StoreError::Full("no room".into());
    // The start is taken, which hands the step out.
    engine.store().refuse_stages_after(1, full.clone());
    let (called, is_called) = std::sync::mpsc::channel();
    let work = FunctionExecutor::new("work", 4).on("work", move |_| {
        called.send(()).expect("somebody waits");
        Ok(Json::NULL)
    });
    let runtime = Runtime::start(engine, vec![Box::new(work)], None);
    let Ok(Answer::Started(run)) = runtime.handle().start(start_of("chain")) else { panic!("starts") };
    is_called.recv().expect("the step is executed");
    let stopped = runtime.stop();
    assert_eq!(stopped.unrecorded.iter().map(|attempt| attempt.run).collect::<Vec<_>>(), [run]);
    assert_eq!(stopped.trouble, Some(full));
}
