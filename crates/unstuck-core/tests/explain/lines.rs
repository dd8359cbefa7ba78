//! The live log: what `unstuck run` prints while a run goes on, each fact at most once.

use unstuck_core::command::{Command, Report};
use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Concurrency, Flow, Kind, WaitFor};
use unstuck_core::model::log::{AttemptLog, IgnoredLine};
use unstuck_core::offer::Offer;
use unstuck_core::time::Millis;

use crate::flows::{child, expression, flow, flow_with, reads_input, step, step_of};
use crate::saying::{choose, lacking_gpu, log, named};
use crate::support::{World, done, fatal, local, operator, remote, stall};

/// The log of the run that `happens` plays.
fn told(flows: Vec<Flow>, happens: impl FnOnce(&mut World, RunId) -> RunId) -> Vec<String> {
    let mut world = World::new(flows);
    let queues = ["x", "y", "z"].map(Into::into).into();
    world.offers.put(Offer { worker: local("here"), queues, free: 9, max_load: 9 });
    let run = world.start("f");
    let about = happens(&mut world, run);
    let names: Vec<(RunId, &str)> = world.runs.keys().copied().zip(["FIRST", "SECOND", "THIRD"]).collect();
    log(&world, about).iter().map(|line| named(line, &names)).collect()
}

#[test]
fn attempts_and_what_is_done_about_them() {
    let steps = vec![step("fetch").retry(Some(3), 2), step("encode"), step("upload").retry(None, 1)];
    let lines = told(vec![flow("f", steps)], |world, run| {
        world.attempt(run, "fetch", stall("connection reset"));
        world.pass(Millis::seconds(2));
        let attempt = world.claim(run, "fetch", &remote("w1")).expect("claimed");
        world.say(attempt, Report::Start).expect("heard");
        world.say(attempt, Report::Heartbeat { progress: Json::parse("{\"done\": 3}").ok() }).expect("heard");
        let ignored = |line| IgnoredLine { line, text: "done: 4".into(), why: "no JSON".into() };
        for (ignored, more_ignored) in [(vec![ignored(2)], 0), (vec![ignored(2), ignored(5)], 11)] {
            let log = AttemptLog { ignored, more_ignored, ..AttemptLog::default() };
            world.say(attempt, Report::Log(Box::new(log))).expect("kept");
        }
        world.say(attempt, done()).expect("heard");
        world.begin(run, "encode");
        world.pass(Millis::hours(12));
        world.pass(Millis::seconds(1));
        world.attempt(run, "encode", Report::Release);
        world.attempt(run, "encode", done());
        world.attempt(run, "upload", lacking_gpu());
        world.pass(Millis::seconds(30));
        world.attempt(run, "upload", stall("slow\n\nvery   slow"));
        world.pass(Millis::seconds(1));
        world.attempt(run, "upload", done());
        run
    });
    assert_eq!(
        lines,
        [
            "FIRST of flow `f` starts",
            "fetch: attempt 1 is queued",
            "fetch: attempt 1 started",
            "fetch: attempt 1 stalled: connection reset",
            "fetch: tried again in 2s (retryStrategy retry, attempt 2 of 3)",
            "fetch: attempt 2 is queued",
            "fetch: attempt 2 was handed to worker w1",
            "fetch: attempt 2 started on worker w1",
            "fetch: attempt 2 reports {\"done\": 3}",
            "fetch: warning: line 2 of the report of attempt 2 was ignored: `done: 4`: no JSON",
            "fetch: warning: line 2 of the report of attempt 2 was ignored: `done: 4`: no JSON; and 12 more",
            "fetch: attempt 2 completed",
            "encode: attempt 1 is queued",
            "encode: attempt 1 started",
            "encode: attempt 1 is stuck: not done within timeout 12h; tried anew in 1s (stuck 1 of 3)",
            "encode: attempt 2 is queued",
            "encode: attempt 2 started",
            "encode: attempt 2 was given back by its worker; no budget is used",
            "encode: attempt 3 is queued",
            "encode: attempt 3 started",
            "encode: attempt 3 completed",
            "upload: attempt 1 is queued",
            "upload: attempt 1 started",
            "upload: attempt 1 was deferred: no GPU; tried again in 30s",
            "upload: attempt 2 is queued",
            "upload: attempt 2 started",
            "upload: attempt 2 stalled: slow very slow",
            "upload: tried again in 1s (retryStrategy retry, attempt 3, without a limit)",
            "upload: attempt 3 is queued",
            "upload: attempt 3 started",
            "upload: attempt 3 completed",
            "the run is completed",
        ]
    );
}

