//! Every state of a run and of its steps, explained: the headline, why, what comes next and when, what can be done.

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Concurrency, Deadline, Flow, Kind, WaitFor};
use unstuck_core::model::run::{Phase, RunEnd, RunOutcome};
use unstuck_core::time::Millis;

use crate::flows::{child, expression, flow, flow_with, reads_input, step, step_of};
use crate::saying::{explained, lacking_gpu, named};
use crate::support::{World, done, fatal, operator, remote, stall};

/// `= headline`, `step state: why`, `> when: what`, `$ command: what`.
pub(crate) fn told(flows: Vec<Flow>, happens: impl FnOnce(&mut World, RunId) -> RunId) -> Vec<String> {
    let mut world = World::new(flows);
    let run = world.start("f");
    let about = happens(&mut world, run);
    let names: Vec<(RunId, &str)> = world.runs.keys().copied().zip(["FIRST", "SECOND", "THIRD"]).collect();
    let explanation = explained(&world, about);
    let mut lines = vec![format!("= {}", explanation.headline)];
    lines
        .extend(explanation.because.iter().map(|unit| format!("{} {}: {}", unit.name, unit.state, unit.why)));
    lines.extend(explanation.next.iter().map(|next| match next.at {
        Some(at) => format!("> in {}: {}", at.since(world.now), next.what),
        None => format!("> {}", next.what),
    }));
    lines.extend(explanation.can.iter().map(|can| format!("$ {}: {}", can.command, can.what)));
    lines.iter().map(|line| named(line, &names)).collect()
}

fn limited(steps: Vec<crate::flows::StepBuilder>) -> Flow {
    let concurrency = Some(Concurrency { limit: 2, key: None, strict: false });
    flow_with("f", steps, |flow| flow.concurrency = concurrency)
}

