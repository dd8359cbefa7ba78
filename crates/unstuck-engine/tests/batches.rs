//! Batches as the store sees them: a handful of calls however much is in one, several under way, and what is done while nobody
//! knows what became of one.

use std::collections::VecDeque;
use std::sync::Arc;

use unstuck_core::clock::ClockCorrection;
use unstuck_core::command::{Command, OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::offer::Offer;
use unstuck_core::session::renewal_interval;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{EngineError, Output, Request, StartRun, Ticket};
use unstuck_store::contract::{FlowRecord, RunFilter, Store, StoreError};
use unstuck_store::delegate_store;
use unstuck_store::memory::{MemoryStore, SharedStore};

const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: chain\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work}\n---\n\
    flow: passes\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work, with: {v: '${steps.a.output}', w: '${input}'}}\n---\n\
    flow: parent\nsteps:\n  - {id: a, flow: chain}\n  - {id: b, action: work}\n---\n\
    flow: limited\nconcurrency: 1\nsteps:\n  - {id: a, action: work}\n---\n\
    flow: short\nsteps:\n  - {id: a, action: work, timeout: 15s}\n";

/// A store that counts what is asked of it.
struct Counting {
    store: MemoryStore,
    calls: Calls,
}

/// Calls of a store: those that a database needs a round trip for, and all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    asks: usize,
    mores: usize,
    stages: usize,
    all: usize,
}

impl Counting {
    fn store(&mut self) -> &mut MemoryStore {
        self.calls.all += 1;
        &mut self.store
    }
}

delegate_store!(Counting, store, but loads {
    fn loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        let loaded = self.store().loaded();
        self.calls.asks += usize::from(loaded.is_some());
        loaded
    }

    fn more(&mut self, batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError> {
        self.calls.mores += 1;
        self.store().more(batch, runs, payloads)
    }

    fn stage(&mut self, batch: BatchId, stage: Stage) -> Result<StageId, StoreError> {
        self.calls.stages += 1;
        self.store().stage(batch, stage)
    }

    fn abandon(&mut self, batch: BatchId, unchanged: Vec<Run>) {
        self.store().abandon(batch, unchanged);
    }

    fn rollback(&mut self, batch: BatchId) {
        self.store().rollback(batch);
    }
});

/// An engine with one worker that has room for a thousand.
struct Bench<S> {
    engine: Engine<S>,
    worker: Worker,
    now: Time,
    jobs: VecDeque<Job>,
    replies: Vec<(Ticket, Result<Answer, EngineError>)>,
}

impl<S: Store> Bench<S> {
    fn new(store: S, now: Time) -> Bench<S> {
        Bench::with_settings(store, now, Settings::default())
    }

    fn with_settings(store: S, now: Time, settings: Settings) -> Bench<S> {
        let compile = |record: &FlowRecord| {
            let loaded = unstuck_flow::load(&record.source, "test.yaml", "", &|_| true);
            Ok(loaded.expect("a good flow").flows.remove(0))
        };
        let mut engine = Engine::new(store, Box::new(compile), settings).expect("opens");
        for flow in unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows {
            engine.put_flow(flow).expect("kept");
        }
        let worker = Worker { name: "w".into(), incarnation: engine.incarnation(), local: true };
        let queues = [Arc::from("work")].into();
        engine.register(Offer { worker: worker.clone(), queues, free: 1_000, max_load: 1_000 }, false);
        Bench { engine, worker, now, jobs: VecDeque::new(), replies: Vec::new() }
    }

    fn step(&mut self) {
        for output in self.engine.step(self.now) {
            match output {
                Output::Reply { ticket, result } => self.replies.push((ticket, result)),
                Output::Dispatch { job, worker } => {
                    assert_eq!(worker, self.worker);
                    self.jobs.push_back(job);
                }
                Output::Interrupt { .. }
                | Output::CleanUp { .. }
                | Output::Happened { .. }
                | Output::Forgotten { .. } => {}
            }
        }
    }

    /// Steps until there is nothing more to do but to wait for the store.
    fn go(&mut self) {
        self.step();
        while self.engine.next_step() == NextStep::Now {
            self.step();
        }
        self.step();
    }

    fn start(&mut self, ticket: Ticket, flow: &str, key: Option<&str>, input: Json) {
        let start = StartRun {
            flow: flow.into(),
            version: None,
            key: key.map(Arc::from),
            input,
            labels: None,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: Actor::User("ada".into()),
        };
        self.engine.submit(Request::Start { ticket, start });
    }

