//! What will move a run next, derived from its state: what may be handed out, and what is due when.

use crate::flows::{StepBuilder, child, expression, flow, flow_with, reads_input, step, step_of};
use crate::support::{BEGIN, World, done, fatal, local, remote, stall};
use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::errors::{ErrorRecord, LedTo};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{Cancelled, Outcome};
use unstuck_core::model::error::Reason;
use unstuck_core::model::flow::{Concurrency, Deadline, Flow, Kind, WaitFor};
use unstuck_core::model::run::RunState;
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::{ReadyAttempt, Wakeup, wakeup, wakeups};

type Bring = fn(&mut World, RunId);

fn nothing(_: &mut World, _: RunId) {}

fn stalls(world: &mut World, run: RunId) {
    world.attempt(run, "a", stall("x"));
}

fn fails(world: &mut World, run: RunId) {
    world.attempt(run, "a", fatal("x"));
}

fn completes(world: &mut World, run: RunId) {
    world.attempt(run, "a", done());
}

fn is_deferred(world: &mut World, run: RunId) {
    world.attempt(run, "a", Report::Defer { asked: Some(Millis::minutes(1)), lacking: None });
}

fn is_taken(world: &mut World, run: RunId) {
    world.begin(run, "a");
}

fn is_handed_out(world: &mut World, run: RunId) {
    world.claim(run, "a", &remote("r")).expect("claimed");
}

fn is_started_after_2_s(world: &mut World, run: RunId) {
    let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
    world.pass(Millis::seconds(2));
    world.say(attempt, Report::Start).expect("started");
}

fn is_cancelled(world: &mut World, run: RunId) {
    world.cancel(run).expect("cancelled");
}

fn is_paused(world: &mut World, run: RunId) {
    world.pause(run).expect("paused");
}