#[test]
fn queued_for_a_slot() {
    let lines = told(vec![limited(vec![step("a"), step("b")])], |_, run| run);
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is queued: limit `f` lets 2 runs go on at once, and has no slot for it \
             yet",
            "a pending: the run has no slot of limit `f` (2 runs at once)",
            "b pending: it needs `a`",
            "> when limit `f` has a free slot (at most 2 runs go on at once), the run goes on",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn running_with_a_queued_attempt() {
    let a = step("a").change(|step| step.limits.queue_timeout = Some(Millis::minutes(5)));
    let lines = told(vec![flow("f", vec![a, step("b")])], |world, run| {
        world.pass(Millis::minutes(2));
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is running: `a` waits for somebody to take it",
            "a ready: attempt 1 is queued for 2m, for a worker that offers `a`",
            "b pending: it needs `a`",
            "> in 3m: if nobody has taken attempt 1 of `a` by then (queueTimeout 5m), it is stalled",
            "> when a worker that offers `a` is free, it takes attempt 1 of `a`",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn running_with_an_attempt_that_was_handed_out() {
    let lines = told(vec![flow("f", vec![step("a")])], |world, run| {
        world.claim(run, "a", &remote("w1")).expect("claimed");
        world.pass(Millis::seconds(10));
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is running: 1 attempt is under way (`a`)",
            "a active: attempt 1 was handed to worker w1 10s ago, and has not started",
            "> in 20s: if worker w1 has not started `a` by then (startTimeout 30s), it is stuck (1 of \
             3) and tried anew",
            "> when worker w1 starts attempt 1 of `a`, it is active",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn running_with_an_attempt_under_way() {
    let a = step("a").change(|step| step.limits.max_stuck = 1);
    let lines = told(vec![flow("f", vec![a])], |world, run| {
        let attempt = world.claim(run, "a", &remote("w1")).expect("claimed");
        world.say(attempt, Report::Start).expect("heard");
        world.pass(Millis::seconds(10));
        world.say(attempt, Report::Heartbeat { progress: Json::parse("\"half\"").ok() }).expect("heard");
        world.pass(Millis::seconds(20));
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is running: 1 attempt is under way (`a`)",
            "a active: worker w1 works on attempt 1, started 30s ago, last heard of 20s ago; progress: \
             \"half\"",
            "> in 10s: if worker w1 gives no sign of life by then (heartbeatTimeout 30s), `a` is stuck \
             (1 of 1) and failed",
            "> in 11h 59m: if `a` is not done by then (timeout 12h), it is stuck (1 of 1) and failed",
            "> when worker w1 is done with `a`, the flow goes on",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn a_lease_that_heartbeats_have_moved_has_no_known_end() {
    let lines = told(vec![flow("f", vec![step("a")])], |world, run| {
        let attempt = world.claim(run, "a", &remote("w1")).expect("claimed");
        for _ in 0..4 {
            world.say(attempt, Report::Heartbeat { progress: None }).expect("heard");
            world.pass(Millis::seconds(20));
        }
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is running: 1 attempt is under way (`a`)",
            "a active: worker w1 works on attempt 1, started 1m 20s ago",
            "> in 11h 58m: if `a` is not done by then (timeout 12h), it is stuck (1 of 3) and tried anew",
            "> if worker w1 gives no sign of life in time (heartbeatTimeout 30s), `a` is stuck (1 of 3) \
             and tried anew",
            "> when worker w1 is done with `a`, the flow goes on",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn waiting_for_a_retry_a_deferral_and_after_being_stuck() {
    let steps =
        vec![step("retried").retry(Some(3), 60), step("deferred").needs(&[]), step("stuck").needs(&[])];
    let lines = told(vec![flow("f", steps)], |world, run| {
        world.attempt(run, "retried", stall("connection reset"));
        world.attempt(run, "deferred", lacking_gpu());
        let lost = world.begin(run, "stuck");
        world.ask(run, Command::Lost { attempt: lost, with_others: false }).expect("lost");
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is waiting: `stuck` is tried again in 1s (and 2 more)",
            "retried waiting: attempt 1 stalled: connection reset; tried again by its retry strategy in \
             1m",
            "deferred waiting: attempt 1 was deferred: no GPU; tried again after its deferral in 30s",
            "stuck waiting: attempt 1 is stuck: its worker is gone; tried again after having been stuck \
             in 1s",
            "> in 1s: `stuck` is tried again, as attempt 2",
            "> in 30s: `deferred` is tried again, as attempt 2",
            "> in 1m: `retried` is tried again, as attempt 2",
            "$ unstuck resume FIRST: tries every step that waits for that now (3), in a new round",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn waiting_for_a_timer_and_a_signal() {
    let steps = vec![
        step_of("nap", Kind::Wait(WaitFor::Span(Millis::minutes(5)))),
        step_of("approval", Kind::Signal("boss's ok".into()))
            .needs(&[])
            .change(|step| step.limits.timeout = Some(Millis::hours(36))),
    ];
    let lines = told(vec![flow("f", steps)], |world, run| {
        world.pass(Millis::minutes(1));
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is waiting: the wait of `nap` is over in 4m (and 1 more)",
            "nap waiting: its wait is over in 4m",
            "approval waiting: signal `boss's ok` has not come yet (for 1m now)",
            "> in 4m: the wait of `nap` is over, and the flow goes on",
            "> in 1d 11h: if signal `boss's ok` has not come by then, `approval` is stalled",
            "> when signal `boss's ok` comes, `approval` is completed",
            "$ unstuck signal FIRST 'boss'\\''s ok': completes `approval`; JSON after the name becomes \
             its output",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn held() {
    let steps = vec![step("a").hold(None).handler("clean"), step("b").needs(&[]).hold(Some(2)).goes_on()];
    let lines = told(vec![flow("f", steps), flow("clean", vec![step("sweep")])], |world, run| {
        world.attempt(run, "a", stall("codec missing"));
        world.attempt(run, "b", fatal("no such file"));
        world.pass(Millis::minutes(7));
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is held: an operator must choose for `a` (\"codec missing\") and `b`",
            "a held: attempt 1 stalled: codec missing; the retry strategy is hold: held until an \
             operator chooses retry or none (for 7m now)",
            "b held: attempt 1 failed: no such file; 1 of 2 attempts of this round is used (1 left): \
             held until an operator chooses retry or none (for 7m now)",
            "> `a` stays held until an operator chooses",
            "> `b` stays held until an operator chooses",
            "$ unstuck choose FIRST a retry: one more attempt in the same round",
            "$ unstuck choose FIRST a none: gives it up: `clean` runs, and then the run is failed",
            "$ unstuck choose FIRST b retry: one more attempt in the same round",
            "$ unstuck choose FIRST b none: gives it up: its output is null, and the flow goes on",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn many_items_that_are_not_done_are_cut_with_a_word() {
    let items: Vec<u32> = (0..31).collect();
    let lines = told(vec![limited(vec![step("a").for_each(&format!("{items:?}"), 31)])], |world, run| {
        world.admit();
        for item in 0..30 {
            world.attempt(run, &format!("a[{item}]"), stall("disk full"));
        }
        world.attempt(run, "a[30]", done());
        run
    });
    let shown = lines.iter().filter(|line| line.starts_with("a[")).count();
    let whole =
        "a error: 31 items: 1 completed and 30 in error; the first 20 of 30 that are not done are shown";
    assert!(shown == 20 && lines.iter().any(|line| line == whole), "{lines:#?}");
}

#[test]
fn in_error() {
    let lines = told(vec![limited(vec![step("a").for_each("[1,2,3]", 2), step("b")])], |world, run| {
        world.admit();
        world.attempt(run, "a[0]", stall("disk full"));
        world.attempt(run, "a[1]", done());
        world.attempt(run, "a[2]", stall("disk is still full"));
        world.pass(Millis::hours(1));
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is in error: somebody must resume `a[0]` (\"disk full\") and `a[2]`",
            "a error: 3 items: 1 completed and 2 in error",
            "a[0] error: attempt 1 stalled: disk full; no retry strategy, failOnError is true, no resume policy takes it, no \
             exception handler: it rests in error until somebody resumes it (for 1h now)",
            "a[2] error: attempt 1 stalled: disk is still full; no retry strategy, failOnError is true, \
             no resume policy takes it, no exception handler: it rests in error until somebody resumes it (for 1h now)",
            "b pending: it needs `a`",
            "> `a[0]` stays in error until somebody resumes it",
            "> `a[2]` stays in error until somebody resumes it",
            "$ unstuck resume FIRST: resumes every step in error (2)",
            "$ unstuck resume FIRST 'a[0]': tries it again in a new round, with every budget anew",
            "$ unstuck resume FIRST 'a[2]': tries it again in a new round, with every budget anew",
            "$ unstuck ack FIRST --reason known: leaves every step in error as it is: no policy resumes it, and it is not \
             counted any more",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn paused_and_with_its_parent() {
    let flows =
        || vec![flow("f", vec![child("c", "g"), step("b")]), flow("g", vec![step("x").retry(Some(2), 9)])];
    let pause = |world: &mut World, run| {
        let child = world.child(run);
        world.attempt(child, "x", stall("reset"));
        let reason = Some("maintenance".into());
        world.ask(run, Command::Pause { by: operator(), reason }).expect("paused");
        world.pass(Millis::minutes(1));
        child
    };
    let parent = told(flows(), |world, run| {
        pause(world, run);
        run
    });
    assert_eq!(
        parent,
        [
            "= FIRST of flow `f` is paused by operator since 08:00:00 UTC (maintenance): nothing is \
             dispatched until it is unpaused",
            "c active: attempt 1 is child SECOND, which is paused",
            "b pending: it needs `c`",
            "> when the run is unpaused, it goes on; timers that have come due by then fire at once",
            "> when child SECOND has ended (it is paused), `c` ends as it did",
            "$ unstuck explain SECOND: explains the child of `c`, which is paused",
            "$ unstuck unpause FIRST: lets the run go on",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
    assert_eq!(
        told(flows(), pause),
        [
            "= SECOND of flow `g` is paused with its parent since 08:00:00 UTC: nothing is dispatched \
             until it is unpaused",
            "x waiting: attempt 1 stalled: reset; tried again by its retry strategy once the run is \
             unpaused",
            "> when the run is unpaused, it goes on; timers that have come due by then fire at once",
            "> when this run has ended, its parent FIRST goes on",
            "$ unstuck unpause FIRST: lets its parent go on, and this run with it",
            "$ unstuck cancel SECOND: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn a_child_that_is_held_makes_its_parent_held() {
    let flows = vec![flow("f", vec![child("c", "g")]), flow("g", vec![step("x").hold(None)])];
    let lines = told(flows, |world, run| {
        let child = world.child(run);
        world.attempt(child, "x", stall("reset"));
        run
    });
    assert_eq!(
        lines,
        [
            "= FIRST of flow `f` is held: child SECOND of `c` is held",
            "c active: attempt 1 is child SECOND, which is held",
            "> when child SECOND has ended (it is held), `c` ends as it did",
            "$ unstuck explain SECOND: explains the child of `c`, which is held",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn failing_while_attempts_end_and_while_the_handler_runs() {
    let flows = || {
        let steps = vec![step("a").handler("clean"), step("b").needs(&[]), step("c").needs(&["b"])];
        vec![flow("f", steps), flow("clean", vec![step("sweep").hold(None)])]
    };
    let fail = |world: &mut World, run| {
        let other = world.claim(run, "b", &remote("w1")).expect("claimed");
        world.attempt(run, "a", fatal("disk full"));
        (other, run)
    };
    assert_eq!(
        told(flows(), |world, run| fail(world, run).1),
        [
            "= FIRST of flow `f` is failing: `a` ended with \"disk full\"; 1 attempt under way ends \
             first",
            "a failed: attempt 1 failed: disk full; no retry strategy, failOnError is true: the \
             remaining steps are dropped; once the attempt under way has ended, `clean` runs, and then \
             the run is failed (just now)",
            "b active: attempt 1 was handed to worker w1 just now, and has not started",
            "c dropped: the exception handler took over just now",
            "> in 30s: if worker w1 has not started `b` by then (startTimeout 30s), it is stuck and \
             ended",
            "> when the attempt under way has ended, exception handler `clean` runs, and then the run \
             is failed",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
    let handler_held = told(flows(), |world, run| {
        let (other, run) = fail(world, run);
        world.say(other, done()).expect("heard");
        let handler = world.child(run);
        world.attempt(handler, "sweep", stall("no"));
        run
    });
    assert_eq!(
        handler_held,
        [
            "= FIRST of flow `f` is failing: `a` ended with \"disk full\"; exception handler SECOND is \
             held",
            "a failed: attempt 1 failed: disk full; no retry strategy, failOnError is true: the \
             remaining steps are dropped; once the attempt under way has ended, `clean` runs, and then \
             the run is failed (just now)",
            "b completed: just now",
            "c dropped: the exception handler took over just now",
            "> when exception handler SECOND has ended (it is held), the run is failed",
            "$ unstuck explain SECOND: explains the exception handler, which is held",
            "$ unstuck pause FIRST: attempts under way finish, nothing more is dispatched",
            "$ unstuck cancel FIRST: ends the run for good: its attempts are void, its children are \
             cancelled",
        ]
    );
}

#[test]
fn completed() {
    let when = expression(reads_input(), |_| Ok(false.into()));
    let steps = vec![step("a").goes_on(), step("b").when(when), step("c").retry(Some(2), 1)];
    let completed = told(vec![flow("f", steps)], |world, run| {
        world.attempt(run, "a", stall("odd"));
        world.attempt(run, "c", stall("reset"));
        world.pass(Millis::seconds(1));
        world.attempt(run, "c", done());
        world.pass(Millis::minutes(1));
        run
    });
    assert_eq!(
        completed,
        [
            "= FIRST of flow `f` completed 1m ago, after 1s",
            "a failed: attempt 1 stalled: odd; no retry strategy, failOnError is false: the step stays \
             failed, its output is null, and the flow goes on (1m 1s ago)",
            "b skipped: its condition was false 1m 1s ago",
            "c completed: 1m ago, after 2 attempts",
            "> nothing: a completed run never changes",
        ]
    );
}

#[test]
fn final_states_without_completion() {
    let deadline = Some(Deadline::After(Millis::hours(1)));
    let flows = vec![flow_with("f", vec![step("a")], |flow| flow.deadline = deadline)];
    let failed = told(flows, |world, run| {
        world.pass(Millis::hours(2));
        run
    });
    assert_eq!(
        failed,
        [
            "= FIRST of flow `f` failed 1h ago: the run was over its deadline, 2027-01-15T09:00:00.000Z, \
             while `a` was queued (attempt 1)",
            "a cancelled: its run ended 1h ago",
            "> nothing: a failed run never changes, but a rerun starts its next generation",
            "$ unstuck rerun FIRST: starts the next generation from the point of failure; what is \
             completed is not run again",
        ]
    );
    let cancelled = told(vec![flow("f", vec![step("a")])], |world, run| {
        let reason = Some("not needed".into());
        world.ask(run, Command::Cancel { by: operator(), reason }).expect("cancelled");
        run
    });
    assert_eq!(
        cancelled,
        [
            "= FIRST of flow `f` was cancelled by operator just now (not needed)",
            "a cancelled: its run ended just now",
            "> nothing: a cancelled run never changes, but a rerun starts its next generation",
            "$ unstuck rerun FIRST: starts the next generation from the point of failure; what is \
             completed is not run again",
        ]
    );
    let superseded = told(vec![flow("f", vec![step("a")])], |world, run| {
        let by = world.start("f");
        world.ask(run, Command::Cancel { by: operator(), reason: None }).expect("cancelled");
        let at = world.now;
        world.runs.get_mut(&run).expect("there").phase =
            Phase::Ended(RunEnd { at, how: RunOutcome::Superseded { by } });
        run
    });
    assert_eq!(
        superseded,
        [
            "= FIRST of flow `f` was superseded just now: SECOND took its place",
            "a cancelled: its run ended just now",
            "> nothing: another run took its place",
            "$ unstuck explain SECOND: explains the run that took its place",
        ]
    );
}