    fn started(&mut self, flow: &str) -> RunId {
        self.start(0, flow, None, Json::NULL);
        self.go();
        match self.replies.pop() {
            Some((0, Ok(Answer::Started(run)))) => run,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, ticket: Ticket, run: RunId, command: Command) {
        self.engine.submit(Request::Command { ticket, run, command });
    }

    fn complete(&mut self, job: &Job, output: Json) {
        let report = Report::Complete { output };
        self.engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, report)));
    }

    fn run(&mut self, run: RunId) -> Run {
        self.engine.store().run(run).expect("readable").expect("there")
    }
}

fn pause() -> Command {
    Command::Pause { by: Actor::User("ada".into()), reason: None }
}

fn unpause() -> Command {
    Command::Unpause { by: Actor::User("ada".into()) }
}

/// More than travels with an event.
fn large(n: usize) -> Json {
    Json::parse(&format!("\"{}{n}\"", "x".repeat(1_000))).expect("a text")
}

/// Starts a run, of which this is the number.
type Start = fn(&mut Bench<Counting>, u64);

/// Brings so many runs to their end, all at once, step after step; gives what each batch has called, that of the starts first.
fn count_calls(start: Start, size: u64) -> Vec<Calls> {
    let mut bench = Bench::new(Counting { store: MemoryStore::new(), calls: Calls::default() }, BEGIN);
    let mut counted = Vec::new();
    let mut count = |bench: &mut Bench<Counting>| {
        bench.engine.store().calls = Calls::default();
        bench.step();
        counted.push(bench.engine.store().calls);
    };
    (0..size).for_each(|n| start(&mut bench, n));
    count(&mut bench);
    // The same keys again.
    (0..size).for_each(|n| start(&mut bench, n));
    bench.go();
    while let Some(jobs) = Some(std::mem::take(&mut bench.jobs)).filter(|jobs| !jobs.is_empty()) {
        jobs.iter().enumerate().for_each(|(n, job)| bench.complete(job, large(n)));
        count(&mut bench);
        bench.go();
    }
    let open = RunFilter { states: vec![RunState::Running], ..RunFilter::default() };
    assert_eq!(bench.engine.store().list(&open, None, 9).expect("reads").len(), 0, "all is done");
    counted
}

#[test]
fn a_batch_is_a_handful_of_calls_however_much_is_in_it() {
    let plain: Start = |bench, n| bench.start(n, "chain", None, Json::NULL);
    let keyed: Start = |bench, n| bench.start(n, "passes", Some(&format!("k{n}")), large(1));
    let nested: Start = |bench, n| bench.start(n, "parent", None, Json::NULL);
    let kinds = [("plain", plain, 0), ("keys and payloads", keyed, 1), ("parents and children", nested, 1)];
    for (what, start, least_mores) in kinds {
        for size in [1, 16, 256] {
            let counted = count_calls(start, size);
            let is_few =
                |calls: &Calls| (calls.asks, calls.stages) == (1, 1) && calls.mores <= 2 && calls.all < 10;
            assert!(counted.len() > 2 && counted.iter().all(is_few), "{what}, {size}: {counted:?}");
            let mores = counted.iter().map(|calls| calls.mores).max();
            assert!(
                mores >= Some(least_mores),
                "{what}, {size}: nothing had to be loaded besides: {counted:?}"
            );
        }
    }
}

/// A store that has two lanes, and gives what was asked for when it is told to.
fn two_lanes() -> Bench<MemoryStore> {
    let mut store = MemoryStore::new();
    store.set_lanes(2);
    Bench::new(store, BEGIN)
}

#[test]
fn several_batches_are_under_way_and_nothing_overtakes_in_its_run() {
    let mut bench = two_lanes();
    let (first, second) = (bench.started("chain"), bench.started("chain"));
    bench.engine.store().hold_loads(true);
    bench.ask(1, first, pause());
    bench.step();
    bench.ask(2, first, unpause());
    bench.ask(3, second, pause());
    bench.ask(4, first, pause());
    bench.step();
    assert_eq!(bench.replies.len(), 0, "nothing is loaded yet");
    assert_eq!(bench.engine.next_step(), NextStep::Settling, "there is no third lane");
    assert_eq!(bench.engine.backlog(), 4);
    assert!(bench.engine.store().give_newest_load());
    bench.step();
    assert_eq!(bench.replies, [(3, Ok(Answer::Done))], "the second batch is there first");
    assert_eq!(bench.run(first).state(), RunState::Running, "it is read as it was");
    bench.engine.store().hold_loads(false);
    bench.engine.store().give_loads();
    bench.go();
    let done = |ticket| (ticket, Ok(Answer::Done));
    assert_eq!(bench.replies[1..], [done(1), done(2), done(4)], "in order, each in its turn");
    assert_eq!(bench.run(first).state(), RunState::Paused);
}

