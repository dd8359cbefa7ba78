//! The steppable engine on a store whose durability the test owns: what leaves it, when, and what a failure undoes.

use std::collections::VecDeque;
use std::sync::Arc;

use unstuck_core::command::{Command, OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::error::Error;
use unstuck_core::model::run::RunState;
use unstuck_core::offer::Offer;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::request::{EngineError, Output, Request, StartRun};
use unstuck_store::contract::{Store, StoreError};
use unstuck_store::memory::MemoryStore;

const BEGIN: Time = Time(1_800_000_000_000);
const CHAIN: &str =
    "flow: chain\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work}\n  - {id: c, action: work}\n";

/// An engine, a clock and one executor, with all that came out.
struct Bench {
    engine: Engine<MemoryStore>,
    now: Time,
    jobs: VecDeque<Job>,
    replies: Vec<(u64, Result<Answer, EngineError>)>,
    events: Vec<(RunId, Event)>,
    interrupted: Vec<AttemptId>,
}

impl Bench {
    fn new(store: MemoryStore, flows: &str, room: u32) -> Bench {
        let compile = Box::new(|_: &_| Err("every flow is at hand".to_owned()));
        let mut engine = Engine::new(store, compile, Settings::default()).expect("opens");
        for flow in unstuck_flow::load(flows, "test.yaml", "", &|_| false).expect("a good file").flows {
            engine.put_flow(flow).expect("kept");
        }
        let queues: Arc<[Arc<str>]> = [Arc::from("work"), Arc::from("other")].into();
        engine.register(Offer { worker: worker(), queues, free: room, max_load: room }, false);
        let (jobs, replies, events, interrupted) = Default::default();
        Bench { engine, now: BEGIN, jobs, replies, events, interrupted }
    }

    fn start(&mut self, ticket: u64, flow: &str, key: Option<&str>, priority: i32) {
        let start = StartRun {
            flow: flow.into(),
            version: None,
            key: key.map(Into::into),
            input: Json::NULL,
            labels: None,
            priority,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: Actor::Engine,
        };
        self.engine.submit(Request::Start { ticket, start });
    }

    fn step(&mut self) {
        let outputs = self.engine.step(self.now);
        self.take(outputs);
    }

    fn take(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Reply { ticket, result } => self.replies.push((ticket, result)),
                Output::Dispatch { job, .. } => self.jobs.push_back(job),
                Output::Interrupt { attempt, .. } => self.interrupted.push(attempt),
                Output::Happened { run, event } => self.events.push((run, event)),
                Output::Forgotten { .. } | Output::CleanUp { .. } => {}
            }
        }
    }

    /// Steps until there is nothing to do now; a deferred store is made durable on the way.
    fn run(&mut self) {
        for _ in 0..1_000 {
            self.step();
            self.engine.store().make_durable(100);
            match self.engine.next_step() {
                NextStep::Now | NextStep::Settling => {}
                NextStep::At(_) | NextStep::Idle => return,
            }
        }
        panic!("the engine never rests");
    }

    fn complete(&mut self) -> AttemptId {
        let job = self.jobs.pop_front().expect("there is a job");
        self.say(job.attempt, Report::Complete { output: Json::NULL });
        job.attempt
    }

    fn say(&mut self, attempt: AttemptId, says: Report) {
        self.engine.submit(Request::Executor(ExecutorReport::Report(attempt, says)));
    }

    fn started(&self, ticket: u64) -> RunId {
        match self.replies.iter().find(|(reply, _)| *reply == ticket) {
            Some((_, Ok(Answer::Started(run) | Answer::Exists(run)))) => *run,
            other => panic!("ticket {ticket}: {other:?}"),
        }
    }

    fn state(&mut self, run: RunId) -> RunState {
        self.engine.store().run(run).expect("readable").expect("there").state()
    }
}

fn worker() -> Worker {
    Worker { name: "w".into(), incarnation: 1, local: true }
}

#[test]
fn a_run_of_three_steps_is_four_events_because_work_is_handed_over() {
    let mut bench = Bench::new(MemoryStore::new(), CHAIN, 1);
    bench.start(1, "chain", None, 0);
    bench.run();
    for _ in 0..3 {
        bench.complete();
        bench.run();
    }
    let run = bench.started(1);
    assert_eq!((bench.state(run), bench.events.len()), (RunState::Completed, 4));
}