#[test]
fn rounds_and_operators() {
    let steps = vec![step("a").retry(Some(2), 1), step("b").needs(&[]).hold(None)];
    let lines = told(vec![flow("f", steps)], |world, run| {
        for _ in 0..2 {
            world.attempt(run, "a", stall("x"));
            world.pass(Millis::seconds(1));
        }
        world
            .ask(run, Command::Resume { unit: None, by: operator(), reason: None, changes: Box::default() })
            .expect("resumed");
        world.attempt(run, "a", stall("x"));
        world.attempt(run, "b", fatal("y"));
        choose(world, run, "b", Choice::Retry);
        let reason = Some("lunch".into());
        world.ask(run, Command::Pause { by: operator(), reason }).expect("paused");
        world.ask(run, Command::Unpause { by: operator() }).expect("unpaused");
        world.attempt(run, "b", fatal("y"));
        choose(world, run, "b", Choice::None);
        run
    });
    assert_eq!(
        lines,
        [
            "FIRST of flow `f` starts",
            "a: attempt 1 is queued",
            "b: attempt 1 is queued",
            "a: attempt 1 started",
            "a: attempt 1 stalled: x",
            "a: tried again in 1s (retryStrategy retry, attempt 2 of 2)",
            "a: attempt 2 is queued",
            "a: attempt 2 started",
            "a: attempt 2 stalled: x",
            "a: 2 of 2 attempts of this round have stalled, failOnError is true, no resume policy takes it, no exception handler: it \
             rests in error until somebody resumes it",
            "a: operator resumed it: round 2 starts, with every budget anew",
            "a: attempt 3 is queued",
            "a: attempt 3 started",
            "a: attempt 3 stalled: x",
            "a: tried again in 1s (retryStrategy retry, attempt 4, 2 of 2 in this round)",
            "b: attempt 1 started",
            "b: attempt 1 failed: y",
            "b: the retry strategy is hold: held until an operator chooses retry or none",
            "b: operator chose retry: one more attempt in the same round",
            "b: attempt 2 is queued",
            "the run is paused by operator (lunch)",
            "the run goes on: operator unpaused it",
            "b: attempt 2 started",
            "b: attempt 2 failed: y",
            "b: the retry strategy is hold: held until an operator chooses retry or none",
            "b: operator chose none, failOnError is true, no exception handler: the run is failed",
            "a: cancelled: its run ends",
            "the run is failed: b: y",
        ]
    );
}

#[test]
fn steps_that_need_no_worker_and_workers_that_wait() {
    let set = Template::Fixed(Json::parse("7").expect("valid"));
    let steps = vec![
        step("x"),
        step_of("seven", Kind::Set(set)),
        step_of("nap", Kind::Wait(WaitFor::Span(Millis::minutes(5)))),
        step_of("approval", Kind::Signal("approved".into())),
        step("never").when(expression(reads_input(), |_| Ok(false.into()))),
        child("inner", "g"),
        step("y").for_each("[1,2]", 1),
    ];
    let lines = told(vec![flow("f", steps), flow("g", vec![step("z")])], |world, run| {
        let say_done = |world: &mut World, of: RunId, step: &str| {
            let unit = world.unit_ref(of, step);
            let attempt = world.runs[&of].unit(unit).expect("there").attempts;
            let attempt = unstuck_core::model::attempt::AttemptId { run: of, generation: 1, unit, attempt };
            world.say(attempt, done()).expect("heard");
        };
        say_done(world, run, "x");
        world.pass(Millis::minutes(5));
        let name = "approved".into();
        world.ask(run, Command::Signal { name, payload: Json::NULL, by: operator() }).expect("heard");
        let child = world.child(run);
        say_done(world, child, "z");
        say_done(world, run, "y[0]");
        say_done(world, run, "y[1]");
        run
    });
    assert_eq!(
        lines,
        [
            "FIRST of flow `f` starts",
            "x: attempt 1 started",
            "x: attempt 1 completed",
            "seven: completed",
            "nap: waits 5m, until 2027-01-15T08:05:00.000Z",
            "nap: the wait is over",
            "approval: waits for signal `approved`, for 12h at most",
            "signal `approved` has come",
            "approval: completed by signal `approved`",
            "never: its condition is false: skipped; its output is null, and what needs it goes on",
            "inner: attempt 1 runs as child SECOND",
            "inner: attempt 1 completed",
            "y: 2 items",
            "y[0]: attempt 1 started",
            "y[0]: attempt 1 completed",
            "y[1]: attempt 1 started",
            "y[1]: attempt 1 completed",
            "y: every item is done",
            "the run is completed",
        ]
    );
}

#[test]
fn runs_that_end_early() {
    let concurrency = Some(Concurrency { limit: 1, key: None, strict: false });
    let steps = || vec![step("a").handler("clean"), step("b").needs(&[]), step("c")];
    let flows = || {
        let main = flow_with("f", steps(), |flow| flow.concurrency = concurrency.clone());
        vec![main, flow("clean", vec![step("sweep")])]
    };
    let failed = told(flows(), |world, run| {
        world.admit();
        let other = world.begin(run, "b");
        world.attempt(run, "a", fatal("disk full"));
        world.say(other, done()).expect("heard");
        let handler = world.child(run);
        world.attempt(handler, "sweep", fatal("disk is still full"));
        run
    });
    assert_eq!(
        failed,
        [
            "FIRST of flow `f` starts",
            "limit `f` (1 run at once) has a free slot: the run goes on",
            "a: attempt 1 is queued",
            "b: attempt 1 is queued",
            "b: attempt 1 started",
            "a: attempt 1 started",
            "a: attempt 1 failed: disk full",
            "a: no retry strategy, failOnError is true: the remaining steps are dropped; once the attempt \
             under way has ended, `clean` runs, and then the run is failed",
            "c: dropped: the exception handler takes over",
            "b: attempt 1 completed",
            "the exception handler runs as SECOND",
            "the run is failed: a: disk full; its exception handler failed too: disk is still full",
        ]
    );
    let cancelled = told(flows(), |world, run| {
        world.admit();
        world.begin(run, "b");
        let reason = Some("not needed".into());
        world.ask(run, Command::Cancel { by: operator(), reason }).expect("cancelled");
        run
    });
    assert_eq!(
        cancelled,
        [
            "FIRST of flow `f` starts",
            "limit `f` (1 run at once) has a free slot: the run goes on",
            "a: attempt 1 is queued",
            "b: attempt 1 is queued",
            "b: attempt 1 started",
            "b: attempt 1 was cancelled: the run was cancelled",
            "a: cancelled: its run ends",
            "c: cancelled: its run ends",
            "the run is cancelled: operator cancelled it (not needed)",
        ]
    );
}
