//! Several servers on one store: each is believed about its own executors only, and as long as its session lasts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use unstuck_core::command::{Command, OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::offer::Offer;
use unstuck_core::session::{SESSION_LEASE, renewal_deadline};
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{EngineError, Output, Request, StartRun};
use unstuck_store::contract::{FlowRecord, Locked, Store, StoreError, Wants};
use unstuck_store::memory::{MemoryStore, SharedStore};

const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: chain\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work}\n---\n\
    flow: limited\nsteps:\n  - {id: a, action: work, timeout: 60s}\n";

fn flows() -> Vec<Flow> {
    unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows
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
        by: Actor::User("ada".into()),
    }
}

/// One server.
struct Server {
    engine: Engine<SharedStore>,
    worker: Worker,
    now: Time,
    jobs: VecDeque<Job>,
    interrupted: Vec<AttemptId>,
    cleaned_up: Vec<AttemptId>,
    replies: Vec<Result<Answer, EngineError>>,
}

impl Server {
    fn new(store: SharedStore, host: &str, now: Time) -> Server {
        let compile = |record: &FlowRecord| {
            let loaded = unstuck_flow::load(&record.source, "test.yaml", "", &|_| true);
            Ok(loaded.expect("a good flow").flows.remove(0))
        };
        store.set_time(now);
        let settings = Settings { host: host.into(), ..Settings::default() };
        let engine = Engine::new(store, Box::new(compile), settings).expect("opens");
        let worker = Worker { name: "w".into(), incarnation: engine.incarnation(), local: true };
        let nothing = (VecDeque::new(), Vec::new(), Vec::new(), Vec::new());
        let (jobs, interrupted, cleaned_up, replies) = nothing;
        Server { engine, worker, now, jobs, interrupted, cleaned_up, replies }
    }

    fn offer(&mut self) {
        let queues = [Arc::from("work")].into();
        self.engine.register(Offer { worker: self.worker.clone(), queues, free: 9, max_load: 9 }, false);
    }

    fn go(&mut self) {
        for _ in 0..1_000 {
            for output in self.engine.step(self.now) {
                match output {
                    Output::Reply { result, .. } => self.replies.push(result),
                    Output::Dispatch { job, .. } => self.jobs.push_back(job),
                    Output::Interrupt { attempt, .. } => self.interrupted.push(attempt),
                    Output::CleanUp { left, .. } => {
                        self.cleaned_up.extend(left.iter().map(|left| left.attempt));
                    }
                    Output::Happened { .. } | Output::Forgotten { .. } => {}
                }
            }
            match self.engine.next_step() {
                NextStep::Now | NextStep::Settling => {}
                NextStep::At(at) if at <= self.now => {}
                NextStep::At(_) | NextStep::Idle => return,
            }
        }
        panic!("the engine never rests");
    }

    fn start(&mut self, flow: &str) -> RunId {
        self.engine.submit(Request::Start { ticket: 0, start: start_of(flow) });
        self.go();
        match self.replies.pop() {
            Some(Ok(Answer::Started(run))) => run,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, run: RunId, command: Command) -> Result<Answer, EngineError> {
        self.engine.submit(Request::Command { ticket: 0, run, command });
        self.go();
        self.replies.pop().expect("it is answered")
    }

    fn complete(&mut self) -> AttemptId {
        let job = self.jobs.pop_front().expect("there is a job");
        let says = Report::Complete { output: Json::NULL };
        self.engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, says)));
        self.go();
        job.attempt
    }

    fn run(&mut self, run: RunId) -> Run {
        self.engine.store().run(run).expect("readable").expect("there")
    }

    /// How the attempts of a run's first step have ended.
    fn past(&mut self, run: RunId) -> Vec<&'static str> {
        let run = self.run(run);
        let unit = run.unit(run.units_where(|_| true)[0]).expect("there");
        unit.past.iter().map(|past| past.outcome.word()).collect()
    }
}

/// Time passes for these servers, in steps of seconds, by all clocks.
fn pass(servers: &mut [&mut Server], span: Millis) {
    let step = Millis::seconds(1);
    let mut left = span.0;
    while left > 0 {
        let by = Millis(step.0.min(left));
        left -= by.0;
        for server in servers.iter_mut() {
            server.now = server.now + by;
            let now = server.now;
            server.engine.store().set_time(now);
            server.go();
        }
    }
}

/// Two servers on one store, on two machines; the first has an executor.
fn two() -> (Server, Server) {
    let store = SharedStore::new(MemoryStore::new());
    let other = store.new_handle();
    let mut first = Server::new(store, "one", BEGIN);
    for flow in flows() {
        first.engine.put_flow(flow).expect("kept");
    }
    first.offer();
    (first, Server::new(other, "two", BEGIN))
}

