//! What goes wrong stays where it is: a flow that cannot be used, a conflict that comes back, a panic in a decision, a run
//! that somebody else has. Everything else goes on.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkAction, BulkState, Pace, Target, TargetResult};
use unstuck_core::clock::ClockCorrection;
use unstuck_core::command::{Command, OnDuplicate, Report, Rerun};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::expression::{Evaluate, Expression, Reads, Scope};
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::request::{EngineError, Output, Request, StartRun};
use unstuck_store::contract::{FlowRecord, Locked, Store, StoreError, Wants};
use unstuck_store::delegate_store;
use unstuck_store::memory::{MemoryStore, SharedStore};

const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: work\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work}\n---\n\
    flow: parent\nsteps:\n  - {id: c, flow: work}\n---\n\
    flow: waits\nsteps:\n  - {id: w, wait: 60s}\n---\n\
    flow: bad\nsteps:\n  - {id: w, wait: 60s}\n---\n\
    flow: bomb\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work, if: '${true}'}\n---\n\
    flow: dud\nsteps:\n  - {id: b, action: work, if: '${true}'}\n---\n\
    flow: risky\nsteps:\n  - {id: c, flow: dud}\n---\n\
    flow: beats\nsteps:\n  - {id: a, action: work, heartbeatTimeout: 10s}\n";

/// A program with a defect in it.
struct Panics;

impl Evaluate for Panics {
    fn evaluate(&self, _: &Scope) -> Result<serde_json::Value, String> {
        panic!("a bug in a program")
    }
}

/// The flow of this name; with `is_armed`, conditions panic.
fn flow(name: &str, is_armed: bool) -> Flow {
    let all = unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows;
    let mut flow = all.into_iter().find(|flow| &*flow.name == name).expect("there");
    for step in flow.steps.iter_mut().filter(|step| is_armed && step.node.when.is_some()) {
        let (source, reads) = ("true".into(), Reads::default());
        step.node.when = Some(Expression { source, reads, program: Arc::new(Panics) });
    }
    flow
}

const ALL: [&str; 8] = ["work", "parent", "waits", "bad", "bomb", "dud", "risky", "beats"];

struct Bench<S> {
    engine: Engine<S>,
    now: Time,
    jobs: VecDeque<Job>,
    replies: Vec<(u64, Result<Answer, EngineError>)>,
    tickets: u64,
}

impl<S: Store> Bench<S> {
    /// An engine that can use these flows; the others do not compile.
    fn new(store: S, usable: &[&str], is_armed: bool) -> Bench<S> {
        let compile =
            |record: &FlowRecord| Err(format!("no such thing as `{}` in this version", record.name));
        let mut engine = Engine::new(store, Box::new(compile), Settings::default()).expect("opens");
        for name in usable {
            engine.put_flow(flow(name, is_armed)).expect("kept");
        }
        // Not local: it outlives the engine, so that nothing is lost with it.
        let worker = Worker { name: "w".into(), incarnation: 1, local: false };
        engine.register(Offer { worker, queues: [Arc::from("work")].into(), free: 99, max_load: 99 }, false);
        Bench { engine, now: BEGIN, jobs: VecDeque::new(), replies: Vec::new(), tickets: 0 }
    }

    fn submit_start(&mut self, flow: &str) -> u64 {
        self.tickets += 1;
        let start = StartRun {
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
        };
        self.engine.submit(Request::Start { ticket: self.tickets, start });
        self.tickets
    }

    fn submit(&mut self, run: RunId, command: Command) -> u64 {
        self.tickets += 1;
        self.engine.submit(Request::Command { ticket: self.tickets, run, command });
        self.tickets
    }

    fn start(&mut self, flow: &str) -> RunId {
        let ticket = self.submit_start(flow);
        self.go();
        match self.answer(ticket) {
            Ok(Answer::Started(run)) => run,
            other => panic!("{other:?}"),
        }
    }

    fn answer(&self, ticket: u64) -> Result<Answer, EngineError> {
        let told = self.replies.iter().find(|(told, _)| *told == ticket);
        told.unwrap_or_else(|| panic!("ticket {ticket} is answered: {:?}", self.replies)).1.clone()
    }