#[test]
fn nothing_leaves_the_engine_before_it_is_durable() {
    let mut bench = Bench::new(MemoryStore::deferred(), CHAIN, 1);
    bench.start(1, "chain", None, 0);
    bench.step();
    bench.step();
    assert!(bench.replies.is_empty() && bench.jobs.is_empty() && bench.events.is_empty());
    assert_eq!(bench.engine.next_step(), NextStep::Settling);
    bench.engine.store().make_durable(1);
    bench.step();
    assert_eq!((bench.replies.len(), bench.jobs.len(), bench.events.len()), (1, 1, 1));
}

#[test]
fn a_refusal_waits_for_what_it_was_seen_on() {
    let mut bench = Bench::new(MemoryStore::deferred(), CHAIN, 0);
    bench.start(1, "chain", None, 0);
    bench.run();
    let run = bench.started(1);
    let cancel = |ticket| Request::Command {
        ticket,
        run,
        command: Command::Cancel { by: Actor::Engine, reason: None },
    };
    let pause = |ticket| Request::Command {
        ticket,
        run,
        command: Command::Pause { by: Actor::Engine, reason: None },
    };
    bench.engine.submit(cancel(2));
    bench.step();
    bench.engine.submit(pause(3));
    bench.step();
    assert_eq!(bench.replies.len(), 1, "the refusal rests on a cancel that may still be lost");
    bench.engine.store().fail_next(&StoreError::Full("no space".into()));
    bench.step();
    assert!(matches!(bench.replies[1], (2, Err(EngineError::Store(StoreError::Full(_))))));
    assert!(
        matches!(bench.replies[2], (3, Err(EngineError::Store(StoreError::Full(_))))),
        "what was seen on the cancel is not true any more: {:?}",
        bench.replies
    );
    bench.now = bench.now + Millis::seconds(1);
    bench.engine.submit(pause(4));
    bench.run();
    assert_eq!(bench.state(run), RunState::Paused);
}

#[test]
fn a_failed_stage_takes_all_that_stood_on_it_and_words_are_heard_again() {
    let mut bench = Bench::new(MemoryStore::deferred(), CHAIN, 1);
    bench.start(1, "chain", None, 0);
    bench.run();
    let run = bench.started(1);
    bench.complete();
    bench.step();
    bench.start(2, "chain", None, 0);
    bench.step();
    assert_eq!(bench.engine.store().fail_next(&StoreError::Away("the network".into())), 2);
    bench.step();
    assert!(
        matches!(&bench.replies[1], (2, Err(EngineError::Store(StoreError::Away(_))))),
        "{:?}",
        bench.replies
    );
    assert!(bench.jobs.is_empty(), "the hand-over was taken back");
    bench.now = bench.now + Millis::seconds(1);
    bench.run();
    assert_eq!(bench.jobs.len(), 1, "the completion was heard again, and step b handed over");
    bench.complete();
    bench.run();
    bench.complete();
    bench.run();
    assert_eq!(bench.state(run), RunState::Completed);
}

#[test]
fn words_of_several_lost_batches_are_heard_again_in_their_order() {
    let mut bench = Bench::new(MemoryStore::deferred(), CHAIN, 1);
    bench.start(1, "chain", None, 0);
    bench.run();
    let attempt = bench.jobs[0].attempt;
    bench.say(attempt, Report::Heartbeat { progress: Some(Json::parse("50").expect("JSON")) });
    bench.step();
    bench.complete();
    bench.step();
    assert_eq!(bench.engine.store().fail_next(&StoreError::Away("the network".into())), 2);
    bench.step();
    bench.now = bench.now + Millis::seconds(1);
    bench.run();
    let run = bench.engine.store().run(attempt.run).expect("reads").expect("is there");
    let past = &run.unit(attempt.unit).expect("is there").past[0];
    assert_eq!((past.outcome.word(), past.progress.is_some()), ("completed", true));
}

