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
            "FIRST of flow `f` started",
            "fetch: attempt 1 is queued",
            "fetch: attempt 1 started",
            "fetch: attempt 1 stalled: connection reset",
            "fetch: retrying in 2s (attempt 2 of 3)",
            "fetch: attempt 2 is queued",
            "fetch: attempt 2 was handed to worker w1",
            "fetch: attempt 2 started on worker w1",
            "fetch: attempt 2 reported progress: {\"done\": 3}",
            "fetch: warning: ignored line 2 of the report of attempt 2 (`done: 4`): no JSON",
            "fetch: warning: ignored line 2 of the report of attempt 2 (`done: 4`): no JSON. 12 more lines were \
             ignored",
            "fetch: attempt 2 completed",
            "encode: attempt 1 is queued",
            "encode: attempt 1 started",
            "encode: attempt 1 is stuck: not finished within 12h (timeout). Retrying in 1s (stuck 1 of 3)",
            "encode: attempt 2 is queued",
            "encode: attempt 2 started",
            "encode: attempt 2 was released by its worker (uses no budget)",
            "encode: attempt 3 is queued",
            "encode: attempt 3 started",
            "encode: attempt 3 completed",
            "upload: attempt 1 is queued",
            "upload: attempt 1 started",
            "upload: attempt 1 was deferred: no GPU. Retrying in 30s",
            "upload: attempt 2 is queued",
            "upload: attempt 2 started",
            "upload: attempt 2 stalled: slow very slow",
            "upload: retrying in 1s (attempt 3, no limit)",
            "upload: attempt 3 is queued",
            "upload: attempt 3 started",
            "upload: attempt 3 completed",
            "the run completed",
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
            "FIRST of flow `f` started",
            "a: attempt 1 is queued",
            "b: attempt 1 is queued",
            "a: attempt 1 started",
            "a: attempt 1 stalled: x",
            "a: retrying in 1s (attempt 2 of 2)",
            "a: attempt 2 is queued",
            "a: attempt 2 started",
            "a: attempt 2 stalled: x",
            "a: needs an operator: 2 of 2 attempts used in this round; no policy or exception handler applies",
            "a: resumed by operator: round 2 starts with full budgets",
            "a: attempt 3 is queued",
            "a: attempt 3 started",
            "a: attempt 3 stalled: x",
            "a: retrying in 1s (attempt 4, 2 of 2 in this round)",
            "b: attempt 1 started",
            "b: attempt 1 failed: y",
            "b: held until an operator chooses retry or none: retryStrategy is hold",
            "b: one more attempt in this round: operator chose retry",
            "b: attempt 2 is queued",
            "the run was paused by operator (lunch)",
            "the run was unpaused by operator",
            "b: attempt 2 started",
            "b: attempt 2 failed: y",
            "b: held until an operator chooses retry or none: retryStrategy is hold",
            "b: the run fails: operator chose none; no exception handler applies",
            "a: cancelled: its run ended",
            "the run failed: b: y",
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
            "FIRST of flow `f` started",
            "x: attempt 1 started",
            "x: attempt 1 completed",
            "seven: completed",
            "nap: waiting 5m, until 2027-01-15T08:05:00.000Z",
            "nap: the wait ended",
            "approval: waiting for signal `approved` (at most 12h)",
            "signal `approved` arrived",
            "approval: completed by signal `approved`",
            "never: skipped: its condition is false",
            "inner: attempt 1 started child SECOND",
            "inner: attempt 1 completed",
            "y: 2 items",
            "y[0]: attempt 1 started",
            "y[0]: attempt 1 completed",
            "y[1]: attempt 1 started",
            "y[1]: attempt 1 completed",
            "y: all items are done",
            "the run completed",
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
            "FIRST of flow `f` started",
            "the run got a slot of limit `f` (at most 1 run at once)",
            "a: attempt 1 is queued",
            "b: attempt 1 is queued",
            "b: attempt 1 started",
            "a: attempt 1 started",
            "a: attempt 1 failed: disk full",
            "a: remaining steps are dropped, exception handler `clean` runs when the running attempt has ended, then \
             the run fails: no retry or policy applies",
            "c: dropped: the exception handler takes over",
            "b: attempt 1 completed",
            "exception handler SECOND started",
            "the run failed: a: disk full; its exception handler failed too: disk is still full",
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
            "FIRST of flow `f` started",
            "the run got a slot of limit `f` (at most 1 run at once)",
            "a: attempt 1 is queued",
            "b: attempt 1 is queued",
            "b: attempt 1 started",
            "b: attempt 1 was cancelled: the run was cancelled",
            "a: cancelled: its run ended",
            "c: cancelled: its run ended",
            "the run was cancelled by operator (not needed)",
        ]
    );
}
