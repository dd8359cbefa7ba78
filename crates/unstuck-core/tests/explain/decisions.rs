//! Decisions beside the ladder: stuck, deferred, given back, operators, parents, deadlines, conditions, slots, the end.

use unstuck_core::command::{Command, Report, Rerun};
use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Concurrency, Deadline, Flow};
use unstuck_core::time::Millis;

use crate::flows::{child, expression, flow, flow_with, reads_input, step};
use crate::saying::{choose, decisions, lacking_gpu, named};
use crate::support::{World, done, fatal, local, operator, remote, stall};

/// All decisions about the run that `happens` plays.
fn told(flows: Vec<Flow>, happens: fn(&mut World, RunId) -> RunId) -> Vec<String> {
    let mut world = World::new(flows);
    let run = world.start("f");
    let about = happens(&mut world, run);
    let names: Vec<(RunId, &str)> = world.runs.keys().copied().zip(["FIRST", "SECOND", "THIRD"]).collect();
    decisions(&world, about).iter().map(|line| named(line, &names)).collect()
}

#[test]
fn a_stuck_attempt_is_tried_anew() {
    let flows = vec![flow("f", vec![step("a")])];
    let lines = told(flows, |world, run| {
        let lost = world.claim(run, "a", &local("w1")).expect("claimed");
        world.ask(run, Command::Lost { attempt: lost, with_others: true }).expect("lost");
        world.pass(Millis::seconds(1));
        let lost = world.claim(run, "a", &remote("w1")).expect("claimed");
        world.ask(run, Command::Lost { attempt: lost, with_others: true }).expect("lost");
        world.pass(Millis::seconds(1));
        let silent = world.claim(run, "a", &remote("w2")).expect("claimed");
        world.say(silent, Report::Start).expect("started");
        world.pass(Millis::seconds(30));
        run
    });
    assert_eq!(
        lines,
        [
            "a#1 | stuck | maxStuck: 3 | attempt 1 is stuck: its worker is gone. Retrying in 1s, at \
             2027-01-15T08:00:01.000Z, at the front of its queue: last heard from at 2027-01-15T08:00:00.000Z; not \
             counted because its worker lost several attempts at once; stuck 0 of 3 in this round (3 left)",
            "a#2 | stuck | maxStuck: 3 | attempt 2 is stuck: its worker is gone. Retrying in 1s, at \
             2027-01-15T08:00:02.000Z, at the back of its queue, on a worker that runs nothing else: last heard from \
             at 2027-01-15T08:00:01.000Z; stuck 1 of 3 in this round (2 left)",
            "a#3 | stuck | heartbeatTimeout: 30s, maxStuck: 3 | attempt 3 is stuck: no heartbeat for 30s \
             (heartbeatTimeout). Retrying in 1s, at 2027-01-15T08:00:33.000Z, at the back of its queue, on a worker \
             that runs nothing else: last heard from at 2027-01-15T08:00:02.000Z; stuck 2 of 3 in this round (1 left)",
        ]
    );
}

#[test]
fn a_deferral_waits_and_a_release_uses_nothing_up() {
    let flows = vec![flow("f", vec![step("a")])];
    let lines = told(flows, |world, run| {
        world.attempt(run, "a", lacking_gpu());
        world.pass(Millis::seconds(30));
        world.attempt(run, "a", Report::Defer { asked: Some(Millis::hours(2)), lacking: None });
        world.pass(Millis::hours(2));
        world.attempt(run, "a", Report::Release);
        run
    });
    assert_eq!(
        lines,
        [
            "a#1 | deferral | defer: {delay: 30s, multiplier: 2, maxDelay: 10m, limit: 1d} | attempt 1 was deferred: \
             no GPU. Retrying in 30s, at 2027-01-15T08:00:30.000Z: deferral 1 of this round, 30s of at most 1d used \
             (23h 59m left)",
            "a#2 | deferral | defer: {delay: 30s, multiplier: 2, maxDelay: 10m, limit: 1d} | attempt 2 was deferred: \
             not enough resources. Retrying in 2h, at 2027-01-15T10:00:30.000Z: deferral 2 of this round, 2h of at \
             most 1d used (21h 59m left)",
            "a#3 | release | release | attempt 3 was released by its worker: attempt 4 is queued first, and no \
             budget is used",
        ]
    );
}

