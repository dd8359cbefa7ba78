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
            "= FIRST of flow `f` is queued: no free slot of limit `f` (at most 2 runs at once)",
            "a pending: the run waits for a slot of limit `f` (at most 2 runs at once)",
            "b pending: needs `a`",
            "> when limit `f` has a free slot (at most 2 runs at once), the run continues",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is running: step `a` is ready and waits for a worker",
            "a ready: attempt 1 is queued for 2m and waits for a worker that offers `a`",
            "b pending: needs `a`",
            "> in 3m: if no worker has taken attempt 1 of `a` by then (queueTimeout 5m), it stalls",
            "> when a worker that offers `a` is free, it takes attempt 1 of `a`",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is running: 1 active attempt (`a`)",
            "a active: attempt 1 was handed to worker w1 10s ago but has not started",
            "> in 20s: if worker w1 has not started `a` by then (startTimeout 30s), it is stuck (1 of 3) and retried",
            "> when worker w1 starts attempt 1 of `a`, it is running",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is running: 1 active attempt (`a`)",
            "a active: attempt 1 is running on worker w1: started 30s ago, last heartbeat 20s ago; progress: \"half\"",
            "> in 10s: if worker w1 sends no heartbeat by then (heartbeatTimeout 30s), `a` is stuck (1 of 1) and \
             fails",
            "> in 11h 59m: if `a` is not finished by then (timeout 12h), it is stuck (1 of 1) and fails",
            "> when worker w1 finishes `a`, the flow continues",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is running: 1 active attempt (`a`)",
            "a active: attempt 1 is running on worker w1: started 1m 20s ago",
            "> in 11h 58m: if `a` is not finished by then (timeout 12h), it is stuck (1 of 3) and retried",
            "> if worker w1 sends no heartbeat in time (heartbeatTimeout 30s), `a` is stuck (1 of 3) and retried",
            "> when worker w1 finishes `a`, the flow continues",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is waiting: `stuck` is retried in 1s (and 2 more)",
            "retried waiting: attempt 1 stalled: connection reset. Retrying in 1m (retryStrategy)",
            "deferred waiting: attempt 1 was deferred: no GPU. Retrying in 30s",
            "stuck waiting: attempt 1 is stuck: its worker is gone. Retrying in 1s",
            "> in 1s: `stuck` is retried (attempt 2)",
            "> in 30s: `deferred` is retried (attempt 2)",
            "> in 1m: `retried` is retried (attempt 2)",
            "$ unstuck resume FIRST: retry all 3 waiting steps now, in a new round",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is waiting: the wait of `nap` ends in 4m (and 1 more)",
            "nap waiting: its wait ends in 4m",
            "approval waiting: signal `boss's ok` has not arrived yet (for 1m)",
            "> in 4m: the wait of `nap` ends, and the flow continues",
            "> in 1d 11h: if signal `boss's ok` has not arrived by then, `approval` stalls",
            "> when signal `boss's ok` arrives, `approval` completes",
            "$ unstuck signal FIRST 'boss'\\''s ok': complete `approval`; JSON after the name becomes its output",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is held: an operator must choose retry or none for `a` (\"codec missing\") and `b`",
            "a held: attempt 1 stalled: codec missing. Held until an operator chooses retry or none: retryStrategy \
             is hold. Held for 7m",
            "b held: attempt 1 failed: no such file. Held until an operator chooses retry or none: 1 of 2 attempts \
             used in this round (1 left). Held for 7m",
            "> `a` stays held until an operator chooses retry or none",
            "> `b` stays held until an operator chooses retry or none",
            "$ unstuck choose FIRST a retry: retry once more in this round",
            "$ unstuck choose FIRST a none: stop retrying; exception handler `clean` runs, then the run fails",
            "$ unstuck choose FIRST b retry: retry once more in this round",
            "$ unstuck choose FIRST b none: stop retrying; the flow continues with output null",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
    let whole = "a error: 31 items: 1 completed and 30 in error; showing the first 20 of 30 unfinished items";
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
            "= FIRST of flow `f` is in error: an operator must resume `a[0]` (\"disk full\") and `a[2]`",
            "a error: 3 items: 1 completed and 2 in error",
            "a[0] error: attempt 1 stalled: disk full. Needs an operator: no retry, policy or exception handler \
             applies. In error for 1h",
            "a[2] error: attempt 1 stalled: disk is still full. Needs an operator: no retry, policy or exception \
             handler applies. In error for 1h",
            "b pending: needs `a`",
            "> `a[0]` stays in error until an operator resumes it",
            "> `a[2]` stays in error until an operator resumes it",
            "$ unstuck resume FIRST: resume all 2 steps in error",
            "$ unstuck resume FIRST 'a[0]': retry in a new round with full budgets",
            "$ unstuck resume FIRST 'a[2]': retry in a new round with full budgets",
            "$ unstuck ack FIRST --reason known: leave every step in error: no policy resumes them, and they no \
             longer count as open",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is paused by operator since 08:00:00 UTC (maintenance): nothing new starts until it \
             is unpaused",
            "c active: attempt 1 is child SECOND, which is paused",
            "b pending: needs `c`",
            "> when the run is unpaused, it continues; timers that are due by then fire at once",
            "> when child SECOND ends (it is paused), `c` ends the same way",
            "$ unstuck explain SECOND: explain the child of `c`, which is paused",
            "$ unstuck unpause FIRST: continue the run",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
        ]
    );
    assert_eq!(
        told(flows(), pause),
        [
            "= SECOND of flow `g` is paused with its parent since 08:00:00 UTC: nothing new starts until it is \
             unpaused",
            "x waiting: attempt 1 stalled: reset. Retrying once the run is unpaused (retryStrategy)",
            "> when the run is unpaused, it continues; timers that are due by then fire at once",
            "> when this run ends, its parent FIRST continues",
            "$ unstuck unpause FIRST: continue its parent, and this run with it",
            "$ unstuck cancel SECOND: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is held: child SECOND (`c`) is held: reset",
            "c active: attempt 1 is child SECOND, which is held",
            "> when child SECOND ends (it is held), `c` ends the same way",
            "$ unstuck explain SECOND: explain the child of `c`, which is held",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "= FIRST of flow `f` is failing: `a` ended with \"disk full\"; 1 running attempt ends first",
            "a failed: attempt 1 failed: disk full. Remaining steps are dropped, exception handler `clean` runs when \
             the running attempt has ended, then the run fails: no retry or policy applies (just now)",
            "b active: attempt 1 was handed to worker w1 just now but has not started",
            "c dropped: the exception handler took over just now",
            "> in 30s: if worker w1 has not started `b` by then (startTimeout 30s), it is stuck and stopped",
            "> when the running attempt ends, exception handler `clean` runs, then the run fails",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "a failed: attempt 1 failed: disk full. Remaining steps are dropped, exception handler `clean` runs when \
             the running attempt has ended, then the run fails: no retry or policy applies (just now)",
            "b completed: just now",
            "c dropped: the exception handler took over just now",
            "> when exception handler SECOND ends (it is held), the run fails",
            "$ unstuck explain SECOND: explain the exception handler, which is held",
            "$ unstuck pause FIRST: let running attempts finish and start nothing new",
            "$ unstuck cancel FIRST: cancel the run: running attempts are stopped, children are cancelled",
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
            "a failed: attempt 1 stalled: odd. Failed; the flow continues with output null: no retry strategy; \
             failOnError is false (1m 1s ago)",
            "b skipped: its condition was false (1m 1s ago)",
            "c completed: 1m ago, after 2 attempts",
            "> nothing: a completed run is final",
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
            "= FIRST of flow `f` failed 1h ago: missed its deadline (2027-01-15T09:00:00.000Z) while `a` was queued \
             (attempt 1)",
            "a cancelled: its run ended 1h ago",
            "> nothing: a failed run is final; a rerun starts its next generation",
            "$ unstuck rerun FIRST: start the next generation from the point of failure; completed steps are not run \
             again",
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
            "> nothing: a cancelled run is final; a rerun starts its next generation",
            "$ unstuck rerun FIRST: start the next generation from the point of failure; completed steps are not run \
             again",
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
            "= FIRST of flow `f` was superseded just now by SECOND",
            "a cancelled: its run ended just now",
            "> nothing: another run replaced it",
            "$ unstuck explain SECOND: explain the run that replaced it",
        ]
    );
}