#[test]
fn what_is_to_be_handed_out_is_looked_for_by_one_batch_at_a_time() {
    let mut bench = two_lanes();
    bench.engine.store().hold_loads(true);
    for n in 0..3 {
        bench.start(n, "chain", None, Json::NULL);
        bench.step();
        if n > 0 {
            bench.engine.store().give_newest_load();
        }
    }
    bench.engine.store().hold_loads(false);
    bench.engine.store().give_loads();
    bench.go();
    let mut handed_out: Vec<RunId> = bench.jobs.iter().map(|job| job.attempt.run).collect();
    handed_out.sort_unstable();
    handed_out.dedup();
    assert_eq!((bench.jobs.len(), handed_out.len()), (3, 3), "each once");
}

#[test]
fn what_comes_while_a_batch_looks_around_is_looked_for_afterwards() {
    let mut bench = two_lanes();
    bench.engine.store().hold_loads(true);
    bench.engine.look_again();
    bench.step();
    bench.start(1, "limited", None, Json::NULL);
    bench.step();
    assert!(bench.engine.store().give_newest_load());
    bench.step();
    bench.engine.store().hold_loads(false);
    bench.engine.store().give_loads();
    bench.go();
    assert_eq!(bench.jobs.len(), 1, "it is let in, though the first batch has not seen it");
}

#[test]
fn room_that_another_batch_has_taken_meanwhile_is_not_given_twice() {
    let mut bench = two_lanes();
    bench.engine.dismiss_executors();
    bench.started("chain");
    bench.engine.store().hold_loads(true);
    let (worker, queues) = (bench.worker.clone(), [Arc::from("work")].into());
    bench.engine.register(Offer { worker, queues, free: 1, max_load: 1 }, false);
    bench.step();
    bench.start(1, "chain", None, Json::NULL);
    bench.step();
    assert!(bench.engine.store().give_newest_load());
    bench.step();
    assert_eq!(bench.jobs.len(), 1, "the run that starts takes the room");
    bench.engine.store().hold_loads(false);
    bench.engine.store().give_loads();
    bench.go();
    assert_eq!(bench.jobs.len(), 1, "what waits is not handed out as well");
    let job = bench.jobs.pop_front().expect("a job");
    bench.complete(&job, Json::NULL);
    bench.go();
    assert_eq!(bench.jobs.len(), 1, "it is handed out when there is room");
}

/// Seed 244 of the simulator, when batches began to be loaded late.
#[test]
fn what_is_due_waits_for_what_was_said_in_a_batch_that_is_not_loaded_yet() {
    let mut bench = two_lanes();
    let run = bench.started("short");
    let job = bench.jobs.pop_front().expect("a job");
    bench.engine.store().hold_loads(true);
    bench.now = BEGIN + Millis::seconds(15);
    bench.step();
    bench.complete(&job, Json::NULL);
    bench.step();
    assert_eq!(
        bench.engine.batches_under_way(),
        2,
        "one looks for what is due, one has heard that it has ended"
    );
    bench.engine.store().hold_loads(false);
    bench.engine.store().give_loads();
    bench.go();
    bench.now = bench.now + Millis(100);
    bench.go();
    assert_eq!(bench.run(run).state(), RunState::Completed, "it has ended in time");
}

