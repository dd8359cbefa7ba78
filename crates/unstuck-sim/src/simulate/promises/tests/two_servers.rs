//! Two engines on one store, and somebody between them and their watch who may lie.

use unstuck_core::command::{Command, OnDuplicate};
use unstuck_core::id::FlowId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::offer::Offer;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::Settings;
use unstuck_engine::request::{Output, Request, StartRun};
use unstuck_store::conformance::TestStore as _;
use unstuck_store::contract::FlowRecord;
use unstuck_store::memory::{MemoryStore, SharedStore};

use super::bench::ada;
use super::{Broken, Doctored, Promise};
use crate::machine::Machine;
use crate::simulate::promises::Promises;

const BEGIN: Time = Time(1_800_000_000_000);
const FLOWS: &str = "flow: one\nsteps:\n  - {id: a, action: work}\n";

/// Promises of servers to each other, broken.
pub(super) const CASES: [(&str, Promise, Doctored); 6] = [
    ("an attempt is lost, and the server that has it lives", Promise::Sessions, lost_while_it_lives),
    ("who was taken for dead changes something", Promise::Sessions, dead_and_active),
    ("a server tells what another one did", Promise::Sessions, told_by_another),
    ("a server does not tell what it did", Promise::Sessions, not_told),
    ("an executor of another server is not told that it has lost", Promise::Stopped, not_routed),
    ("a run starts with an old version of its flow", Promise::Shared, old_version),
];

#[test]
fn two_honest_servers_keep_every_promise() {
    let mut two = TwoServers::new();
    let attempt = two.started();
    two.cancel(1, attempt);
    two.go_on_both().expect("keeps its promises");
    assert_eq!(two.interrupted, [attempt]);
}

/// Two engines, the first with an executor.
struct TwoServers {
    machines: [Machine<SharedStore>; 2],
    watch: SharedStore,
    promises: Promises,
    now: Time,
    dispatched: Vec<AttemptId>,
    interrupted: Vec<AttemptId>,
}

impl TwoServers {
    fn new() -> TwoServers {
        let store = SharedStore::new(MemoryStore::deferred());
        let mut watch = store.new_handle();
        watch.set_time(BEGIN);
        watch.take_durable();
        let other = store.new_handle();
        let machines = [machine(store), machine(other)];
        let (promises, now) = (Promises::of_nodes(2), BEGIN);
        let (dispatched, interrupted) = (Vec::new(), Vec::new());
        let mut two = TwoServers { machines, watch, promises, now, dispatched, interrupted };
        for place in 0..2 {
            two.promises.go_to(place);
            two.promises.after_crash(&mut two.machines[place].engine, BEGIN).expect("nothing is lost");
        }
        let kept = two.machines[0].engine.put_flow(flow()).expect("kept");
        two.promises.record_flow(&kept);
        let incarnation = two.machines[0].engine.incarnation();
        let worker = Worker { name: "w".into(), incarnation, local: true };
        let offer = Offer { worker, queues: ["work".into()].into(), free: 4, max_load: 4 };
        two.machines[0].engine.register(offer, false);
        two
    }

    fn ask(&mut self, place: usize, request: Request) {
        self.promises.go_to(place);
        self.promises.record_request(&request, self.now);
        self.machines[place].engine.submit(request);
    }

    fn start(&mut self, place: usize) {
        let start = StartRun {
            flow: "one".into(),
            version: None,
            key: None,
            input: Json::NULL,
            labels: None,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: ada(),
        };
        self.ask(place, Request::Start { ticket: 1, start });
    }

    /// Starts a run whose attempt the executor of the first server gets.
    fn started(&mut self) -> AttemptId {
        self.start(0);
        self.go_on(0, Some).expect("keeps its promises");
        *self.dispatched.last().expect("an attempt was handed out")
    }

    fn cancel(&mut self, place: usize, attempt: AttemptId) {
        let command = Command::Cancel { by: ada(), reason: None };
        self.ask(place, Request::Command { ticket: 2, run: attempt.run, command });
    }

    fn go_on_both(&mut self) -> Result<(), Broken> {
        self.go_on(1, Some)?;
        self.go_on(0, Some)
    }

    /// One server does what there is to do, and all of it becomes durable; the watch hears what `doctor` makes of it.
    fn go_on(
        &mut self,
        place: usize,
        mut doctor: impl FnMut(Output) -> Option<Output>,
    ) -> Result<(), Broken> {
        self.promises.go_to(place);
        self.machines[place].set_clock(self.now);
        self.promises.record_wake(self.now);
        for _ in 0..3 {
            let outputs = self.machines[place].step();
            self.watch.make_durable(usize::MAX);
            self.promises.record_durable(self.watch.take_durable());
            for output in outputs {
                match &output {
                    Output::Dispatch { job, .. } => self.dispatched.push(job.attempt),
                    Output::Interrupt { attempt, .. } => self.interrupted.push(*attempt),
                    _ => {}
                }
                if let Some(output) = doctor(output) {
                    self.promises.check_output(&output, self.now)?;
                }
            }
        }
        self.promises.check_after_step(&mut self.machines[place].engine, self.now)
    }
}

fn flow() -> Flow {
    unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows.remove(0)
}

fn machine(store: SharedStore) -> Machine<SharedStore> {
    let compile = Box::new(|_: &FlowRecord| Ok(flow()));
    Machine::start(store, compile, Settings::default(), BEGIN).expect("opens")
}

/// The second server calls an attempt lost that the first one has.
fn lost_while_it_lives() -> Result<(), Broken> {
    let mut two = TwoServers::new();
    let attempt = two.started();
    two.machines[1].engine.submit(Request::Lost { attempt, with_others: false });
    two.go_on(1, Some)
}

/// The second server finds that the first one is dead, which then goes on all the same.
fn dead_and_active() -> Result<(), Broken> {
    let mut two = TwoServers::new();
    let attempt = two.started();
    // As far as anybody was told.
    two.now = two.now + Millis::seconds(28);
    two.machines[1].engine.submit(Request::Lost { attempt, with_others: false });
    two.go_on(1, Some).expect("its session may be over");
    two.start(0);
    two.go_on(0, Some)
}

fn told_by_another() -> Result<(), Broken> {
    let mut two = TwoServers::new();
    two.start(0);
    let mut told = Vec::new();
    two.go_on(0, |output| {
        if let Output::Happened { run, event } = &output {
            told.push(Output::Happened { run: *run, event: event.clone() });
        }
        Some(output)
    })?;
    two.promises.go_to(1);
    for output in told {
        two.promises.check_output(&output, two.now)?;
    }
    two.go_on(1, Some)
}

fn not_told() -> Result<(), Broken> {
    let mut two = TwoServers::new();
    two.start(0);
    two.go_on(0, |output| (!matches!(output, Output::Happened { .. })).then_some(output))
}

/// The second server ends what an executor of the first has, and that is told nothing.
fn not_routed() -> Result<(), Broken> {
    let mut two = TwoServers::new();
    let attempt = two.started();
    two.cancel(1, attempt);
    two.go_on(1, Some).expect("it is not its own executor");
    two.go_on(0, |output| (!matches!(output, Output::Interrupt { .. })).then_some(output))
}

/// A version is kept of which the server that starts the run knows nothing.
fn old_version() -> Result<(), Broken> {
    let mut two = TwoServers::new();
    two.promises.record_flow(&Flow { id: FlowId(99), ..flow() });
    two.now = two.now + Millis(1);
    two.start(1);
    two.go_on(1, Some)
}
