//! A small world for tests: one engine, one worker, and somebody between the engine and its watch who may lie.

use std::sync::Arc;

use unstuck_core::command::{Command, OnDuplicate};
use unstuck_core::event::{Actor, Event, Fact};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::flow::Flow;
use unstuck_core::offer::Offer;
use unstuck_core::policy::{Criteria, DraftBackOff, PolicyDraft};
use unstuck_core::time::Time;
use unstuck_engine::engine::Settings;
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::flows::Compile;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{Output, Request, StartRun, Ticket};
use unstuck_store::contract::{FlowRecord, Store as _};
use unstuck_store::memory::MemoryStore;

use super::super::{Broken, Promises};
use crate::machine::Machine;

const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: one\nsteps:\n  - {id: a, action: work}\n---\n\
    flow: retry\nsteps:\n  - {id: a, action: work, retryStrategy: retry, maxAttempts: 4, backOff: 10s}\n---\n\
    flow: hold\nsteps:\n  - {id: a, action: work, retryStrategy: hold}\n---\n\
    flow: parent\nsteps:\n  - {id: a, flow: one}\n---\n\
    flow: resumed\nsteps:\n  - {id: a, action: work}\n---\n\
    flow: waits\nsteps:\n  - {id: a, signal: go}\n---\n\
    flow: limited\nconcurrency: {limit: 1}\nsteps:\n  - {id: a, action: work}\n---\n\
    flow: chain\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work}\n";

pub(super) fn ada() -> Actor {
    Actor::User("ada".into())
}

/// An engine and its watch.
pub(super) struct Bench {
    pub(super) machine: Machine<MemoryStore>,
    pub(super) promises: Promises,
    pub(super) now: Time,
    pub(super) jobs: Vec<Job>,
    pub(super) worker: Worker,
    tickets: Ticket,
}

fn flows() -> Vec<Flow> {
    unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows
}

fn machine(store: MemoryStore, now: Time) -> Machine<MemoryStore> {
    let known = flows();
    let compile: Compile = Box::new(move |record: &FlowRecord| {
        let flow = known.iter().find(|flow| flow.name == record.name).cloned();
        flow.ok_or_else(|| "it was written by somebody else".to_owned())
    });
    Machine::start(store, compile, Settings::default(), now).expect("opens")
}

impl Bench {
    /// With an executor beside the engine.
    pub(super) fn new() -> Bench {
        Bench::with(true)
    }

    /// With a worker elsewhere.
    pub(super) fn remote() -> Bench {
        Bench::with(false)
    }

    fn with(local: bool) -> Bench {
        let mut machine = machine(MemoryStore::new(), BEGIN);
        for flow in flows() {
            machine.engine.put_flow(flow).expect("kept");
        }
        let worker = Worker { name: "w".into(), incarnation: 1, local };
        let mut bench =
            Bench { machine, promises: Promises::new(), now: BEGIN, jobs: Vec::new(), worker, tickets: 0 };
        bench.register();
        bench
    }

    fn register(&mut self) {
        let queues: Arc<[Arc<str>]> = Arc::new(["work".into()]);
        let offer = Offer { worker: self.worker.clone(), queues, free: 4, max_load: 4 };
        self.machine.engine.register(offer, false);
    }

    /// The process dies, and another one opens its store.
    pub(super) fn crash(&mut self) {
        self.try_crash().expect("nothing is lost");
        self.register();
    }

    /// The same, with what is found then.
    pub(super) fn try_crash(&mut self) -> Result<(), Broken> {
        let old = std::mem::replace(&mut self.machine, machine(MemoryStore::new(), self.now));
        self.machine = machine(old.engine.into_store().crash(), self.now);
        self.jobs.clear();
        self.promises.after_crash(&mut self.machine.engine, self.now)
    }

    pub(super) fn ask(&mut self, request: Request) {
        self.promises.record_request(&request, self.now);
        self.machine.engine.submit(request);
    }

    pub(super) fn ask_word(&mut self, word: ExecutorReport) {
        self.ask(Request::Executor(word));
    }

