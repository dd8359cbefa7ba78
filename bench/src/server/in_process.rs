//! Starts of runs without a server: the engine of this process, on its own thread, as a server has it.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use unstuck_core::event::Actor;
use unstuck_core::json::Json;
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::request::StartRun;
use unstuck_engine::runtime::{Handle, Runtime};
use unstuck_sqlite::SqliteStore;

use crate::flows::{NOBODY, flow};

/// Starts runs for so long, `batch` at a time and `in_flight` of these at once, and returns how many a second.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn start_runs(directory: &Path, batch: u64, in_flight: u64, time: Duration) -> f64 {
    let store = SqliteStore::open(directory).expect("the store opens");
    let compile = Box::new(|_: &_| Err("every flow is at hand".to_owned()));
    let mut engine = Engine::new(store, compile, Settings::default()).expect("the engine opens");
    let name = engine.put_flow(flow(NOBODY)).expect("kept").name.clone();
    let runtime = Runtime::start(engine, Vec::new(), None);
    let handle = runtime.handle();
    let (sender, answers) = channel();
    for _ in 0..in_flight {
        submit(&handle, &name, batch, &sender);
    }
    let (begin, mut started) = (Instant::now(), 0);
    while begin.elapsed() < time {
        started += answers.recv().expect("the engine answers");
        submit(&handle, &name, batch, &sender);
    }
    let rate = started as f64 / begin.elapsed().as_secs_f64();
    drop(runtime);
    rate
}

fn submit(handle: &Handle, flow: &Arc<str>, batch: u64, answers: &Sender<u64>) {
    let answers = answers.clone();
    if batch == 1 {
        handle.start_then(order(flow), move |reply| {
            reply.expect("it starts");
            let _ = answers.send(1);
        });
        return;
    }
    let orders = (0..batch).map(|_| order(flow)).collect();
    handle.start_many(orders, move |replies| {
        let replies = replies.expect("they start");
        assert!(replies.iter().all(Result::is_ok));
        let _ = answers.send(replies.len() as u64);
    });
}

fn order(flow: &Arc<str>) -> StartRun {
    StartRun {
        flow: flow.clone(),
        version: None,
        key: None,
        input: Json::parse("{}").expect("it is JSON"),
        labels: None,
        priority: 0,
        deadline: None,
        on_duplicate: unstuck_core::command::OnDuplicate::Return,
        home: None,
        by: Actor::User("local".into()),
    }
}