    /// Steps until there is nothing to do now; it must come to that.
    fn go(&mut self) {
        for _ in 0..2_000 {
            let mut outputs = self.engine.step(self.now);
            outputs.extend(self.engine.wait());
            for output in outputs {
                match output {
                    Output::Reply { ticket, result } => self.replies.push((ticket, result)),
                    Output::Dispatch { job, .. } => self.jobs.push_back(job),
                    Output::Interrupt { .. }
                    | Output::Happened { .. }
                    | Output::Forgotten { .. }
                    | Output::CleanUp { .. } => {}
                }
            }
            match self.engine.next_step() {
                NextStep::Now | NextStep::Settling => {}
                // What is busy is tried again after a moment.
                NextStep::At(at) if at.since(self.now) < Millis(10) => self.now = self.now.max(at),
                NextStep::At(_) | NextStep::Idle => return,
            }
        }
        panic!("the engine never rests");
    }

    fn say(&mut self, attempt: AttemptId, says: Report) {
        self.engine.submit(Request::Executor(ExecutorReport::Report(attempt, says)));
    }

    fn complete(&mut self, run: RunId) {
        let place = self.jobs.iter().position(|job| job.attempt.run == run).expect("it has a job");
        let attempt = self.jobs.remove(place).expect("there").attempt;
        self.say(attempt, Report::Complete { output: Json::NULL });
    }

    fn state(&mut self, run: RunId) -> RunState {
        self.engine.store().run(run).expect("reads").expect("there").state()
    }

    fn why(&mut self, run: RunId) -> String {
        self.engine.store().set_aside_record(run).map(|aside| aside.why.to_string()).unwrap_or_default()
    }
}

/// The process dies, and another one starts that cannot use all flows.
fn restart(bench: Bench<MemoryStore>, usable: &[&str], is_armed: bool) -> Bench<MemoryStore> {
    let mut next = Bench::new(bench.engine.into_store().crash(), usable, is_armed);
    next.now = bench.now;
    next
}

#[test]
fn notices_to_a_run_whose_flow_does_not_compile_wait_in_order() {
    let mut bench = Bench::new(MemoryStore::deferred(), &ALL, false);
    let parent = bench.start("parent");
    let attempt = bench.jobs[0].attempt;
    let child = attempt.run;
    let mut bench = restart(bench, &["work"], false);
    bench.say(attempt, Report::Complete { output: Json::NULL });
    bench.go();
    bench.complete(child);
    bench.go();
    assert_eq!(bench.state(child), RunState::Completed);
    assert_eq!(bench.state(parent), RunState::Running, "it has not been told yet");
    assert!(bench.why(parent).contains("no such thing as `parent` in this version"), "{}", bench.why(parent));
    assert_eq!(bench.engine.set_aside_count(), 1);
    bench.engine.put_flow(flow("parent", false)).expect("kept");
    bench.go();
    assert_eq!(bench.state(parent), RunState::Completed, "the notice was not lost");
    assert_eq!(bench.engine.set_aside_count(), 0);
}

#[test]
fn runs_whose_flow_does_not_compile_make_nobody_late() {
    let mut bench = Bench::new(MemoryStore::new(), &ALL, false);
    for _ in 0..1_200 {
        bench.submit_start("bad");
    }
    bench.go();
    bench.now = bench.now + Millis(1);
    let good = bench.start("waits");
    let mut bench = restart(bench, &["waits"], false);
    bench.now = BEGIN + Millis::seconds(61);
    bench.go();
    assert_eq!(bench.state(good), RunState::Completed);
    assert_eq!(bench.engine.set_aside_count(), 1_200);
    let later = bench.start("waits");
    bench.now = bench.now + Millis::seconds(60);
    bench.go();
    assert_eq!(bench.state(later), RunState::Completed, "at its time, not some seconds later");
}

#[test]
fn what_is_said_about_a_run_that_is_set_aside_is_heard_when_it_is_released() {
    let mut bench = Bench::new(MemoryStore::deferred(), &ALL, false);
    let run = bench.start("work");
    let attempt = bench.jobs[0].attempt;
    let mut bench = restart(bench, &["waits"], false);
    bench.say(attempt, Report::Complete { output: Json::NULL });
    bench.go();
    assert_eq!(bench.engine.set_aside_count(), 1);
    let pause = bench.submit(run, Command::Pause { by: Actor::Engine, reason: None });
    bench.go();
    assert!(matches!(bench.answer(pause), Err(EngineError::BadFlow(_))), "{:?}", bench.answer(pause));
    bench.engine.put_flow(flow("work", false)).expect("kept");
    bench.go();
    assert_eq!(bench.jobs.front().map(|job| job.step().id.to_string()).as_deref(), Some("b"));
}