#[test]
fn a_stage_that_collides_is_decided_again_and_one_that_finds_no_room_is_told() {
    let mut bench = Bench::new(MemoryStore::new(), CHAIN, 2);
    bench.engine.store().refuse_stage(StoreError::Conflict("somebody was faster".into()));
    bench.start(1, "chain", None, 0);
    bench.start(2, "chain", None, 0);
    bench.run();
    assert_eq!((bench.started(1) == bench.started(2), bench.jobs.len()), (false, 2));

    bench.engine.store().refuse_stage(StoreError::Full("no space".into()));
    bench.start(3, "chain", None, 0);
    bench.complete();
    bench.run();
    let told = bench.replies.iter().find(|(ticket, _)| *ticket == 3).map(|(_, result)| result.clone());
    assert_eq!(told, Some(Err(EngineError::Store(StoreError::Full("no space".into())))));
    bench.now = bench.now + Millis::seconds(1);
    bench.run();
    assert_eq!(bench.jobs.len(), 2, "the completion was not lost");
}

#[test]
fn a_broken_store_stops_the_engine_with_an_answer_for_everyone() {
    let mut bench = Bench::new(MemoryStore::new(), CHAIN, 1);
    bench.engine.store().refuse_stage(StoreError::Broken("the disk lies".into()));
    bench.start(1, "chain", None, 0);
    bench.step();
    bench.start(2, "chain", None, 0);
    bench.step();
    assert_eq!(bench.replies.len(), 2);
    assert!(
        bench
            .replies
            .iter()
            .all(|(_, result)| matches!(result, Err(EngineError::Store(StoreError::Broken(_)))))
    );
    assert_eq!(bench.engine.next_step(), NextStep::Idle);
}

#[test]
fn one_key_is_one_run_even_within_a_batch() {
    let mut bench = Bench::new(MemoryStore::new(), CHAIN, 9);
    bench.start(1, "chain", Some("k"), 0);
    bench.start(2, "chain", Some("k"), 0);
    bench.run();
    bench.start(3, "chain", Some("k"), 0);
    bench.run();
    assert_eq!((bench.started(1), bench.started(1)), (bench.started(2), bench.started(3)));
    assert_eq!(bench.jobs.len(), 1);
}

#[test]
fn a_higher_priority_that_waits_goes_before_a_hand_over() {
    let mut bench = Bench::new(MemoryStore::new(), CHAIN, 1);
    bench.start(1, "chain", None, 0);
    bench.run();
    bench.start(2, "chain", None, 5);
    bench.start(3, "chain", None, 0);
    bench.run();
    bench.complete();
    bench.run();
    assert_eq!(bench.jobs[0].attempt.run, bench.started(2));
    for _ in 0..3 {
        bench.complete();
        bench.run();
    }
    let next = bench.jobs[0].attempt.run;
    assert!(next == bench.started(1) || next == bench.started(3));
}

#[test]
fn a_limit_admits_in_order_and_a_run_that_rests_gives_its_slot_back() {
    let flow = "flow: one\nconcurrency: 1\nsteps:\n  - {id: a, action: work}\n";
    let mut bench = Bench::new(MemoryStore::new(), flow, 9);
    for ticket in 1..=3 {
        bench.start(ticket, "one", None, 0);
    }
    bench.run();
    assert_eq!(bench.jobs.len(), 1);
    assert_eq!(bench.state(bench.started(2)), RunState::Queued);
    let job = bench.jobs.pop_front().expect("one");
    assert_eq!(job.attempt.run, bench.started(1));
    bench.say(job.attempt, Report::Fail { error: Box::new(Error::new("reset")), fatal: false });
    bench.run();
    assert_eq!(bench.state(bench.started(1)), RunState::Error);
    assert_eq!(bench.jobs[0].attempt.run, bench.started(2));
    let run = bench.started(1);
    bench.now = bench.now + Millis::seconds(1);
    let resume = Command::Resume { unit: None, by: Actor::Engine, reason: None, changes: Box::default() };
    bench.engine.submit(Request::Command { ticket: 4, run, command: resume });
    bench.run();
    assert_eq!(bench.state(run), RunState::Queued);
    for expected in [2, 3, 1] {
        assert_eq!(bench.complete().run, bench.started(expected));
        bench.run();
    }
    assert_eq!(bench.state(run), RunState::Completed);
}

