//! A wall clock that is set by hours or years, forward or back, while an engine runs or between two of them: nothing is
//! delayed, nothing is ended, and the correction is recorded.

use std::sync::Arc;

use unstuck_core::clock::ClockCorrection;
use unstuck_core::command::{OnDuplicate, Report};
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::error::Error;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::offer::Offer;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{Output, Request, StartRun};
use unstuck_store::contract::{FlowRecord, Store};
use unstuck_store::memory::MemoryStore;

const BEGIN: Time = Time(1_800_000_000_000);
const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * 24 * HOUR;
const FLOWS: &str = "\
flow: retried\nsteps:\n  - {id: a, action: work, retryStrategy: retry, maxAttempts: 5, backOff: 1s}\n---\n\
flow: limited\nsteps:\n  - {id: a, action: work, timeout: 2s}\n---\n\
flow: leased\nsteps:\n  - {id: a, action: work, heartbeatTimeout: 2s}\n---\n\
flow: waits\nsteps:\n  - {id: w, wait: 60s}\n---\n\
flow: many\nsteps:\n  - {id: w, wait: 10m}\n---\n\
flow: queued\nsteps:\n  - {id: a, action: nobody, queueTimeout: 30s}\n";

struct House {
    engine: Engine<MemoryStore>,
    now: Time,
    jobs: Vec<AttemptId>,
}

impl House {
    fn open(store: MemoryStore, now: Time) -> House {
        let known = unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows;
        let flows = known.clone();
        let compile = move |record: &FlowRecord| {
            known.iter().find(|flow| flow.name == record.name).cloned().ok_or_else(String::new)
        };
        let settings = Settings { max_batch: 4, ..Settings::default() };
        let mut engine = Engine::new(store, Box::new(compile), settings).expect("opens");
        for flow in flows {
            engine.put_flow(flow).expect("kept");
        }
        let worker = Worker { name: "w".into(), incarnation: engine.incarnation(), local: true };
        engine.register(Offer { worker, queues: [Arc::from("work")].into(), free: 9, max_load: 9 }, false);
        House { engine, now, jobs: Vec::new() }
    }

    /// The process dies, and another one finds the clock set by so much.
    fn reopen(self, by: i64) -> House {
        let mut house = House::open(self.engine.into_store().crash(), self.now.shifted(by));
        house.go();
        house
    }

    /// Somebody sets the clock while the engine runs, and it notices.
    fn set_clock(&mut self, by: i64) {
        let from = self.now;
        self.now = from.shifted(by);
        self.engine.record_correction(ClockCorrection { from, to: self.now });
        self.go();
    }

    fn start(&mut self, flow: &str) -> RunId {
        let start = StartRun {
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
        };
        self.engine.submit(Request::Start { ticket: 0, start });
        self.go();
        let all = self.engine.store().list(&unstuck_store::contract::RunFilter::default(), None, 1);
        all.expect("reads")[0].id
    }

    fn go(&mut self) {
        for _ in 0..10_000 {
            let mut outputs = self.engine.step(self.now);
            outputs.extend(self.engine.wait());
            for output in outputs {
                if let Output::Dispatch { job, .. } = output {
                    self.jobs.push(job.attempt);
                }
            }
            match self.engine.next_step() {
                NextStep::Now | NextStep::Settling => {}
                NextStep::At(_) | NextStep::Idle => return self.engine.record_alive(self.now),
            }
        }
        panic!("the engine never rests");
    }

    fn pass(&mut self, span: Millis) {
        self.now = self.now + span;
        self.go();
    }

    fn say(&mut self, says: Report) {
        let attempt = *self.jobs.last().expect("there is a job");
        self.engine.submit(Request::Executor(ExecutorReport::Report(attempt, says)));
        self.go();
    }

    fn fail(&mut self) {
        self.say(Report::Fail { error: Box::new(Error::new("no")), fatal: false });
    }

    fn run(&mut self, run: RunId) -> Run {
        self.engine.store().run(run).expect("reads").expect("there")
    }