/// Seed 284 of the simulator, when batches began to be loaded late.
#[test]
fn a_batch_is_decided_at_the_time_it_was_loaded_at_or_at_the_last_change_that_its_server_knows_of() {
    for changes in [false, true] {
        let mut store = MemoryStore::new();
        store.set_lanes(2);
        let shared = SharedStore::new(store);
        shared.set_time(BEGIN);
        shared.tell_time();
        let clock = shared.new_handle();
        let mut bench = Bench::new(shared, BEGIN);
        bench.engine.store().store().hold_loads(true);
        bench.start(1, "chain", None, Json::NULL);
        bench.step();
        let changed_at = BEGIN + Millis(20);
        clock.set_time(changed_at);
        if changes {
            let by = Actor::User("ada".into());
            let order = PolicyCommand::Pause { reason: "it is night".into(), by };
            bench.engine.change_policies(order, changed_at).expect("though a batch is under way");
        }
        bench.now = BEGIN + Millis(40);
        clock.set_time(bench.now);
        bench.engine.store().store().hold_loads(false);
        bench.engine.store().store().give_loads();
        bench.go();
        let Some((1, Ok(Answer::Started(run)))) = bench.replies.pop() else { panic!("it is started") };
        let started = bench.engine.store().history(run, 0, 1).expect("reads")[0].at;
        assert_eq!(started, if changes { changed_at } else { BEGIN });
    }
}

#[test]
fn what_is_loaded_is_decided_however_much_is_outstanding() {
    let mut store = MemoryStore::new();
    store.set_lanes(2);
    let settings = Settings { max_outstanding: 1, ..Settings::default() };
    let mut bench = Bench::with_settings(store, BEGIN, settings);
    let (first, second) = (bench.started("chain"), bench.started("chain"));
    bench.engine.store().hold_loads(true);
    bench.ask(1, first, pause());
    bench.step();
    bench.ask(2, second, pause());
    bench.step();
    bench.engine.store().lose_next_answer(true);
    assert!(bench.engine.store().give_newest_load());
    bench.step();
    assert_eq!((bench.engine.outstanding(), bench.replies.len()), (1, 0), "nobody knows what became of it");
    bench.engine.store().give_loads();
    bench.step();
    assert_eq!(
        bench.replies,
        [(1, Ok(Answer::Done))],
        "others do not wait for what the first batch has locked"
    );
}

#[test]
fn what_nobody_knows_is_neither_answered_nor_repeated_until_it_is_looked_up() {
    for happens in [true, false] {
        let mut bench = Bench::new(MemoryStore::new(), BEGIN);
        let (run, other) = (bench.started("chain"), bench.started("chain"));
        let job = bench.jobs.pop_front().expect("a job");
        assert_eq!(job.attempt.run, run);
        bench.jobs.clear();
        bench.engine.store().lose_next_answer(happens);
        bench.complete(&job, Json::NULL);
        bench.ask(1, run, pause());
        bench.go();
        bench.ask(2, other, pause());
        bench.go();
        assert_eq!(bench.replies, [(2, Ok(Answer::Done))], "{happens}: only the other run is known");
        assert_eq!(bench.jobs.len(), 0, "{happens}: nothing is handed out");
        assert_eq!(bench.engine.outstanding(), 1);
        let events = bench.run(run).seq;
        bench.now = bench.now + Millis::seconds(5);
        bench.go();
        assert_eq!(bench.run(run).seq, events, "{happens}: nothing is repeated");
        assert_eq!(bench.engine.store().look_up_outcomes(), 1);
        bench.go();
        bench.now = bench.now + Millis::seconds(1);
        bench.go();
        let (_, answer) = bench.replies.pop().expect("it is answered");
        if happens {
            assert_eq!(answer, Ok(Answer::Done));
        } else {
            assert!(matches!(answer, Err(EngineError::Store(StoreError::Away(_)))), "{answer:?}");
        }
        let handed_out: Vec<String> = bench.jobs.iter().map(|job| job.step().id.to_string()).collect();
        assert_eq!(handed_out, ["b"], "{happens}: once it is known");
        assert_eq!((bench.engine.outstanding(), bench.engine.backlog()), (0, 0));
    }
}

#[test]
fn what_may_have_been_handed_out_is_handed_out_once_and_takes_room_once() {
    for happens in [true, false] {
        let mut bench = Bench::new(MemoryStore::new(), BEGIN);
        let (worker, queues) = (bench.worker.clone(), Arc::<[Arc<str>]>::from([Arc::from("work")]));
        let offer = |free| Offer { worker: worker.clone(), queues: queues.clone(), free, max_load: 1 };
        bench.engine.dismiss_executors();
        let (first, second) = (bench.started("chain"), bench.started("chain"));
        bench.engine.store().lose_next_answer(happens);
        bench.engine.register(offer(1), false);
        for _ in 0..5 {
            bench.go();
            bench.now = bench.now + Millis::seconds(1);
        }
        assert_eq!(bench.jobs.len(), 0, "{happens}: nobody knows");
        bench.engine.store().look_up_outcomes();
        bench.go();
        // A store that was away is asked again in a moment.
        bench.now = bench.now + Millis::seconds(1);
        for _ in 0..4 {
            bench.go();
            bench.now = bench.now + Millis::seconds(1);
            let jobs: Vec<Job> = bench.jobs.drain(..).collect();
            assert_eq!(jobs.len(), 1, "{happens}: it has room for one");
            bench.complete(&jobs[0], Json::NULL);
        }
        bench.go();
        let states = [first, second].map(|run| bench.run(run).state());
        assert_eq!(states, [RunState::Completed; 2], "{happens}");
    }
}