#[test]
fn a_child_starts_in_the_batch_of_its_parent_and_a_cancel_reaches_its_attempt() {
    let flows = "flow: parent\nsteps:\n  - {id: sub, flow: chain}\n---\n".to_owned() + CHAIN;
    let mut bench = Bench::new(MemoryStore::new(), &flows, 1);
    bench.start(1, "parent", None, 0);
    bench.step();
    assert_eq!((bench.events.len(), bench.jobs.len()), (2, 1));
    let run = bench.started(1);
    let cancel = Command::Cancel { by: Actor::Engine, reason: None };
    bench.engine.submit(Request::Command { ticket: 2, run, command: cancel });
    bench.run();
    let attempt = bench.jobs[0].attempt;
    assert_eq!((bench.state(run), bench.state(attempt.run)), (RunState::Cancelled, RunState::Cancelled));
    assert_eq!(bench.interrupted, [attempt]);
    bench.say(attempt, Report::Complete { output: Json::NULL });
    bench.run();
    assert_eq!(bench.state(attempt.run), RunState::Cancelled, "no late worker is believed");
}

#[test]
fn timers_fire_at_their_time_and_time_never_goes_back() {
    let flow = "flow: timed\nsteps:\n  - {id: a, wait: 30s}\n  - {id: b, action: work}\n";
    let mut bench = Bench::new(MemoryStore::new(), flow, 1);
    bench.start(1, "timed", None, 0);
    bench.run();
    assert_eq!(bench.engine.next_step(), NextStep::At(BEGIN + Millis::seconds(30)));
    bench.now = Time(0);
    bench.run();
    assert!(bench.jobs.is_empty());
    bench.now = BEGIN + Millis::seconds(30);
    bench.run();
    assert_eq!(bench.jobs.len(), 1);
    assert!(bench.events.iter().all(|(_, event)| event.at >= BEGIN));
}

#[test]
fn an_engine_on_a_store_with_runs_goes_on_where_they_were() {
    let mut bench = Bench::new(MemoryStore::deferred(), CHAIN, 0);
    bench.start(1, "chain", None, 0);
    bench.run();
    let run = bench.started(1);
    let Bench { mut engine, .. } = bench;
    let store = std::mem::replace(engine.store(), MemoryStore::new()).crash();
    let mut bench = Bench::new(store, CHAIN, 1);
    bench.run();
    assert_eq!(bench.jobs.iter().map(|job| job.attempt.run).collect::<Vec<_>>(), [run]);
}

#[test]
fn room_that_is_given_back_is_used_at_once() {
    /// How the attempt that takes up all room ends, for its executor.
    type End = fn(&mut Bench, AttemptId);
    let flow = "flow: one\nsteps:\n  - {id: a, action: work}\n";
    let cases: [(&str, End); 3] = [
        ("an interrupted attempt has really ended", |bench, attempt| {
            let cancel = Command::Cancel { by: Actor::Engine, reason: None };
            bench.engine.submit(Request::Command { ticket: 9, run: attempt.run, command: cancel });
            bench.run();
            assert_eq!((bench.interrupted.as_slice(), bench.jobs.len()), ([attempt].as_slice(), 0));
            bench.engine.submit(Request::Executor(ExecutorReport::Freed(attempt)));
        }),
        ("it completes", |bench, attempt| bench.say(attempt, Report::Complete { output: Json::NULL })),
        ("its worker is gone, and another one is there", |bench, _| {
            bench.engine.dismiss(&worker());
            bench.run();
            assert_eq!(bench.jobs.len(), 0);
            let worker = Worker { incarnation: 2, ..worker() };
            let queues = [Arc::from("work")].into();
            bench.engine.register(Offer { worker, queues, free: 1, max_load: 1 }, false);
            assert_eq!(bench.engine.next_step(), NextStep::Now);
        }),
    ];
    for (case, end) in cases {
        let mut bench = Bench::new(MemoryStore::new(), flow, 1);
        bench.start(1, "one", None, 0);
        bench.start(2, "one", None, 0);
        bench.run();
        let attempt = bench.jobs.pop_front().expect("one").attempt;
        assert!(bench.jobs.is_empty(), "{case}");
        end(&mut bench, attempt);
        bench.run();
        assert_eq!(bench.jobs.len(), 1, "{case}");
        assert_eq!(bench.jobs[0].attempt.run, bench.started(2), "{case}");
    }
}