#[test]
fn a_conflict_that_comes_back_is_found_and_set_aside_while_all_else_goes_on() {
    let mut bench = Bench::new(MemoryStore::new(), &ALL, false);
    let culprit = bench.start("waits");
    let others: Vec<RunId> = (0..5).map(|_| bench.start("waits")).collect();
    let worker = bench.start("work");
    let conflict = StoreError::Conflict("it does not add up".into());
    bench.engine.store().refuse_changes(culprit, Some(conflict.clone()));
    bench.now = bench.now + Millis::seconds(60);
    bench.complete(worker);
    let started = bench.submit_start("parent");
    let refused = bench.submit(culprit, Command::Pause { by: Actor::Engine, reason: None });
    let paused = bench.submit(worker, Command::Pause { by: Actor::Engine, reason: None });
    bench.go();
    for run in others {
        assert_eq!(bench.state(run), RunState::Completed);
    }
    assert!(bench.answer(started).is_ok() && bench.answer(paused).is_ok());
    assert_eq!(bench.answer(refused), Err(EngineError::Store(conflict)));
    assert!(bench.why(culprit).contains("it does not add up"), "{}", bench.why(culprit));
    assert_eq!(bench.engine.set_aside_count(), 1);
    // The next command that succeeds brings it back.
    let run = culprit;
    bench.engine.store().refuse_changes(run, None);
    let paused = bench.submit(run, Command::Pause { by: Actor::Engine, reason: None });
    bench.go();
    assert_eq!(bench.answer(paused), Ok(Answer::Done));
    bench.submit(run, Command::Unpause { by: Actor::Engine });
    bench.go();
    assert_eq!((bench.engine.set_aside_count(), bench.state(run)), (0, RunState::Completed));
}

#[test]
fn a_panic_in_a_decision_takes_neither_the_engine_nor_anybody_else_with_it() {
    let mut bench = Bench::new(MemoryStore::deferred(), &ALL, true);
    let bomb = bench.start("bomb");
    let work = bench.start("work");
    bench.complete(bomb);
    bench.complete(work);
    bench.go();
    assert_eq!(bench.jobs.iter().map(|job| job.attempt.run).collect::<BTreeSet<_>>(), [work].into());
    bench.complete(work);
    bench.go();
    assert_eq!(bench.state(work), RunState::Completed);
    let why = bench.why(bomb);
    assert!(why.contains("a bug in a program") && why.contains("3 times"), "{why}");
    // A start of an engine without the defect goes on with it, and what was said is said again.
    let attempt = AttemptId {
        run: bomb,
        generation: 1,
        unit: unstuck_core::model::unit::UnitRef::step(unstuck_core::model::flow::StepIndex(0)),
        attempt: 1,
    };
    let mut bench = restart(bench, &ALL, false);
    bench.say(attempt, Report::Complete { output: Json::NULL });
    bench.go();
    bench.complete(bomb);
    bench.go();
    assert_eq!(bench.state(bomb), RunState::Completed);
}

#[test]
fn whoever_asks_for_what_panics_is_told_that_it_is_a_defect() {
    let mut bench = Bench::new(MemoryStore::new(), &ALL, true);
    let before = bench.submit_start("work");
    let dud = bench.submit_start("dud");
    let after = bench.submit_start("work");
    bench.go();
    assert!(bench.answer(before).is_ok() && bench.answer(after).is_ok());
    let told = bench.answer(dud).expect_err("it panics").to_string();
    assert!(
        told.contains("Unstuck has a bug") && told.contains("a bug in a program") && told.contains("report"),
        "{told}"
    );
    assert_eq!(bench.jobs.len(), 2);
    assert_eq!(bench.engine.set_aside_count(), 0, "there is no run to set aside");
}

