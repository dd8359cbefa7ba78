//! An engine and the calls of its workers, on clocks of their own.

use std::sync::Arc;

use unstuck_core::command::{Command, OnDuplicate, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::run::RunState;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::request::{EngineError, Output, Request, StartRun, Ticket};
use unstuck_engine::worker_calls::{Caller, Exchange, Exchanged, WorkerCalls};
use unstuck_store::contract::Store;
use unstuck_store::memory::MemoryStore;

pub(crate) const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: chain\nsteps:\n  - {id: a, action: work, heartbeatTimeout: 1h}\n  - {id: b, action: work}\n---\n\
    flow: heavy\nsteps:\n  - {id: h, action: work, load: 4}\n";

/// A call of a worker with this name and room.
pub(crate) fn call(name: &str, room: u32) -> CallBuilder {
    let worker = Worker { name: name.into(), incarnation: 1, local: false };
    let caller = Caller { worker, queues: [Arc::from("work")].into(), max_load: 9 };
    let wait = Millis::seconds(20);
    CallBuilder(Exchange { caller, room, history: 20, reports: Vec::new(), wait })
}

pub(crate) struct CallBuilder(pub(crate) Exchange);

impl CallBuilder {
    pub(crate) fn report(mut self, attempt: AttemptId, report: Report) -> CallBuilder {
        self.0.reports.push((attempt, report));
        self
    }

    pub(crate) fn wait(mut self, wait: Millis) -> CallBuilder {
        self.0.wait = wait;
        self
    }

    pub(crate) fn max_load(mut self, max_load: u32) -> CallBuilder {
        self.0.caller.max_load = max_load;
        self
    }

    pub(crate) fn history(mut self, history: usize) -> CallBuilder {
        self.0.history = history;
        self
    }
}

pub(crate) fn done() -> Report {
    Report::Complete { output: Json::NULL }
}

/// The steps whose attempts came with an answer.
pub(crate) fn steps(answer: &Exchanged) -> Vec<&str> {
    answer.jobs.iter().map(|job| &*job.step().id).collect()
}

pub(crate) fn start_of(flow: &str, priority: i32) -> StartRun {
    StartRun {
        flow: flow.into(),
        version: None,
        key: None,
        input: Json::NULL,
        labels: None,
        priority,
        deadline: None,
        on_duplicate: OnDuplicate::Return,
        home: None,
        by: Actor::Engine,
    }
}

pub(crate) fn engine(store: MemoryStore) -> Engine<MemoryStore> {
    let compile = Box::new(|_: &_| Err("every flow is at hand".to_owned()));
    let mut engine = Engine::new(store, compile, Settings::default()).expect("opens");
    for flow in unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows {
        engine.put_flow(flow).expect("kept");
    }
    engine
}

pub(crate) struct Bench {
    pub(crate) engine: Engine<MemoryStore>,
    pub(crate) calls: WorkerCalls,
    pub(crate) now: Time,
    pub(crate) uptime: Millis,
    tickets: Ticket,
    pub(crate) answered: Vec<(Ticket, Exchanged)>,
    replies: Vec<(Ticket, Result<Answer, EngineError>)>,
}

impl Bench {
    pub(crate) fn new(store: MemoryStore) -> Bench {
        Bench {
            engine: engine(store),
            calls: WorkerCalls::default(),
            now: BEGIN,
            uptime: Millis(5_000),
            tickets: 0,
            answered: Vec::new(),
            replies: Vec::new(),
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }

    /// Takes in what the engine puts out, as its thread does.
    pub(crate) fn take(&mut self, outputs: &mut Vec<Output>) {
        self.answered.extend(self.calls.take_outputs(&mut self.engine, outputs, self.uptime));
        for output in outputs.drain(..) {
            match output {
                Output::Reply { ticket, result } => self.replies.push((ticket, result)),
                Output::Dispatch { job, worker } => panic!("{worker:?} has not called for {job:?}"),
                // For a worker that was silent for too long: it is told when it calls.
                Output::Interrupt { .. }
                | Output::Happened { .. }
                | Output::Forgotten { .. }
                | Output::CleanUp { .. } => {}
            }
        }
    }

    pub(crate) fn step(&mut self) {
        let mut outputs = self.engine.step(self.now);
        self.take(&mut outputs);
    }

    /// Steps until there is nothing to do now; a deferred store is made durable on the way.
    pub(crate) fn go(&mut self) {
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

    /// Lets time pass.
    pub(crate) fn pass(&mut self, span: Millis) {
        (self.now, self.uptime) = (self.now + span, self.uptime.plus(span));
        self.go();
    }

    /// Makes a call, without a step of the engine.
    pub(crate) fn begin(&mut self, CallBuilder(exchange): CallBuilder) -> Ticket {
        let ticket = self.ticket();
        let mut last = self.tickets;
        let next = || {
            last += 1;
            last
        };
        self.calls.begin(&mut self.engine, ticket, exchange, self.uptime, next);
        self.tickets = last;
        ticket
    }

    /// Makes a call and gives its answer, which must come at once.
    pub(crate) fn call(&mut self, call: CallBuilder) -> Exchanged {
        let ticket = self.begin(call);
        self.go();
        self.take_answer(ticket)
    }

    pub(crate) fn take_answer(&mut self, ticket: Ticket) -> Exchanged {
        let place = self.answered.iter().position(|(answered, _)| *answered == ticket);
        self.answered.remove(place.unwrap_or_else(|| panic!("call {ticket} is not answered"))).1
    }

    pub(crate) fn submit_start(&mut self, flow: &str, priority: i32) -> Ticket {
        let ticket = self.ticket();
        self.engine.submit(Request::Start { ticket, start: start_of(flow, priority) });
        ticket
    }

    pub(crate) fn start(&mut self, flow: &str, priority: i32) -> RunId {
        let ticket = self.submit_start(flow, priority);
        self.go();
        self.started(ticket)
    }

    pub(crate) fn started(&self, ticket: Ticket) -> RunId {
        match self.replies.iter().find(|(reply, _)| *reply == ticket) {
            Some((_, Ok(Answer::Started(run)))) => *run,
            other => panic!("ticket {ticket}: {other:?}"),
        }
    }

    /// The runs that were started so far.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        let started = self.replies.iter().filter_map(|(_, result)| match result {
            Ok(Answer::Started(run)) => Some(*run),
            Ok(_) | Err(_) => None,
        });
        started.collect()
    }

    pub(crate) fn command(&mut self, run: RunId, command: Command) {
        let ticket = self.ticket();
        self.engine.submit(Request::Command { ticket, run, command });
    }

    pub(crate) fn state(&mut self, run: RunId) -> RunState {
        self.engine.store().run(run).expect("readable").expect("there").state()
    }

    pub(crate) fn events(&mut self, run: RunId) -> u64 {
        self.engine.store().run(run).expect("readable").expect("there").seq
    }
}