#[test]
fn what_a_worker_kept_over_a_restart_takes_up_its_room() {
    let flow = "flow: one\nsteps:\n  - {id: a, action: work}\n";
    let mut bench = Bench::new(MemoryStore::new(), flow, 1);
    bench.engine.dismiss(&worker());
    bench.start(1, "one", None, 0);
    bench.run();
    let elsewhere = Worker { name: "far".into(), incarnation: 1, local: false };
    let offer = Offer { worker: elsewhere.clone(), queues: [Arc::from("work")].into(), free: 2, max_load: 2 };
    bench.engine.register(offer.clone(), false);
    bench.run();
    let kept = bench.jobs.pop_front().expect("one").attempt;
    let mut bench = Bench { engine: restarted(bench.engine, flow), ..bench };
    bench.engine.dismiss(&worker());
    bench.engine.register(offer, false);
    bench.engine.adopt(kept, &elsewhere, 1);
    bench.start(2, "one", None, 0);
    bench.start(3, "one", None, 0);
    bench.run();
    assert_eq!(bench.jobs.len(), 1, "it had room for one more");
    bench.engine.submit(Request::Executor(ExecutorReport::Freed(kept)));
    bench.run();
    assert_eq!(bench.jobs.len(), 2);
}

fn restarted(engine: Engine<MemoryStore>, flows: &str) -> Engine<MemoryStore> {
    Bench::new(engine.into_store().crash(), flows, 1).engine
}

#[test]
fn a_store_that_was_away_is_asked_again_soon_whatever_the_clock_does() {
    // How far the clock has gone before the store is away, and before it is asked again.
    for (before, after) in [(0, 0), (-7_200_000, 0), (0, -7_200_000), (0, 7_200_000), (7_200_000, 0)] {
        let mut bench = Bench::new(MemoryStore::new(), CHAIN, 1);
        bench.start(1, "chain", None, 0);
        bench.run();
        bench.now = Time(bench.now.0 + before);
        bench.engine.store().refuse_stage(StoreError::Away("the network is down".to_owned()));
        bench.complete();
        bench.step();
        assert!(bench.engine.trouble().is_some() && bench.jobs.is_empty());
        bench.now = Time(bench.now.0 + after);
        bench.run();
        bench.now = bench.now + Millis(250);
        bench.run();
        assert_eq!(bench.jobs.len(), 1, "{before} {after}");
    }
}

#[test]
fn a_store_that_takes_nothing_for_a_while_costs_nobody_a_lease() {
    let flow = "flow: one\nsteps:\n  - {id: a, action: far, heartbeatTimeout: 10s, retryStrategy: none}\n";
    // Whether its worker tries to give signs of life meanwhile.
    for is_heard in [true, false] {
        let mut bench = Bench::new(MemoryStore::new(), flow, 1);
        let worker = Worker { name: "far".into(), incarnation: 1, local: false };
        let queues = [Arc::from("far")].into();
        bench.engine.register(Offer { worker, queues, free: 1, max_load: 1 }, false);
        bench.start(1, "one", None, 0);
        bench.run();
        let attempt = bench.jobs[0].attempt;
        let answer = |ticket, says| Request::Command {
            ticket,
            run: attempt.run,
            command: Command::Report { attempt, report: says },
        };
        bench.engine.submit(answer(2, Report::Start));
        bench.run();
        // It is asked again every 200 ms, for 30 s.
        for tick in 0..150 {
            bench.engine.store().refuse_stage(StoreError::Full("no space".into()));
            if tick == 0 || is_heard && tick % 20 == 0 {
                bench.engine.submit(answer(3, Report::Heartbeat { progress: None }));
            }
            bench.step();
            bench.now = bench.now + Millis(200);
        }
        bench.run();
        bench.now = bench.now + Millis::seconds(9);
        bench.run();
        assert!(bench.interrupted.is_empty(), "{is_heard}: it has 10 s from the last answer that was taken");
        bench.now = bench.now + Millis::seconds(2);
        bench.run();
        assert_eq!(bench.interrupted, [attempt], "{is_heard}: and no more");
    }
}