#[test]
fn operators_decide_too() {
    let flows = vec![flow("f", vec![step("a").hold(Some(2)), step("b").needs(&[]).retry(Some(1), 1)])];
    let lines = told(flows, |world, run| {
        world.attempt(run, "a", stall("x"));
        choose(world, run, "a", Choice::Retry);
        world.attempt(run, "b", stall("y"));
        let reason = Some("the disk is larger now".into());
        world
            .ask(run, Command::Resume { unit: None, by: operator(), reason, changes: Box::default() })
            .expect("resumed");
        let reason = Some("maintenance".into());
        world.ask(run, Command::Pause { by: operator(), reason }).expect("paused");
        world.ask(run, Command::Unpause { by: operator() }).expect("unpaused");
        world.ask(run, Command::Cancel { by: operator(), reason: None }).expect("cancelled");
        world.ask(run, Command::rerun(Rerun::Continue, operator())).expect("reran");
        run
    });
    assert_eq!(
        lines,
        [
            "a#1 | retryStrategy | retryStrategy: hold, maxAttempts: 2 | attempt 1 stalled: x. Held until an \
             operator chooses retry or none: 1 of 2 attempts used in this round (1 left)",
            "a#1 | operator | choose retry | attempt 1 stalled: x. One more attempt in this round: operator chose \
             retry",
            "b#1 | rest | retryStrategy: retry, maxAttempts: 1, backOff: 1s, failOnError: true, no exceptionHandler \
             | attempt 1 stalled: y. Needs an operator: 1 of 1 attempt used in this round; no policy or exception \
             handler applies",
            "b#1 | operator | resume | attempt 1 stalled: y. Resumed by operator (the disk is larger now): round 2 \
             starts with full budgets",
            "run | operator | pause | paused by operator (maintenance): running attempts finish, nothing new starts, \
             and timers wait",
            "run | operator | unpause | unpaused by operator: the run continues",
            "run | operator | cancel | cancelled by operator: running attempts are stopped; children are cancelled",
            "run | operator | rerun: continue | rerun by operator: generation 2 starts and keeps 0 of 2 steps",
        ]
    );
}

#[test]
fn what_a_parent_does_to_its_child_is_told_as_such() {
    let flows = vec![flow("f", vec![child("c", "inner")]), flow("inner", vec![step("a")])];
    let lines = told(flows, |world, run| {
        let child = world.child(run);
        world.ask(run, Command::Pause { by: operator(), reason: None }).expect("paused");
        world.ask(run, Command::Unpause { by: operator() }).expect("unpaused");
        world.ask(run, Command::Cancel { by: operator(), reason: None }).expect("cancelled");
        world.ask(run, Command::rerun(Rerun::Continue, operator())).expect("reran");
        child
    });
    assert_eq!(
        lines,
        [
            "run | parent | pause | paused with its parent: running attempts finish, nothing new starts, and timers \
             wait",
            "run | parent | unpause | unpaused with its parent: the run continues",
            "run | parent | cancel | cancelled (its parent no longer needs it): running attempts are stopped; \
             children are cancelled",
            "run | parent | rerun: continue | rerun by its parent: generation 2 starts and keeps 0 of 1 step",
        ]
    );
}

