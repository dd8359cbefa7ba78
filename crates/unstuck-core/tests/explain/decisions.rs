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
            "a#1 | stuck | maxStuck: 3 | attempt 1 is stuck: its worker is gone; last heard of at \
             2027-01-15T08:00:00.000Z, a first loss together with others is free, stuck 0 of 3 times in \
             this round (3 left): tried anew in 1s, at 2027-01-15T08:00:01.000Z, at the front of its queue",
            "a#2 | stuck | maxStuck: 3 | attempt 2 is stuck: its worker is gone; last heard of at \
             2027-01-15T08:00:01.000Z, stuck 1 of 3 times in this round (2 left): tried anew in 1s, at \
             2027-01-15T08:00:02.000Z, at the back of its queue, by a worker that runs nothing else",
            "a#3 | stuck | heartbeatTimeout: 30s, maxStuck: 3 | attempt 3 is stuck: no sign of life within \
             heartbeatTimeout 30s; last heard of at 2027-01-15T08:00:02.000Z, stuck 2 of 3 times in this \
             round (1 left): tried anew in 1s, at 2027-01-15T08:00:33.000Z, at the back of its queue, by a worker \
             that runs nothing else",
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
            "a#1 | deferral | defer: {delay: 30s, multiplier: 2, maxDelay: 10m, limit: 1d} | attempt 1 was \
             deferred: no GPU; deferral 1 of this round, 30s of at most 1d in all (23h 59m left): tried \
             again in 30s, at 2027-01-15T08:00:30.000Z",
            "a#2 | deferral | defer: {delay: 30s, multiplier: 2, maxDelay: 10m, limit: 1d} | attempt 2 was \
             deferred: resources are lacking; deferral 2 of this round, 2h of at most 1d in all (21h 59m \
             left): tried again in 2h, at 2027-01-15T10:00:30.000Z",
            "a#3 | release | release | the worker of attempt 3 stops in good order and gave it back: \
             attempt 4 is queued at the front, and no budget is used",
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
            "a#1 | retryStrategy | retryStrategy: hold, maxAttempts: 2 | attempt 1 stalled: x; 1 of 2 \
             attempts of this round is used (1 left): held until an operator chooses retry or none",
            "a#1 | operator | choose retry | attempt 1 stalled: x; operator chose retry: one more attempt \
             in the same round",
            "b#1 | rest | retryStrategy: retry, maxAttempts: 1, backOff: 1s, failOnError: true, no \
             exceptionHandler | attempt 1 stalled: y; 1 of 1 attempt of this round has stalled, failOnError \
             is true, no resume policy takes it, no exception handler: it rests in error until somebody resumes it",
            "b#1 | operator | resume | attempt 1 stalled: y; operator resumed it (the disk is larger now): \
             round 2 starts, with every budget anew",
            "run | operator | pause | operator paused the run (maintenance): attempts under way finish, \
             nothing is dispatched, and timers wait",
            "run | operator | unpause | operator unpaused the run: it goes on",
            "run | operator | cancel | operator cancelled the run: its attempts are void, and its children \
             are cancelled too",
            "run | operator | rerun: continue | operator asked for a rerun: generation 2 starts, and keeps \
             0 of 2 steps",
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
            "run | parent | pause | its parent was paused: attempts under way finish, nothing is \
             dispatched, and timers wait",
            "run | parent | unpause | its parent was unpaused: it goes on",
            "run | parent | cancel | its parent no longer needs it: its attempts are void, and its children \
             are cancelled too",
            "run | parent | rerun: continue | its parent tries again: generation 2 starts, and keeps 0 of 1 \
             step",
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
            "a#1 | exceptionHandler | exceptionHandler: clean | attempt 1 failed: x; no retry strategy, \
             failOnError is true: the remaining steps are dropped; once the attempt under way has ended, \
             `clean` runs, and then the run is failed",
            "b#1 | failed | the run is failing | attempt 1 failed: z; the run is failing already: nothing \
             more is tried",
            "run | exceptionHandler | exceptionHandler: clean | exception handler SECOND has completed: the \
             run is failed",
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
        ["sweep#1 | failed | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 \
          stalled: y; no retry strategy, failOnError is true, inside a handler nothing rests in error, \
          no exception handler: the run is failed",]
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
            "run | deadline | deadline: 2h | the run was over its deadline, 2027-01-15T10:00:00.000Z, while `a` was queued \
          (attempt 1): its \
          attempts are void, its children are cancelled, and the run is failed",
        ]
    );
    assert_eq!(
        told(flows(true), late),
        [
            "run | deadline | deadline: 2h | the run was over its deadline, 2027-01-15T10:00:00.000Z, while `a` was queued \
          (attempt 1): its \
          attempts are void, its children are cancelled, the remaining steps are dropped, `clean` runs, \
          and then the run is failed",
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
            "a#1 | failed | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 \
             failed: x; no retry strategy, failOnError is true, no exception handler: once the attempt \
             under way has ended, the run is failed",
            "b#1 | deadline | deadline: 2h | the run is failing, and now over its deadline: the attempt \
             is void",
            "run | failed | no exceptionHandler | what was under way has ended: the run is failed",
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
            "run | concurrency | concurrency: {limit: 2, strict: true} | limit `f` (2 runs at once) has a \
             free slot: the run goes on",
            "a | condition | if: ${ test } | its condition is false: skipped; its output is null, and what \
             needs it goes on",
            "run | completed | output: not given, so that of the last steps | both steps are done: the run \
             is completed",
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
        ["run | failed | no exceptionHandler | output: ${ test }: no such field; no exception handler: \
          the run is failed",]
    );
}