    fn next(&mut self) -> Millis {
        match self.engine.next_step() {
            NextStep::At(time) => time.since(self.now),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_clock_that_once_stood_years_ahead_freezes_nothing() {
    // One run with the clock four years ahead, then normal time: while the engine runs, and between two of them.
    for is_running in [true, false] {
        let mut house = House::open(MemoryStore::deferred(), BEGIN.shifted(4 * YEAR));
        let retried = house.start("retried");
        house.fail();
        let waits = house.start("waits");
        house.pass(Millis(400));
        if is_running {
            house.set_clock(-4 * YEAR);
        } else {
            house = house.reopen(-4 * YEAR);
        }
        assert!(house.next() <= Millis(600), "the retry is due in {}", house.next());
        house.pass(Millis(600));
        assert_eq!(house.jobs.last().map(|job| (job.run, job.attempt)), Some((retried, 2)));
        house.pass(Millis::seconds(60));
        assert_eq!(house.run(waits).state(), RunState::Completed);
        let limited = house.start("limited");
        house.pass(Millis::seconds(2));
        assert_ne!(house.run(limited).state(), RunState::Running, "its timeout of 2s has passed");
        assert!(house.run(limited).updated_at < BEGIN + Millis::hours(1), "it is told by the clock as it is");
        let clock = house.engine.store().clock().expect("reads");
        assert_eq!(clock.corrections.len(), 1, "{clock:?}");
        assert!(!clock.needs_sweep, "{clock:?}");
        assert!((clock.shift + 4 * YEAR).abs() <= 1_000, "{clock:?}");
    }
}

#[test]
fn a_clock_that_jumps_declares_no_healthy_process_stuck() {
    for by in [HOUR, -HOUR, 4 * YEAR, -4 * YEAR] {
        let mut house = House::open(MemoryStore::deferred(), BEGIN);
        let run = house.start("leased");
        // Signs of life without progress are no events.
        for _ in 0..10 {
            house.pass(Millis(1_900));
            house.say(Report::Heartbeat { progress: None });
        }
        house.pass(Millis(1_000));
        house.set_clock(by);
        house.pass(Millis(999));
        house.say(Report::Heartbeat { progress: None });
        house.pass(Millis(1_900));
        assert_eq!(house.jobs.len(), 1, "by {by}: it is handed out once");
        let state = house.run(run);
        assert!(state.unit(house.jobs[0].unit).expect("there").past.is_empty(), "by {by}: {state:?}");
        house.pass(Millis(101));
        let state = house.run(run);
        assert_eq!(state.unit(house.jobs[0].unit).expect("there").past.len(), 1, "by {by}: silent for 2s");
    }
}

#[test]
fn a_decision_goes_by_the_clock_also_when_that_has_nearly_come_to_the_recorded_time_again() {
    for left in [0, 1, 1_500, 2_500, 9_000] {
        let mut house = House::open(MemoryStore::deferred(), BEGIN);
        let run = house.start("retried");
        house.set_clock(-20_000);
        house.pass(Millis(20_000 - left));
        house.fail();
        assert_eq!(
            house.next(),
            Millis::seconds(1),
            "{left} ms before: the retry is as far away as it was asked for"
        );
        assert_eq!(house.run(run).updated_at, BEGIN, "{left} ms before: recorded time does not go back");
    }
}

#[test]
fn a_clock_that_goes_wrong_and_is_set_right_leaves_all_timers_where_they_were() {
    let mut house = House::open(MemoryStore::deferred(), BEGIN);
    let run = house.start("waits");
    house.pass(Millis::seconds(10));
    for by in [4 * YEAR, -4 * YEAR, -HOUR, HOUR, -9 * YEAR, 9 * YEAR] {
        house.set_clock(by);
        house.pass(Millis::seconds(1));
        assert_eq!(house.run(run).state(), RunState::Waiting, "by {by}");
    }
    assert_eq!(house.next(), Millis::seconds(44));
    house.pass(Millis::seconds(44));
    assert_eq!(house.run(run).state(), RunState::Completed);
}

#[test]
fn looking_for_timers_that_lie_ahead_survives_a_crash_in_the_middle() {
    for steps in 0..8 {
        let mut house = House::open(MemoryStore::deferred(), BEGIN);
        let runs: Vec<RunId> = (0..20).map(|_| house.start("many")).collect();
        house.pass(Millis::minutes(4));
        let from = house.now;
        house.now = from.shifted(-4 * YEAR);
        house.engine.record_correction(ClockCorrection { from, to: house.now });
        for _ in 0..steps {
            house.engine.step(house.now);
        }
        house.engine.wait();
        let mut house = house.reopen(0);
        house.pass(Millis::minutes(6).plus(Millis(1)));
        for run in runs {
            assert_eq!(house.run(run).state(), RunState::Completed, "after {steps} steps");
        }
    }
}

#[test]
fn a_sign_of_life_from_before_the_clock_was_set_back_is_none() {
    let mut house = House::open(MemoryStore::deferred(), BEGIN);
    let run = house.start("queued");
    house.pass(Millis::seconds(10));
    house.set_clock(-4 * YEAR);
    house.pass(Millis::seconds(10));
    // It is set right while nobody is there: that looks like four years without an engine, which count against nobody.
    let mut house = house.reopen(4 * YEAR);
    assert_eq!(house.run(run).state(), RunState::Running, "it has time left");
    house.pass(Millis::seconds(21));
    assert_eq!(house.run(run).state(), RunState::Error, "nobody took it");
}

#[test]
fn a_batch_that_was_a_little_ahead_of_the_clock_stays_where_it_was_when_that_is_set() {
    for by in [HOUR, -HOUR] {
        let mut house = House::open(MemoryStore::deferred(), BEGIN);
        house.start("waits");
        house.pass(Millis::seconds(10));
        let mut house = house.reopen(-1_500);
        house.set_clock(by);
        assert_eq!(house.next(), Millis::seconds(50), "by {by}");
    }
}