/// The state of the step `a`, the step, how it comes to that, and when it is due, in seconds.
type Case = (&'static str, StepBuilder, Bring, Option<u64>);

fn cases() -> Vec<Case> {
    let queued = |step: StepBuilder| step.change(|step| step.limits.queue_timeout = Some(Millis::seconds(9)));
    let timed =
        |step: StepBuilder, s| step.change(move |step| step.limits.timeout = Some(Millis::seconds(s)));
    let silent = || step("a").change(|step| step.limits.heartbeat_timeout = Some(Millis::seconds(8)));
    let wait = || step_of("a", Kind::Wait(WaitFor::Span(Millis::seconds(3))));
    let signal = || step_of("a", Kind::Signal("go".into())).change(|step| step.limits.timeout = None);
    let never = expression(reads_input(), |_| Ok(false.into()));
    vec![
        ("ready", step("a"), nothing, None),
        ("ready", queued(step("a")), nothing, Some(9)),
        ("active", step("a"), is_handed_out, Some(30)),
        ("active", step("a"), is_started_after_2_s, Some(32)),
        ("active", step("a"), is_taken, Some(12 * 3_600)),
        ("active", silent(), is_taken, Some(8)),
        ("active", timed(silent(), 5), is_taken, Some(5)),
        ("active", child("a", "inner"), nothing, None),
        ("active", timed(child("a", "inner"), 60), nothing, Some(60)),
        ("waiting", step("a").retry(Some(2), 7), stalls, Some(7)),
        ("waiting", step("a"), is_deferred, Some(60)),
        ("waiting", wait(), nothing, Some(3)),
        ("waiting", signal(), nothing, None),
        ("waiting", timed(signal(), 4), nothing, Some(4)),
        ("held", step("a").hold(None), stalls, None),
        ("error", step("a"), stalls, None),
        ("completed", step("a"), completes, None),
        ("skipped", step("a").when(never), nothing, None),
        ("failed", step("a").goes_on(), fails, None),
        ("failed", step("a"), fails, None),
        ("cancelled", step("a"), is_cancelled, None),
    ]
}

#[test]
fn every_state_of_a_step_has_its_entries_and_no_other() {
    for (state, make, bring, due_s) in cases() {
        let inner = flow("inner", vec![step("x")]);
        let mut world = World::new(vec![flow("f", vec![make, step("z")]), inner]);
        let run = world.start("f");
        bring(&mut world, run);
        assert_eq!(world.step(run, "a"), state);
        let Wakeup { ready, due } = world.wakeup(run, "a");
        let expected = due_s.map(|s| BEGIN + Millis::seconds(s));
        assert_eq!((ready.is_some(), due), (state == "ready", expected), "{:?}", world.unit(run, "a"));
        // Paused: nothing is handed out and timers wait, while leases run on.
        if world.pause(run).is_ok() {
            let paused = world.wakeup(run, "a");
            let due = if state == "active" { expected } else { None };
            assert_eq!(paused, Wakeup { ready: None, due }, "{state}, paused");
        }
    }
}

#[test]
fn what_may_be_handed_out_says_all_that_dispatch_needs() {
    let make = step("a").change(|step| {
        step.priority = 3;
        step.load = 2;
    });
    let mut world = World::new(vec![flow("f", vec![make])]);
    let Ok(Answer::Started(run)) = world.try_start("f", |start| start.priority = 4) else { panic!("starts") };
    let expected = ReadyAttempt {
        run,
        unit: world.unit_ref(run, "a"),
        flow: world.flows["f"].id,
        queue: "a".into(),
        priority: 7,
        front: false,
        since: BEGIN,
        load: 2,
        alone: false,
    };
    assert_eq!(world.wakeup(run, "a").ready, Some(expected));
    let nowhere = wakeup(&world.runs[&run], &world.flows["f"], Some(world.unit_ref(run, "a[3]")));
    assert_eq!(nowhere, Wakeup::default(), "what is not there needs no waking");
}

#[test]
fn what_nobody_takes_within_queue_timeout_is_stalled_and_nobody_is_blamed() {
    let limited =
        |step: StepBuilder| step.change(|step| step.limits.queue_timeout = Some(Millis::seconds(10)));
    let cases = [
        (limited(step("a")), ("error", RunState::Error)),
        (limited(step("a").retry(Some(2), 5)), ("waiting", RunState::Waiting)),
        (limited(step("a").hold(None)), ("held", RunState::Held)),
        (limited(step("a").goes_on()), ("failed", RunState::Running)),
    ];
    for (make, leaves) in cases {
        let mut world = World::new(vec![flow("f", vec![make, step("b")])]);
        let run = world.start("f");
        world.pass(Millis(9_999));
        assert_eq!(world.step(run, "a"), "ready");
        world.pass(Millis(1));
        assert_eq!((world.step(run, "a"), world.state(run)), leaves);
        let unit = world.unit(run, "a");
        let Some(Outcome::Stalled(error)) = unit.last_outcome() else { panic!("{unit:?}") };
        assert_eq!(&*error.cause, "no worker took it within 10s (queueTimeout)");
        assert_eq!((error.reason, error.found_by.as_deref()), (Reason::Capacity, Some("AwaitAction")));
        assert!(unit.past[0].worker.is_none());
    }
    // Once taken, it is not queued any more.
    let mut world = World::new(vec![flow("f", vec![limited(step("a"))])]);
    let run = world.start("f");
    world.pass(Millis(9_999));
    world.begin(run, "a");
    world.pass(Millis::seconds(60));
    assert_eq!(world.step(run, "a"), "active");
}

/// A state of the run, what it is doing in it, and how it comes to that.
fn late_cases() -> [(&'static str, &'static str, Bring); 9] {
    [
        ("running", "`a` was queued (attempt 1)", nothing),
        ("running", "`a` was active (attempt 1)", is_taken),
        ("running", "`a` was active (attempt 1)", is_handed_out),
        ("waiting", "`a` was waiting for a retry", is_deferred),
        ("held", "`a` was held", stalls),
        ("error", "`b` was in error", |world, run| {
            completes(world, run);
            world.attempt(run, "b", stall("x"));
        }),
        ("paused", "it was paused and `a` was queued (attempt 1)", is_paused),
        ("paused", "it was paused and `a` was active (attempt 1)", |world, run| {
            is_taken(world, run);
            is_paused(world, run);
        }),
        ("waiting", "`w` was waiting", |world, run| {
            completes(world, run);
            world.attempt(run, "b", done());
        }),
    ]
}

fn late(flow: &mut Flow) {
    flow.deadline = Some(Deadline::After(Millis::seconds(20)));
}

/// A deadline is recorded as an error of the step that was waited for, whose action it keeps.
fn check_recorded(world: &World, cause: &str, doing: &str) {
    let recorded = world.errors.iter().filter(|error| error.led_to == LedTo::Deadline);
    let recorded: Vec<&ErrorRecord> = recorded.collect();
    let [recorded] = recorded[..] else { panic!("{recorded:?}") };
    assert_eq!((&*recorded.cause, recorded.found_by.as_deref()), (cause, Some("DeadlineAction")));
    assert_eq!(*recorded.action, format!("f.{}", recorded.step));
    assert!(doing.contains(&format!("`{}`", recorded.step)), "{recorded:?}");
}

#[test]
fn a_run_over_its_deadline_goes_straight_to_rung_four_whatever_it_is_doing() {
    for handler in [None, Some("h")] {
        for (state, doing, bring) in late_cases() {
            let last = step_of("w", Kind::Wait(WaitFor::Span(Millis::hours(1))))
                .change(|step| step.exception_handler = handler.map(Into::into));
            let steps = vec![step("a").hold(None), step("b"), last];
            let mut world = World::new(vec![flow_with("f", steps, late), flow("h", vec![step("clean")])]);
            let run = world.start("f");
            bring(&mut world, run);
            assert_eq!(world.state(run).word(), state);
            let active = world.step(run, "a") == "active";
            world.pass(Millis(19_999));
            assert_eq!(world.state(run).word(), state, "not before");
            world.pass(Millis(1));
            let error = world.error(run);
            let cause = format!("missed its deadline (2027-01-15T08:00:20.000Z) while {doing}");
            assert_eq!(*error.error.cause, cause, "{state}");
            assert_eq!((error.unit, error.fatal, error.error.reason), (None, true, Reason::Time));
            check_recorded(&world, &cause, doing);
            if active {
                assert_eq!(world.interrupted()[0].1, "the run missed its deadline");
                let outcome = world.unit(run, "a").last_outcome();
                assert_eq!(outcome, Some(&Outcome::Cancelled(Cancelled::Deadline)));
            }
            let Some(_) = handler else {
                assert_eq!(
                    (world.state(run), world.step(run, "w")),
                    (RunState::Failed, "cancelled"),
                    "{state}"
                );
                assert!(wakeups(&world.runs[&run], &world.flows["f"]).is_empty());
                continue;
            };
            // A handler is dispatched work: a paused run has it once it goes on.
            let _ = world.unpause(run);
            let handler = world.child(run);
            assert_eq!((world.state(run), world.step(run, "w")), (RunState::Running, "dropped"), "{state}");
            world.attempt(handler, "clean", done());
            assert_eq!(world.state(run), RunState::Failed, "{state}");
        }
    }
}

#[test]
fn a_deadline_cancels_children_and_ends_a_queued_run() {
    let steps = vec![child("c", "inner")];
    let mut world = World::new(vec![flow_with("f", steps, late), flow("inner", vec![step("x")])]);
    let run = world.start("f");
    let child = world.child(run);
    let attempt = world.begin(child, "x");
    world.pass(Millis::seconds(20));
    assert_eq!((world.state(run), world.state(child)), (RunState::Failed, RunState::Cancelled));
    assert_eq!(world.interrupted()[0].0, attempt);

    let full = flow_with("f", vec![step("a")], |flow| {
        late(flow);
        flow.concurrency = Some(Concurrency { limit: 0, key: None, strict: false });
    });
    let mut world = World::new(vec![full]);
    let run = world.start("f");
    assert_eq!(world.state(run), RunState::Queued);
    world.pass(Millis::seconds(20));
    assert_eq!(world.state(run), RunState::Failed);
}

#[test]
fn what_is_under_way_when_a_run_fails_has_until_its_deadline() {
    for handler in [None, Some("h")] {
        let a = step("a").needs(&[]).change(|step| step.exception_handler = handler.map(Into::into));
        let steps = vec![a, step("b").needs(&[])];
        let mut world = World::new(vec![flow_with("f", steps, late), flow("h", vec![step("clean")])]);
        let run = world.start("f");
        let slow = world.begin(run, "b");
        world.attempt(run, "a", fatal("broken"));
        world.pass(Millis(19_999));
        assert_eq!((world.step(run, "b"), world.state(run)), ("active", RunState::Running));
        world.pass(Millis(1));
        assert_eq!(world.interrupted(), [(slow, "the run missed its deadline".to_owned())]);
        assert_eq!(&*world.error(run).error.cause, "broken", "it keeps its error");
        if handler.is_some() {
            let handler = world.child(run);
            world.pass(Millis::hours(1));
            world.attempt(handler, "clean", done());
        }
        assert_eq!(world.state(run), RunState::Failed);
    }
}

#[test]
fn a_timer_of_the_run_that_fires_early_or_late_changes_nothing() {
    let mut world = World::new(vec![flow_with("f", vec![step("a")], late)]);
    let run = world.start("f");
    let due = |world: &mut World| world.ask(run, Command::Due { unit: None, heard: None });
    assert_eq!(due(&mut world), Ok(Answer::Already));
    world.claim(run, "a", &local("w")).expect("claimed");
    world.pass(Millis::seconds(20));
    let seq = world.runs[&run].seq;
    assert_eq!((due(&mut world), world.runs[&run].seq), (Ok(Answer::Already), seq), "it is final");
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    world.now = Time(i64::MAX);
    assert_eq!(world.ask(run, Command::Due { unit: None, heard: None }), Ok(Answer::Already), "none was set");
}