#[test]
fn a_child_whose_start_panics_is_refused_to_its_parent() {
    let mut bench = Bench::new(MemoryStore::new(), &ALL, true);
    let parent = bench.start("risky");
    let state = bench.state(parent);
    assert!(matches!(state, RunState::Error | RunState::Failed), "{state:?}");
    assert_eq!(bench.engine.set_aside_count(), 0);
    bench.start("work");
}

/// Two pauses and unpauses of a parent reach its child in their order, though the child is busy for a while.
#[test]
fn a_notice_to_a_busy_run_is_not_overtaken() {
    let shared = SharedStore::new(MemoryStore::new());
    let mut other = shared.new_handle();
    let mut bench = Bench::new(shared, &ALL, false);
    let parent = bench.start("parent");
    let child = bench.jobs[0].attempt.run;
    let batch = other.ask(&Wants { runs: vec![child], ..Wants::default() }).expect("begins");
    let (_, loaded) = other.loaded().expect("at once");
    let (_, theirs) = loaded.expect("loads").runs.pop().expect("one");
    bench.submit(parent, Command::Pause { by: Actor::Engine, reason: None });
    for _ in 0..3 {
        bench.engine.step(bench.now);
    }
    assert_eq!(bench.engine.store().notices(9).expect("reads").len(), 1, "it waits");
    bench.submit(parent, Command::Unpause { by: Actor::Engine });
    for _ in 0..3 {
        bench.engine.step(bench.now);
    }
    assert_eq!(bench.engine.store().notices(9).expect("reads").len(), 2, "and so does the next");
    let Locked::Here(theirs) = theirs else { panic!("it is theirs") };
    other.abandon(batch, vec![*theirs]);
    bench.go();
    assert_eq!(bench.engine.store().notices(9), Ok(vec![]));
    assert_eq!((bench.state(parent), bench.state(child)), (RunState::Running, RunState::Running));
}

/// A store in which these runs are busy for so many locks, and free in the middle of a batch.
struct Fleeting {
    store: MemoryStore,
    busy: Vec<(RunId, u32)>,
    held: Vec<Run>,
}

impl Fleeting {
    fn new() -> Fleeting {
        Fleeting { store: MemoryStore::new(), busy: Vec::new(), held: Vec::new() }
    }

    fn store(&mut self) -> &mut MemoryStore {
        &mut self.store
    }

    fn keep_back(&mut self, run: RunId, locked: &mut Locked) {
        let busy = self.busy.iter_mut().find(|(busy, left)| *busy == run && *left > 0);
        if let Some((_, left)) = busy {
            *left -= 1;
            if let Locked::Here(run) = std::mem::replace(locked, Locked::Busy) {
                self.held.push(*run);
            }
        }
    }
}

delegate_store!(Fleeting, store, but loads {
    fn loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        let (batch, mut loaded) = self.store.loaded()?;
        for (run, locked) in loaded.iter_mut().flat_map(|loaded| &mut loaded.runs) {
            self.keep_back(*run, locked);
        }
        Some((batch, loaded))
    }

    fn more(&mut self, batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError> {
        let mut more = self.store.more(batch, runs, payloads)?;
        for (run, locked) in runs.iter().zip(&mut more.runs) {
            self.keep_back(*run, locked);
        }
        Ok(more)
    }

    fn stage(&mut self, batch: BatchId, mut stage: Stage) -> Result<StageId, StoreError> {
        stage.unchanged.append(&mut self.held);
        self.store.stage(batch, stage)
    }

    fn abandon(&mut self, batch: BatchId, mut unchanged: Vec<Run>) {
        unchanged.append(&mut self.held);
        self.store.abandon(batch, unchanged);
    }

    fn rollback(&mut self, batch: BatchId) {
        self.held.clear();
        self.store.rollback(batch);
    }
});

/// A run that becomes free in the middle of a batch is not told the second thing before the first: neither by notices
/// that are stored, nor by new ones, nor by what executors say.
#[test]
fn a_run_that_was_busy_is_busy_for_the_rest_of_the_batch() {
    for busy in 1..6 {
        let mut bench = Bench::new(Fleeting::new(), &ALL, false);
        let parent = bench.start("parent");
        let attempt = bench.jobs[0].attempt;
        let child = attempt.run;
        bench.engine.store().busy = vec![(child, busy)];
        bench.submit(parent, Command::Pause { by: Actor::Engine, reason: None });
        bench.submit(parent, Command::Unpause { by: Actor::Engine });
        bench.go();
        assert_eq!(bench.state(child), RunState::Running, "{busy}: a pause has overtaken its end");
        bench.engine.store().busy = vec![(child, busy)];
        let defer = Report::Defer { asked: None, lacking: None };
        bench.say(attempt, Report::Complete { output: Json::NULL });
        bench.say(attempt, defer);
        bench.go();
        assert_eq!(bench.jobs.back().map(|job| job.step().id.to_string()).as_deref(), Some("b"), "{busy}");
    }
}