#[test]
fn a_session_is_renewed_while_nobody_knows_what_became_of_a_batch() {
    let shared = SharedStore::new(MemoryStore::new());
    shared.set_time(BEGIN);
    let clock = shared.new_handle();
    let mut bench = Bench::new(shared, BEGIN);
    let run = bench.started("chain");
    let lease = unstuck_core::session::SESSION_LEASE;
    bench.engine.store().store().lose_next_answer(true);
    bench.ask(1, run, pause());
    bench.go();
    for _ in 0..20 {
        bench.now = bench.now + renewal_interval(lease);
        clock.set_time(bench.now);
        assert!(bench.engine.wait().is_empty(), "it does not wait for ever");
        bench.go();
    }
    assert!(!bench.engine.is_stopped(), "{:?}", bench.engine.trouble());
    bench.engine.store().store().look_up_outcomes();
    bench.go();
    assert_eq!(bench.replies, [(1, Ok(Answer::Done))]);
}

#[test]
fn servers_whose_clocks_differ_do_not_pull_each_other_ahead() {
    // How far the second server's clock is ahead, and what the store tells: nothing, or a time of its own.
    let years = 4 * 365 * 24 * 3_600_000;
    let small = [(1_500, false), (-1_500, false), (1_500, true), (-1_500, true)];
    for (ahead, tells) in small.into_iter().chain([(years, true), (-years, true)]) {
        let shared = SharedStore::new(MemoryStore::new());
        shared.set_time(BEGIN);
        if tells {
            shared.tell_time();
        }
        let other = shared.new_handle();
        let mut first = Bench::new(shared, BEGIN);
        let mut second = Bench::new(other, BEGIN.shifted(ahead));
        let (run, own) = (first.started("chain"), first.started("chain"));
        second.ask(1, run, pause());
        second.go();
        first.now = first.now + Millis(10);
        first.engine.store().set_time(first.now);
        first.ask(2, run, unpause());
        first.ask(3, own, pause());
        first.go();
        let at = |bench: &mut Bench<SharedStore>, run| -> Vec<Time> {
            let events = bench.engine.store().history(run, 0, 99).expect("reads");
            events.iter().map(|event| event.at).collect()
        };
        let times = at(&mut first, run);
        assert!(times.is_sorted(), "{ahead}, {tells}: {times:?}");
        assert_eq!(
            at(&mut first, own).last(),
            Some(&first.now),
            "{ahead}, {tells}: its own clock is its own"
        );
        let paused = if tells { BEGIN } else { BEGIN.shifted(ahead).max(BEGIN) };
        assert_eq!(times[times.len() - 2], paused, "{ahead}, {tells}");
    }
}

#[test]
fn the_clock_of_a_server_is_its_own_where_the_store_has_one() {
    let shared = SharedStore::new(MemoryStore::new());
    shared.set_time(BEGIN);
    shared.tell_time();
    let mut bench = Bench::new(shared, BEGIN + Millis::hours(9));
    let run = bench.started("chain");
    for (ticket, by) in [(1, -7_200_000), (2, 40_000), (3, -9_000_000_000), (4, 9_000_000_000)] {
        let from = bench.now;
        bench.now = bench.now.shifted(by);
        bench.engine.record_correction(ClockCorrection { from, to: bench.now });
        bench.ask(ticket, run, if ticket % 2 == 0 { unpause() } else { pause() });
        bench.go();
    }
    assert_eq!(bench.replies.len(), 4);
    let events = bench.engine.store().history(run, 0, 99).expect("reads");
    assert!(events.iter().all(|event| event.time() == BEGIN), "{events:?}");
    assert_eq!(
        bench.engine.store().clock().expect("reads").corrections,
        [],
        "nobody has set the clock of the store"
    );
}
