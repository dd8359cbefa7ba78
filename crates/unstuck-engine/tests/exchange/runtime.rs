//! Calls through the thread of an engine: whoever calls is called back, and nobody waits in a thread of its own.

use std::sync::mpsc::channel;
use std::time::Duration;

use unstuck_core::decide::Answer;
use unstuck_core::time::Millis;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Runtime;
use unstuck_store::memory::MemoryStore;

use crate::support::{call, done, engine, start_of, steps};

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_mins(1);

#[test]
fn thousands_of_calls_wait_without_a_thread_each_and_are_answered_when_the_engine_stops() {
    let runtime = Runtime::start(engine(MemoryStore::new()), Vec::new(), None);
    let handle = runtime.handle();
    let (sender, answers) = channel();
    let threads = threads_of_this_process();
    for n in 0..4_096 {
        let sender = sender.clone();
        let exchange = call(&format!("w{n}"), 1).wait(Millis::seconds(60)).0;
        handle.exchange(exchange, move |answer| drop(sender.send(answer)));
    }
    // Work for one of them comes behind all of these.
    let (started, has_started) = channel();
    handle.start_then(start_of("chain", 0), move |reply| drop(started.send(reply)));
    assert!(matches!(has_started.recv_timeout(LONG), Ok(Ok(Answer::Started(_)))));
    let first = answers.recv_timeout(LONG).expect("answered").expect("done");
    assert_eq!(steps(&first), ["a"]);
    // Other tests of this process have threads too: a few, not thousands.
    assert!(threads_of_this_process() < threads + 100);
    runtime.stop();
    let rest: Vec<_> = answers.try_iter().collect();
    assert_eq!(rest.len(), 4_095);
    assert!(rest.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.jobs.is_empty())));
}

#[test]
fn a_call_wakes_up_when_its_time_is_over_and_a_stopped_engine_says_so() {
    let runtime = Runtime::start(engine(MemoryStore::new()), Vec::new(), None);
    let handle = runtime.handle();
    let (sender, answers) = channel();
    let again = sender.clone();
    handle.exchange(call("w", 1).wait(Millis(20)).0, move |answer| drop(sender.send(answer)));
    assert!(answers.recv_timeout(LONG).is_ok_and(|answer| answer.is_ok_and(|answer| answer.jobs.is_empty())));
    runtime.stop();
    handle.exchange(call("w", 1).0, move |answer| drop(again.send(answer)));
    assert!(matches!(answers.recv_timeout(LONG), Ok(Err(EngineError::Stopped))));
}

#[test]
fn a_worker_works_through_runs_by_calls_alone() {
    let runtime = Runtime::start(engine(MemoryStore::new()), Vec::new(), None);
    let handle = runtime.handle();
    for _ in 0..50 {
        handle.start(start_of("chain", 0)).expect("started");
    }
    let (mut attempts, mut reports) = (0, Vec::new());
    while attempts < 100 {
        let mut exchange = call("w", 8).max_load(8);
        for attempt in std::mem::take(&mut reports) {
            exchange = exchange.report(attempt, done());
        }
        let (sender, answer) = channel();
        handle.exchange(exchange.0, move |answer| drop(sender.send(answer)));
        let answer = answer.recv_timeout(LONG).expect("answered").expect("done");
        assert!(answer.answers.iter().all(|answer| *answer == Ok(Answer::Done)), "{:?}", answer.answers);
        attempts += answer.jobs.len();
        reports.extend(answer.jobs.iter().map(|job| job.attempt));
    }
    assert_eq!(attempts, 100);
}

/// How many threads this process has, where that can be told.
fn threads_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