#[test]
fn a_heartbeat_with_a_void_token_moves_no_lease() {
    let mut bench = Bench::new(MemoryStore::new(), &ALL, false);
    let run = bench.start("beats");
    let first = bench.jobs.pop_front().expect("a job").attempt;
    bench.say(first, Report::Start);
    bench.go();
    bench.now = bench.now + Millis::seconds(11);
    bench.go();
    bench.now = bench.now + Millis::seconds(2);
    bench.go();
    let second = bench.jobs.pop_front().expect("it is tried again").attempt;
    assert_eq!((second.run, second.attempt), (run, 2));
    bench.say(second, Report::Start);
    bench.go();
    let lease = bench.engine.store().next_due().expect("reads");
    bench.now = bench.now + Millis::seconds(5);
    bench.say(first, Report::Heartbeat { progress: None });
    bench.go();
    assert_eq!(bench.engine.store().next_due(), Ok(lease), "the attempt before has no lease to move");
    bench.say(second, Report::Heartbeat { progress: None });
    bench.go();
    assert!(bench.engine.store().next_due().expect("reads") > lease);
    bench.now = lease.expect("there is one") + Millis::seconds(30);
    bench.say(first, Report::Heartbeat { progress: None });
    bench.go();
    let run = bench.engine.store().run(run).expect("reads").expect("there");
    assert_eq!(run.local_attempts().len(), 0);
    assert!(bench.engine.store().next_due().expect("reads") != Some(bench.now + Millis::seconds(10)));
}

/// The very batch that hears a last word or a loss fails, when it is staged or later: both are heard again, once.
#[test]
fn a_stage_that_fails_in_the_batch_that_heard_a_word_or_a_loss_loses_neither() {
    let error = StoreError::Away("the disk".into());
    for later in [false, true] {
        let mut bench = Bench::new(MemoryStore::deferred(), &ALL, false);
        let (said, lost) = (bench.start("work"), bench.start("work"));
        let attempts: Vec<AttemptId> = bench.jobs.drain(..).map(|job| job.attempt).collect();
        if !later {
            bench.engine.store().refuse_stage(error.clone());
        }
        bench.say(attempts[0], Report::Complete { output: Json::NULL });
        bench.engine.submit(Request::Lost { attempt: attempts[1], with_others: false });
        bench.engine.step(bench.now);
        if later {
            assert!(bench.engine.store().fail_next(&error) > 0, "the stage is on its way");
            bench.engine.wait();
        }
        let seqs = [said, lost].map(|run| bench.engine.store().run(run).expect("reads").expect("there").seq);
        assert_eq!(seqs, [1, 1], "nothing has happened");
        for _ in 0..2 {
            bench.now = bench.now + Millis::seconds(5);
            bench.go();
        }
        let handed: BTreeSet<(RunId, String)> =
            bench.jobs.iter().map(|job| (job.attempt.run, job.step().id.to_string())).collect();
        assert_eq!(handed, [(said, "b".to_owned()), (lost, "a".to_owned())].into(), "later: {later}");
        assert_eq!(bench.jobs.len(), 2, "each once");
        let stuck = bench.engine.store().run(lost).expect("reads").expect("there");
        assert_eq!(stuck.seq, 3, "the loss and the next attempt, each once");
    }
}

fn cancel() -> Command {
    Command::Cancel { by: Actor::User("ada".into()), reason: Some("its flow is gone".into()) }
}

/// The state of a run, and whether anything is due, ready or noticed of it.
fn ended_as(bench: &mut Bench<MemoryStore>, run: RunId) -> RunState {
    let found = bench.engine.store().run(run).expect("reads").expect("there");
    assert_eq!(found.local_attempts().len(), 0);
    found.each_unit(|_, unit| assert!(unit.state.is_final(), "{:?}", unit.state));
    found.state()
}

