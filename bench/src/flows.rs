//! The flows that benchmarks run: three steps of no-ops, and runs that only wait.

use std::sync::Arc;

use unstuck_core::command::OnDuplicate;
use unstuck_core::event::Actor;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::flow::Flow;
use unstuck_core::offer::Offer;
use unstuck_engine::request::{Request, StartRun};

/// Three no-ops.
pub const BARE: &str =
    "flow: bare\nsteps:\n  - {id: a, action: noop}\n  - {id: b, action: noop}\n  - {id: c, action: noop}\n";
/// Three no-ops, each with an expression over the input of the run.
pub const FULL: &str = "flow: full
steps:
  - {id: a, action: noop, with: {n: '${ input.n + 1 }'}}
  - {id: b, action: noop, with: {n: '${ input.n + 2 }'}}
  - {id: c, action: noop, with: {n: '${ input.n + 3 }'}}
";
/// Waits for a year.
pub const LATER: &str = "flow: later\nsteps:\n  - {id: a, wait: 365d}\n";
/// Waits for an action that nobody offers.
pub const NOBODY: &str = "flow: nobody\nsteps:\n  - {id: a, action: nobody}\n";

/// The compiled flow.
pub fn flow(text: &str) -> Flow {
    unstuck_flow::load(text, "bench.yaml", "", &|_| false).expect("the flow is right").flows.remove(0)
}

/// An executor that takes no-ops, with so much room.
pub fn offer(room: u32) -> Offer {
    let queues: Arc<[Arc<str>]> = [Arc::from("noop")].into();
    let worker = Worker { name: "bench".into(), incarnation: 1, local: true };
    Offer { worker, queues, free: room, max_load: room }
}

/// A payload of 1 KiB.
pub fn kibibyte() -> Json {
    Json::parse(&format!("{{\"n\":7,\"text\":\"{}\"}}", "x".repeat(1_006))).expect("it is JSON")
}

/// A request to start a run.
pub fn start(ticket: u64, flow: &Arc<str>, key: Option<Arc<str>>, input: &Json) -> Request {
    Request::Start {
        ticket,
        start: StartRun {
            flow: flow.clone(),
            version: None,
            key,
            input: input.clone(),
            labels: None,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: Actor::Engine,
        },
    }
}
