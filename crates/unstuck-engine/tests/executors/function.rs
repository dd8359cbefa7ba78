//! In-process functions: what they are called with, and what they come to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use unstuck_core::json::Json;
use unstuck_core::model::flow::Kind;
use unstuck_core::model::recovery::Limits;
use unstuck_core::time::Millis;
use unstuck_engine::executor::function::{Call, FunctionError, FunctionExecutor, InlineExecutor};
use unstuck_engine::executor::{Executor, Job};

use super::support::{Ear, LONG, context, flow, job_of, line, outcome};

fn job(action: &str, run: u64, input: &str) -> Job {
    job_of(&flow(Kind::Action(action.into()), Limits::default(), std::path::Path::new("")), run, input)
}

#[expect(clippy::needless_pass_by_value, reason = "this is how functions are called")]
fn act(call: Call) -> Result<Json, FunctionError> {
    let number = || -> Result<i64, FunctionError> { Ok(call.input.text().parse::<i64>()?) };
    match call.input.text() {
        "\"stall\"" => Err(FunctionError::stalled("no answer").context("after 3 s")),
        "\"fatal\"" => Err(FunctionError::fatal("no such order")),
        "\"data\"" => Err(FunctionError::data("no date")),
        "\"defer\"" => Err(FunctionError::deferred(Some(Millis::seconds(5)), "no licence")),
        "\"panic\"" => panic!("lost my {}", "way"),
        "\"words\"" => panic!("plain words"),
        "\"step\"" => Ok(Json::of(&call.step().into())),
        "\"beat\"" => {
            call.heartbeat(None);
            call.heartbeat(Some(Json::parse("2")?));
            Ok(Json::NULL)
        }
        _ => Ok(Json::of(&(number()? + 1).into())),
    }
}

#[test]
fn what_a_function_returns_is_what_is_said() {
    let cases = [
        ("41", "completed 42"),
        ("\"step\"", "completed \"work\""),
        ("\"beat\"", "completed null"),
        ("\"stall\"", "stalled no answer"),
        ("\"fatal\"", "failed no such order"),
        ("\"data\"", "failed (data) no date"),
        ("\"defer\"", "deferred 5s no licence"),
        ("\"panic\"", "stalled panicked: lost my way"),
        ("\"words\"", "stalled panicked: plain words"),
        ("[]", "stalled invalid digit found in string"),
    ];
    let mut pooled = FunctionExecutor::new("pooled", 2).on("act", act);
    let mut inline = InlineExecutor::new("inline", 2).on("act", act);
    for (input, expected) in cases {
        assert_eq!(line(&outcome(&mut pooled, job("act", 1, input)).1), expected, "{input}");
        assert_eq!(line(&outcome(&mut inline, job("act", 1, input)).1), expected, "{input}, inline");
    }
    let (heartbeats, _) = outcome(&mut pooled, job("act", 1, "\"beat\""));
    assert_eq!(heartbeats, [None, Some("2".to_owned())]);
    assert_eq!(context(&outcome(&mut pooled, job("act", 1, "\"stall\"")).1), "after 3 s");
}

#[test]
fn an_executor_offers_the_actions_that_it_has_functions_for() {
    let mut executor = FunctionExecutor::new("mine", 3).on("b", act).on("a", act);
    assert_eq!((&*executor.name(), executor.max_load()), ("mine", 3));
    assert_eq!(executor.queues(), ["a".into(), "b".into()]);
    let word = line(&outcome(&mut executor, job("c", 1, "1")).1);
    assert_eq!(
        word,
        "failed no function is registered for action `c` of step `work`: register one with `on`"
    );
}

#[test]
fn as_many_functions_run_at_once_as_there_is_load() {
    const LOAD: usize = 4;
    // All of them meet here, so fewer at once would never end; and no more than these are ever inside.
    let (meeting, inside) = (Arc::new(Barrier::new(LOAD)), Arc::new(AtomicUsize::new(0)));
    let mut executor = FunctionExecutor::new("pooled", 4).on("meet", move |call: Call| {
        let others = inside.fetch_add(1, Ordering::SeqCst);
        meeting.wait();
        inside.fetch_sub(1, Ordering::SeqCst);
        if others < LOAD { Ok(call.input) } else { Err(FunctionError::fatal("too many at once")) }
    });
    let ear = Ear::new();
    for run in 0..40 {
        executor.execute(job("meet", run, "1"), &ear.answers);
    }
    for _ in 0..40 {
        assert_eq!(line(&ear.last()), "completed 1");
    }
}

#[test]
fn an_interrupted_function_is_told_and_not_heard() {
    let (sender, entered) = mpsc::channel();
    let mut executor = FunctionExecutor::new("pooled", 1).on("wait", move |call: Call| {
        sender.send(()).expect("heard");
        while !call.is_interrupted() {
            thread::yield_now();
        }
        call.heartbeat(None);
        Ok(Json::NULL)
    });
    let ear = Ear::new();
    let jobs = [job("wait", 1, "1"), job("wait", 2, "1"), job("wait", 3, "1")];
    let attempts = jobs.clone().map(|job| job.attempt);
    for job in jobs {
        executor.execute(job, &ear.answers);
    }
    entered.recv_timeout(LONG).expect("the first runs");
    // One that waits for its turn is freed at once.
    executor.interrupt(attempts[1], "a test");
    let word = ear.word();
    assert_eq!((line(&word).as_str(), word.ended_attempt()), ("freed", Some(attempts[1])));
    executor.interrupt(attempts[0], "a test");
    let word = ear.word();
    assert_eq!((line(&word).as_str(), word.ended_attempt()), ("freed", Some(attempts[0])));
    entered.recv_timeout(LONG).expect("the third runs");
    executor.execute(job("wait", 4, "1"), &ear.answers);
    executor.stop();
    let words: Vec<String> = (0..2).map(|_| line(&ear.word())).collect();
    assert_eq!(words, ["released", "released"]);
    executor.execute(job("wait", 5, "1"), &ear.answers);
    assert_eq!(line(&ear.word()), "released");
    assert!(ear.is_silent());
}

#[test]
fn an_inline_function_has_answered_when_the_call_returns() {
    let ear = Ear::new();
    let mut executor = InlineExecutor::new("inline", 1).on("act", act);
    executor.execute(job("act", 1, "1"), &ear.answers);
    assert!(!ear.is_silent());
}