#[test]
fn a_run_whose_flow_does_not_compile_can_be_cancelled_and_forgotten() {
    let mut bench = Bench::new(MemoryStore::deferred(), &ALL, false);
    let (run, other) = (bench.start("bad"), bench.start("bad"));
    let mut bench = restart(bench, &["work"], false);
    bench.now = bench.now + Millis::seconds(60);
    bench.go();
    assert_eq!(bench.engine.set_aside_count(), 2);
    let cancelled = bench.submit(run, cancel());
    bench.go();
    assert_eq!(bench.answer(cancelled), Ok(Answer::Done));
    assert_eq!(ended_as(&mut bench, run), RunState::Cancelled);
    assert_eq!(bench.engine.set_aside_count(), 1, "the other one stays where it is");
    assert_eq!(bench.state(other), RunState::Waiting);
    let again = bench.submit(run, cancel());
    bench.go();
    assert_eq!(bench.answer(again), Ok(Answer::Already));
    let rerun = Command::Rerun { what: Rerun::All, changes: Box::default(), by: Actor::Engine };
    let rerun = bench.submit(run, rerun);
    bench.go();
    assert!(matches!(bench.answer(rerun), Err(EngineError::BadFlow(_))), "{:?}", bench.answer(rerun));
    let seq = bench.engine.store().run(run).expect("reads").expect("there").seq;
    bench.tickets += 1;
    bench.engine.submit(Request::Forget { ticket: bench.tickets, runs: vec![(run, seq)] });
    bench.go();
    assert_eq!(bench.answer(bench.tickets), Ok(Answer::Done));
    assert_eq!(bench.engine.store().run(run), Ok(None));
    // It stays so when the flow can be used again, and the other one goes on.
    bench.engine.put_flow(flow("bad", false)).expect("kept");
    bench.go();
    assert_eq!((bench.engine.set_aside_count(), bench.state(other)), (0, RunState::Completed));
}

#[test]
fn a_bulk_action_cancels_runs_that_are_set_aside_and_resumes_none_of_them() {
    let mut bench = Bench::new(MemoryStore::deferred(), &ALL, false);
    let runs = [bench.start("bad"), bench.start("bad")];
    let mut bench = restart(bench, &["work"], false);
    bench.now = bench.now + Millis::seconds(60);
    bench.go();
    assert_eq!(bench.engine.set_aside_count(), 2);
    let resume = BulkAction::Resume { input: None, step_input: None };
    let cases = [(resume, 2, 2, RunState::Waiting), (BulkAction::Cancel, 0, 0, RunState::Cancelled)];
    for (action, refused, aside, state) in cases {
        let id = bench.engine.new_bulk_id(bench.now);
        let target = |(place, run): (u64, &RunId)| {
            let unit = matches!(action, BulkAction::Resume { .. }).then(|| UnitRef::step(StepIndex(0)));
            Target { place, run: *run, unit, result: TargetResult::Pending }
        };
        bench.engine.put_targets(id, (0..).zip(&runs).map(target).collect()).expect("puts");
        let pace = Pace { rate: 1_000, canary: None };
        let by = (Actor::User("ops".into()), None);
        let bulk = Bulk::new(id, action, by, "some runs".into(), pace, 2, bench.now);
        bench.engine.begin_bulk(bulk).expect("begins");
        bench.now = bench.now + Millis::seconds(1);
        bench.go();
        let bulk = bench.engine.store().bulk(id).expect("reads").expect("there");
        assert_eq!((bulk.state, bulk.counts.refused), (BulkState::Done, refused));
        assert_eq!(bench.engine.set_aside_count(), aside);
        assert_eq!(runs.map(|run| bench.state(run)), [state; 2]);
    }
}

#[test]
fn cancelling_a_run_without_its_flow_voids_its_attempts_and_tells_its_children() {
    let mut bench = Bench::new(MemoryStore::deferred(), &ALL, false);
    let parent = bench.start("parent");
    let attempt = bench.jobs[0].attempt;
    // Neither flow compiles any more.
    let mut bench = restart(bench, &[], false);
    bench.say(attempt, Report::Complete { output: Json::NULL });
    bench.go();
    assert_eq!(bench.engine.set_aside_count(), 1, "what was said about the child waits");
    let cancelled = bench.submit(parent, cancel());
    bench.go();
    assert_eq!(bench.answer(cancelled), Ok(Answer::Done));
    assert_eq!(ended_as(&mut bench, parent), RunState::Cancelled);
    assert_eq!(ended_as(&mut bench, attempt.run), RunState::Cancelled, "it was told by notice");
    assert_eq!(bench.engine.store().notices(9), Ok(vec![]), "nothing is left on its way");
    assert_eq!(bench.engine.set_aside_count(), 0);
}