#[test]
fn a_handler_ends_the_run() {
    let steps = || vec![step("a").handler("clean"), step("b").needs(&[])];
    let flows = || vec![flow("f", steps()), flow("clean", vec![step("sweep")])];
    let completed = told(flows(), |world, run| {
        let other = world.begin(run, "b");
        world.attempt(run, "a", fatal("x"));
        world.say(other, fatal("z")).expect("heard");
        let handler = world.child(run);
        world.attempt(handler, "sweep", done());
        run
    });
    assert_eq!(
        completed,
        [
            "a#1 | exceptionHandler | exceptionHandler: clean | attempt 1 failed: x. Remaining steps are dropped, \
             exception handler `clean` runs when the running attempt has ended, then the run fails: no retry or \
             policy applies",
            "b#1 | failed | the run is failing | attempt 1 failed: z. No retry: the run is already failing",
            "run | exceptionHandler | exceptionHandler: clean | the run failed: exception handler SECOND completed",
        ]
    );
    let failed = told(flows(), |world, run| {
        world.attempt(run, "a", fatal("x"));
        let handler = world.child(run);
        world.attempt(handler, "sweep", stall("y"));
        handler
    });
    assert_eq!(
        failed,
        [
            "sweep#1 | failed | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 stalled: y. The \
          run fails: an exception handler does not wait for an operator; no retry, policy or exception handler \
          applies",
        ]
    );
}

#[test]
fn a_deadline_ends_the_run() {
    let flows = |handler: bool| {
        let a = if handler { step("a").handler("clean") } else { step("a") };
        let deadline = Some(Deadline::After(Millis::hours(2)));
        vec![flow_with("f", vec![a], |flow| flow.deadline = deadline), flow("clean", vec![step("sweep")])]
    };
    let late = |world: &mut World, run| {
        world.pass(Millis::hours(2));
        run
    };
    assert_eq!(
        told(flows(false), late),
        [
            "run | deadline | deadline: 2h | missed its deadline (2027-01-15T10:00:00.000Z) while `a` was queued \
             (attempt 1); running attempts were stopped and children cancelled; the run fails",
        ]
    );
    assert_eq!(
        told(flows(true), late),
        [
            "run | deadline | deadline: 2h | missed its deadline (2027-01-15T10:00:00.000Z) while `a` was queued \
             (attempt 1); running attempts were stopped and children cancelled; remaining steps are dropped, \
             exception handler `clean` runs, then the run fails",
        ]
    );
}

#[test]
fn a_failing_run_waits_until_its_deadline_and_no_longer() {
    let deadline = Some(Deadline::After(Millis::hours(2)));
    let steps = vec![step("a"), step("b").needs(&[])];
    let flows = vec![flow_with("f", steps, |flow| flow.deadline = deadline)];
    let lines = told(flows, |world, run| {
        world.begin(run, "b");
        world.attempt(run, "a", fatal("x"));
        world.pass(Millis::hours(2));
        run
    });
    assert_eq!(
        lines,
        [
            "a#1 | failed | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 failed: x. The \
             run fails when the running attempt has ended: no retry, policy or exception handler applies",
            "b#1 | deadline | deadline: 2h | attempt stopped: the run is failing and missed its deadline",
            "run | failed | no exceptionHandler | the run failed: its running attempts have ended",
        ]
    );
}

#[test]
fn conditions_slots_and_the_end() {
    let when = || expression(reads_input(), |_| Ok(false.into()));
    let steps = vec![step("a").when(when()), step("b")];
    let concurrency = Some(Concurrency { limit: 2, key: None, strict: true });
    let flows = vec![flow_with("f", steps, |flow| flow.concurrency = concurrency)];
    let lines = told(flows, |world, run| {
        world.admit();
        world.attempt(run, "b", done());
        run
    });
    assert_eq!(
        lines,
        [
            "run | concurrency | concurrency: {limit: 2, strict: true} | the run got a slot of limit `f` (at most 2 \
             runs at once)",
            "a | condition | if: ${ test } | skipped: its condition is false",
            "run | completed | output: default (the outputs of the last steps) | the run completed: both steps are \
             done",
        ]
    );

    let output = Template::Computed(expression(reads_input(), |_| Err("no such field".into())));
    let flows = vec![flow_with("f", vec![step("a")], |flow| flow.output = Some(output))];
    let lines = told(flows, |world, run| {
        world.attempt(run, "a", done());
        run
    });
    assert_eq!(
        lines,
        [
            "run | failed | no exceptionHandler | output: ${ test }: no such field. The run fails: no exception handler \
          applies",
        ]
    );
}