#[test]
fn a_server_that_comes_takes_nothing_from_one_that_is_there() {
    let (mut first, mut second) = two();
    let run = first.start("chain");
    let third = second.engine.store().new_handle();
    let mut third = Server::new(third, "three", BEGIN);
    pass(&mut [&mut first, &mut second, &mut third], Millis::minutes(5));
    assert!(first.past(run).is_empty(), "nothing was lost");
    first.complete();
    first.complete();
    assert_eq!(second.run(run).state(), RunState::Completed);
}

#[test]
fn servers_at_the_same_time_give_out_different_ids() {
    let (mut first, mut second) = two();
    let mut ids: Vec<RunId> = (0..20).flat_map(|_| [first.start("chain"), second.start("chain")]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}

#[test]
fn what_a_dead_server_had_is_lost_once_its_lease_is_over_and_tried_elsewhere() {
    let (mut first, mut second) = two();
    let run = first.start("chain");
    let attempt = first.jobs[0].attempt;
    drop(first);
    second.offer();
    pass(&mut [&mut second], SESSION_LEASE);
    assert!(second.jobs.is_empty(), "it may still live");
    pass(&mut [&mut second], Millis::seconds(4));
    assert_eq!(second.past(run), ["stuck"]);
    assert_eq!(second.cleaned_up, [], "its processes are not on this machine");
    assert_eq!(second.jobs[0].attempt, AttemptId { attempt: 2, ..attempt });
    second.complete();
    second.complete();
    assert_eq!(second.run(run).state(), RunState::Completed);
}

#[test]
fn what_a_dead_server_of_the_same_machine_left_running_is_ended() {
    let (mut first, second) = two();
    let third = second.engine.into_store().new_handle();
    let mut third = Server::new(third, "one", BEGIN);
    first.start("chain");
    let attempt = first.jobs[0].attempt;
    drop(first);
    pass(&mut [&mut third], Millis(SESSION_LEASE.0 + 4_000));
    assert_eq!(third.cleaned_up, [attempt]);
}

#[test]
fn a_server_that_stops_in_good_order_is_not_waited_for() {
    let (mut first, mut second) = two();
    let run = first.start("chain");
    let attempt = first.jobs[0].attempt;
    first.engine.submit(Request::Executor(ExecutorReport::Report(attempt, Report::Release)));
    first.engine.dismiss_executors();
    first.go();
    first.engine.end_session();
    second.offer();
    pass(&mut [&mut second], Millis::seconds(4));
    assert_eq!(second.jobs.len(), 1);
    assert_eq!(second.past(run).len(), 1);
}

#[test]
fn a_cancel_on_one_server_ends_the_work_on_the_other() {
    let (mut first, mut second) = two();
    let run = first.start("chain");
    let attempt = first.jobs[0].attempt;
    let by = Actor::User("ada".into());
    second.ask(run, Command::Cancel { by, reason: None }).expect("cancels");
    assert_eq!(second.interrupted, [], "it is not its own executor");
    first.go();
    assert_eq!(first.interrupted, [attempt]);
    first.go();
    assert_eq!(first.interrupted, [attempt], "once");
}

#[test]
fn a_server_that_was_stopped_for_longer_than_its_lease_is_refused_and_ends_its_work() {
    let (mut first, mut second) = two();
    let run = first.start("chain");
    let attempt = first.jobs[0].attempt;
    second.offer();
    pass(&mut [&mut second], Millis(SESSION_LEASE.0 + 4_000));
    // It goes on, with a result that it has had for a long time.
    first.now = second.now;
    first.engine.submit(Request::Start { ticket: 7, start: start_of("chain") });
    first.complete();
    assert!(first.engine.is_stopped());
    assert_eq!(first.replies, [Err(EngineError::Store(StoreError::SessionEnded))]);
    assert_eq!(first.interrupted, [attempt]);
    assert_eq!(second.past(run), ["stuck"]);
    second.complete();
    second.complete();
    assert_eq!(second.run(run).state(), RunState::Completed);
}

#[test]
fn a_server_that_cannot_renew_its_session_ends_its_work_before_others_take_it() {
    let (mut first, _second) = two();
    first.start("chain");
    let attempt = first.jobs[0].attempt;
    first.engine.store().store().break_renewals(StoreError::Away("the network is down".to_owned()));
    let give_up = renewal_deadline(SESSION_LEASE);
    pass(&mut [&mut first], Millis(give_up.0 - 1_000));
    assert_eq!(first.interrupted, []);
    pass(&mut [&mut first], Millis::seconds(4));
    assert_eq!(first.interrupted, [attempt]);
    assert!(first.engine.is_stopped());
    assert!(first.now.since(BEGIN) < SESSION_LEASE);
}

#[test]
fn the_outage_of_one_server_is_nobody_elses_downtime() {
    let (mut first, mut second) = two();
    let run = first.start("limited");
    pass(&mut [&mut second], Millis::seconds(20));
    first.now = second.now;
    first.engine.record_stop(BEGIN);
    first.go();
    let downtimes = second.engine.store().downtimes().expect("readable");
    assert!(downtimes.iter().all(|down| down.to.since(down.from) < Millis::seconds(4)), "{downtimes:?}");
    // Its limit runs on by the time in which answers were taken.
    pass(&mut [&mut first, &mut second], Millis::seconds(44));
    assert_eq!(second.past(run).len(), 1, "it was stuck after a minute, or a little later");
}

#[test]
fn what_one_server_changes_of_what_is_shared_holds_for_the_others() {
    let (mut first, mut second) = two();
    let by = || Actor::User("ada".into());
    let draft = |name: &str, cause: &str| {
        let text = format!("name: {name}\nerrorSubstring: {cause}\nbackOff: 1s\nmaxAttempts: 3\n");
        unstuck_flow::policies::load(&text, "p.yaml").expect("a good file").policies.remove(0).draft
    };
    let load = |drafts| PolicyCommand::Load { drafts, replace: false, by: by() };
    first.engine.change_policies(load(vec![draft("a", "reset")]), BEGIN).expect("kept");
    second.engine.change_policies(load(vec![draft("b", "timeout")]), BEGIN).expect("kept");
    first.go();
    let names = |server: &mut Server| -> Vec<String> {
        server.engine.policies().iter().map(|policy| policy.name.to_string()).collect()
    };
    assert_eq!(names(&mut first), ["a", "b"]);
    assert_eq!(names(&mut second), ["a", "b"], "neither has overwritten the other's");
    // A new version of a flow is what the other one starts from then on.
    let old = second.start("chain");
    let changed = FLOWS.replace("- {id: b, action: work}", "- {id: c, action: work}");
    let flows = unstuck_flow::load(&changed, "test.yaml", "", &|_| false).expect("a good file").flows;
    let kept = first.engine.put_flow(flows[0].clone()).expect("kept");
    let new = second.start("chain");
    assert_ne!(second.run(old).flow, second.run(new).flow);
    assert_eq!(second.run(new).flow, kept.id);
}

#[test]
fn a_server_hears_that_another_has_made_work() {
    let (mut first, mut second) = two();
    let heard = Arc::new(AtomicUsize::new(0));
    let told = heard.clone();
    first.engine.store().on_news(Box::new(move || {
        told.fetch_add(1, Ordering::Relaxed);
    }));
    first.go();
    second.start("chain");
    assert!(heard.load(Ordering::Relaxed) > 0);
    first.engine.look_again();
    assert_eq!(first.engine.next_step(), NextStep::Now);
    first.go();
    assert_eq!(first.jobs.len(), 1);
    let before = heard.load(Ordering::Relaxed);
    first.complete();
    assert_eq!(heard.load(Ordering::Relaxed), before, "what it does itself is no news");
}

#[test]
fn what_another_server_has_locked_is_tried_again_after_a_moment_and_in_order() {
    let (mut first, mut second) = two();
    let run = first.start("chain");
    let other = second.engine.store();
    let batch = other.ask(&Wants { runs: vec![run], ..Wants::default() }).expect("begins");
    let (_, loaded) = other.loaded().expect("at once");
    let locked = loaded.expect("loads").runs;
    let by = || Actor::User("ada".into());
    let ask = |server: &mut Server, ticket, command| {
        server.engine.submit(Request::Command { ticket, run, command });
        server.engine.step(server.now);
    };
    ask(&mut first, 1, Command::Pause { by: by(), reason: None });
    assert_eq!(first.engine.next_step(), NextStep::At(first.now + Millis(3)), "it does not spin");
    ask(&mut first, 2, Command::Unpause { by: by() });
    assert_eq!(first.engine.backlog(), 2);
    let other = second.engine.store();
    other.abandon(
        batch,
        locked
            .into_iter()
            .filter_map(|(_, locked)| match locked {
                Locked::Here(run) => Some(*run),
                Locked::Absent | Locked::Busy | Locked::Damaged(_) => None,
            })
            .collect(),
    );
    first.now = first.now + Millis(3);
    first.go();
    assert_eq!(first.replies, [Ok(Answer::Done), Ok(Answer::Done)]);
    assert_eq!(first.run(run).paused, None, "the pause came first");
}

#[test]
fn a_batch_that_conflicts_is_halved_and_grows_again() {
    let (mut first, _second) = two();
    let runs: Vec<RunId> = (0..64).map(|_| first.start("chain")).collect();
    let bad = runs[40];
    let conflict = StoreError::Conflict("somebody else was quicker".to_owned());
    first.engine.store().store().refuse_changes(bad, Some(conflict));
    for (ticket, run) in (1..).zip(&runs) {
        let command = Command::Pause { by: Actor::User("ada".into()), reason: None };
        first.engine.submit(Request::Command { ticket, run: *run, command });
    }
    let mut steps = 0;
    while first.replies.len() < 63 {
        steps += 1;
        assert!(steps < 60, "not one by one: {} of 64 are answered", first.replies.len());
        for output in first.engine.step(first.now) {
            if let Output::Reply { result, .. } = output {
                first.replies.push(result);
            }
        }
    }
}