/// When the engine does something next.
fn next_at<S: Store>(bench: &mut Bench<S>) -> Option<Time> {
    match bench.engine.next_step() {
        NextStep::At(at) => Some(at),
        NextStep::Idle => None,
        next @ (NextStep::Now | NextStep::Settling) => panic!("{next:?}"),
    }
}

#[test]
fn a_run_that_goes_wrong_is_tried_again_by_time_after_twice_as_long_each_time_and_every_hour_at_last() {
    let mut bench = Bench::new(MemoryStore::new(), &ALL, false);
    let culprit = bench.start("waits");
    let conflict = StoreError::Conflict("it does not add up".into());
    bench.engine.store().refuse_changes(culprit, Some(conflict));
    bench.now = bench.now + Millis::seconds(60);
    bench.go();
    let mut waits = Vec::new();
    for _ in 0..9 {
        let aside = bench.engine.store().set_aside_record(culprit).expect("it is set aside");
        assert_eq!((aside.since, aside.next_try), (bench.now, next_at(&mut bench)));
        let next = aside.next_try.expect("there is a next try");
        waits.push((next.0 - bench.now.0) / 60_000);
        bench.now = next;
        bench.go();
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    bench.engine.store().refuse_changes(culprit, None);
    bench.now = next_at(&mut bench).expect("there is a next try");
    bench.go();
    assert_eq!((bench.engine.set_aside_count(), bench.state(culprit)), (0, RunState::Completed));
}

#[test]
fn an_operators_action_on_a_run_that_goes_wrong_tries_it_at_once_though_it_is_refused() {
    let mut bench = Bench::new(MemoryStore::new(), &ALL, false);
    let culprit = bench.start("waits");
    bench.engine.store().refuse_changes(culprit, Some(StoreError::Conflict("it does not add up".into())));
    bench.now = bench.now + Millis::seconds(60);
    bench.go();
    assert_eq!(bench.engine.set_aside_count(), 1);
    bench.engine.store().refuse_changes(culprit, None);
    let unpause = bench.submit(culprit, Command::Unpause { by: Actor::Engine });
    bench.go();
    let answer = bench.answer(unpause);
    assert!(matches!(answer, Err(EngineError::Refused(_)) | Ok(Answer::Already)), "{answer:?}");
    assert_eq!((bench.engine.set_aside_count(), bench.state(culprit)), (0, RunState::Completed));
}

/// The sweep of timers passes by what is set aside; it is looked at when it returns, in this session of the engine or the next.
#[test]
fn a_run_that_was_set_aside_while_the_clock_was_set_back_waits_no_longer_for_it() {
    for restarts in [false, true] {
        let mut bench = Bench::new(MemoryStore::deferred(), &ALL, false);
        let run = bench.start("bad");
        let mut bench = restart(bench, &["work"], false);
        bench.submit(run, Command::Pause { by: Actor::Engine, reason: None });
        bench.go();
        assert_eq!(bench.engine.set_aside_count(), 1);
        let to = bench.now.back(Millis::hours(9));
        bench.engine.record_correction(ClockCorrection { from: bench.now, to });
        bench.now = to;
        bench.go();
        if restarts {
            bench = restart(bench, &["bad"], false);
        } else {
            bench.engine.put_flow(flow("bad", false)).expect("kept");
        }
        bench.go();
        assert_eq!(next_at(&mut bench), Some(to + Millis::seconds(60)), "restarts: {restarts}");
        bench.now = bench.now + Millis::seconds(60);
        bench.go();
        assert_eq!(bench.state(run), RunState::Completed);
        let mut bench = restart(bench, &["bad"], false);
        bench.go();
        assert!(
            !bench.engine.store().clock().expect("reads").needs_sweep,
            "there is nothing left to look for"
        );
    }
}
