//! An engine whose clock the test owns, and an executor that does as it is told.

use std::collections::VecDeque;
use std::sync::Arc;

use unstuck_core::command::{Command, OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::errors::OpenError;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Flow;
use unstuck_core::offer::Offer;
use unstuck_core::policy::{Criteria, DraftBackOff, PolicyDraft};
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::policies::{PolicyCommand, PolicyOutcome};
use unstuck_engine::request::{EngineError, Output, Request, StartRun};
use unstuck_store::contract::{FlowRecord, OpenErrorFilter, Store};
use unstuck_store::memory::MemoryStore;

pub(crate) const BEGIN: Time = Time(1_800_000_000_000);
pub(crate) const FLOWS: &str = "flow: one\nsteps:\n  - {id: a, action: work}\n---\n\
    flow: two\nsteps:\n  - {id: a, action: work, minimumDelay: 0s}\n---\n\
    flow: both\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work, needs: []}\n";

pub(crate) fn flows() -> Vec<Flow> {
    unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows
}

/// An engine on this store, which knows the flows.
pub(crate) fn engine(store: MemoryStore) -> Engine<MemoryStore> {
    engine_at(store, None)
}

/// An engine on this store, which knows the flows and drives this home.
fn engine_at(store: MemoryStore, home: Option<&str>) -> Engine<MemoryStore> {
    let known = flows();
    let compile = move |record: &FlowRecord| {
        let flow = known.iter().find(|flow| flow.name == record.name).cloned();
        flow.ok_or_else(|| "it was written by somebody else".to_owned())
    };
    let settings = Settings { home: home.map(Into::into), ..Settings::default() };
    let mut engine = Engine::new(store, Box::new(compile), settings).expect("opens");
    for flow in flows() {
        engine.put_flow(flow).expect("kept");
    }
    engine
}

pub(crate) fn start(flow: &str) -> StartRun {
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

/// Resumes what says this, so many seconds later, at most twice.
pub(crate) fn draft(name: &str, text: &str, delay_s: i64) -> PolicyDraft {
    PolicyDraft {
        name: Some(name.into()),
        criteria: Criteria { error_substring: Some(text.into()), ..Criteria::default() },
        max_attempts: Some(3),
        back_off: Some(DraftBackOff { delay: Some(delay_s * 1_000), ..DraftBackOff::default() }),
        ..PolicyDraft::default()
    }
}

pub(crate) fn user() -> Actor {
    Actor::User("somebody".into())
}

/// An order that loads these.
pub(crate) fn load(drafts: impl Into<Vec<PolicyDraft>>, replace: bool) -> PolicyCommand {
    PolicyCommand::Load { drafts: drafts.into(), replace, by: user() }
}

/// An engine, its clock, and the jobs that were handed out.
pub(crate) struct Bench {
    pub(crate) engine: Engine<MemoryStore>,
    pub(crate) now: Time,
    pub(crate) jobs: VecDeque<Job>,
    replies: Vec<Result<Answer, EngineError>>,
}

impl Bench {
    pub(crate) fn new(store: MemoryStore, now: Time) -> Bench {
        Bench::at(store, now, None)
    }

    /// One that drives this home.
    pub(crate) fn at(store: MemoryStore, now: Time, home: Option<&str>) -> Bench {
        let mut engine = engine_at(store, home);
        let worker = Worker { name: "w".into(), incarnation: engine.incarnation(), local: true };
        engine.register(Offer { worker, queues: [Arc::from("work")].into(), free: 99, max_load: 99 }, false);
        Bench { engine, now, jobs: VecDeque::new(), replies: Vec::new() }
    }

    /// The process dies now, and another one starts at once.
    pub(crate) fn die_and_start(self) -> Bench {
        Bench::new(self.engine.into_store().crash(), self.now)
    }

    pub(crate) fn start(&mut self, flow: &str) -> RunId {
        self.start_at(flow, None)
    }

    /// Starts a run that has this home.
    pub(crate) fn start_at(&mut self, flow: &str, home: Option<&str>) -> RunId {
        let start = StartRun { home: home.map(Into::into), ..start(flow) };
        self.engine.submit(Request::Start { ticket: 0, start });
        self.go();
        match self.replies.pop() {
            Some(Ok(Answer::Started(run))) => run,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn command(&mut self, run: RunId, command: Command) {
        self.engine.submit(Request::Command { ticket: 0, run, command });
        self.go();
        assert!(matches!(self.replies.pop(), Some(Ok(_))));
    }

    /// The oldest job fails.
    pub(crate) fn fail(&mut self, cause: &str) {
        let job = self.jobs.pop_front().expect("there is a job");
        let says = Report::Fail { error: Box::new(Error::new(cause)), fatal: false };
        self.engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, says)));
        self.go();
    }

    /// A run whose step has failed.
    pub(crate) fn failed(&mut self, cause: &str) -> RunId {
        let run = self.start("one");
        self.fail(cause);
        run
    }

    pub(crate) fn order(&mut self, order: PolicyCommand) -> Result<PolicyOutcome, EngineError> {
        self.engine.change_policies(order, self.now)
    }

    pub(crate) fn pass(&mut self, span: Millis) {
        self.now = self.now + span;
        self.go();
    }

    pub(crate) fn open(&mut self) -> Vec<OpenError> {
        self.engine.store().open_errors(&OpenErrorFilter::default(), None, 99).expect("reads")
    }

    /// What is in error, when it is resumed, and by whom.
    pub(crate) fn scheduled(&mut self) -> Vec<(RunId, Option<(Time, String)>)> {
        let resume = |error: OpenError| error.resume.map(|(due, policy)| (due, policy.name.to_string()));
        self.open().into_iter().map(|error| (error.record.run, resume(error))).collect()
    }

    /// Steps until there is nothing to do now.
    pub(crate) fn go(&mut self) {
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
}