    pub(super) fn command(&mut self, run: RunId, command: Command) {
        self.tickets += 1;
        self.ask(Request::Command { ticket: self.tickets, run, command });
    }

    /// The watch hears that it is asked, and the engine does not.
    pub(super) fn command_unsent(&mut self, run: RunId, command: Command) -> Ticket {
        self.tickets += 1;
        self.promises.record_request(&Request::Command { ticket: self.tickets, run, command }, self.now);
        self.tickets
    }

    pub(super) fn start(&mut self, flow: &str, key: Option<&str>) {
        let request = self.start_unsent(flow, key);
        self.machine.engine.submit(request);
    }

    /// The watch hears that it is asked, and the engine does not.
    pub(super) fn start_unsent(&mut self, flow: &str, key: Option<&str>) -> Request {
        self.tickets += 1;
        let start = StartRun {
            flow: flow.into(),
            version: None,
            key: key.map(Into::into),
            input: Json::NULL,
            labels: None,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: ada(),
        };
        let request = Request::Start { ticket: self.tickets, start };
        self.promises.record_request(&request, self.now);
        request
    }

    /// Starts a run and gives it.
    pub(super) fn started(&mut self, flow: &str) -> RunId {
        self.start(flow, None);
        self.step().expect("a start breaks no promise");
        *self.promises.books.keys().next_back().expect("it is there")
    }

    /// The attempt that was handed out last.
    pub(super) fn job(&mut self) -> Job {
        self.jobs.pop().expect("an attempt was handed out")
    }

    pub(super) fn step(&mut self) -> Result<(), Broken> {
        self.step_with(Some)
    }

    /// Steps the engine; the watch hears what `doctor` makes of what comes out.
    pub(super) fn step_with(
        &mut self,
        mut doctor: impl FnMut(Output) -> Option<Output>,
    ) -> Result<(), Broken> {
        self.machine.set_clock(self.now);
        for output in self.machine.work() {
            if let Output::Dispatch { job, .. } = &output {
                self.jobs.push(job.clone());
            }
            if let Some(output) = doctor(output) {
                self.promises.check_output(&output, self.now)?;
            }
        }
        self.promises.check_after_step(&mut self.machine.engine, self.now)
    }

    /// Steps the engine; the watch hears of facts as `change` leaves them.
    pub(super) fn change_facts(&mut self, change: impl Fn(&mut Fact)) -> Result<(), Broken> {
        self.step_with(|output| match output {
            Output::Happened { run, mut event } => {
                event.facts.iter_mut().for_each(&change);
                Some(Output::Happened { run, event })
            }
            other => Some(other),
        })
    }

    /// The watch hears of something that never happened.
    pub(super) fn invent(&mut self, run: RunId, by: Actor, facts: Vec<Fact>) -> Result<(), Broken> {
        let book = &self.promises.books[&run];
        let generation = book.run().map_or(1, |run| run.generation);
        let event = Event { seq: book.seq() + 1, generation, at: self.now, clock: None, by, facts };
        self.promises.check_output(&Output::Happened { run, event }, self.now)?;
        self.step()
    }

    /// A policy for whatever says `boom`.
    pub(super) fn load_policy(&mut self, delay_s: i64) {
        self.load_policy_untold(delay_s);
        self.promises.record_policies(self.machine.engine.policies());
    }

    /// The same, and the watch is not told.
    pub(super) fn load_policy_untold(&mut self, delay_s: i64) {
        let draft = PolicyDraft {
            name: Some("again".into()),
            criteria: Criteria {
                error_substring: Some("boom".into()),
                flow: Some("resumed".into()),
                ..Criteria::default()
            },
            max_attempts: Some(3),
            back_off: Some(DraftBackOff { delay: Some(delay_s * 1_000), ..DraftBackOff::default() }),
            ..PolicyDraft::default()
        };
        let order = PolicyCommand::Load { drafts: vec![draft], replace: false, by: ada() };
        self.machine.engine.change_policies(order, self.now).expect("good policies");
        self.machine.engine.store().last_time().expect("reads");
    }
}
