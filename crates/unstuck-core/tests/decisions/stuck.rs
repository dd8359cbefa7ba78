//! Stuck: which limit finds an attempt unresponsive, what that costs, and where the step is tried again.

use crate::flows::{StepBuilder, flow, step};
use crate::support::{BEGIN, World, done, fatal, local, operator, remote, stall};
use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{Outcome, ResumedBy, StuckLimit, Worker};
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::{QueuePlace, UnitState, Waiting};
use unstuck_core::time::Millis;

fn alive() -> Report {
    Report::Heartbeat { progress: None }
}

fn progress() -> Report {
    Report::Heartbeat { progress: Some(Json::parse("\"half\"").unwrap()) }
}

/// A step with this silence and this total.
fn limited(heartbeat_s: Option<u64>, total_s: Option<u64>) -> StepBuilder {
    step("a").change(|step| {
        step.limits.heartbeat_timeout = heartbeat_s.map(Millis::seconds);
        step.limits.timeout = total_s.map(Millis::seconds).or(step.limits.timeout);
    })
}

/// The step, its worker, what that says and when (in ms from its claim), and when it is stuck by which limit.
type Case = (&'static str, StepBuilder, Worker, Vec<(u64, Report)>, (u64, StuckLimit));

fn limits() -> Vec<Case> {
    use StuckLimit::{Heartbeat, Start, Total};
    let s = Millis::seconds;
    let slow = || step("a").change(|step| step.limits.start_timeout = Millis::seconds(5));
    let began = || (0, Report::Start);
    let beats = vec![began(), (20_000, alive()), (49_999, alive())];
    let busy = vec![began(), (25_000, alive()), (45_000, progress())];
    let r = || remote("r");
    let half_a_day = Millis::hours(12);
    vec![
        ("never started", step("a"), r(), vec![], (30_000, Start(s(30)))),
        ("a startTimeout of its own", slow(), r(), vec![], (5_000, Start(s(5)))),
        ("silent", step("a"), r(), vec![(1_000, Report::Start)], (31_000, Heartbeat(s(30)))),
        ("a heartbeat is a start", step("a"), r(), vec![(29_999, alive())], (59_999, Heartbeat(s(30)))),
        ("a heartbeat just before the limit", step("a"), r(), beats, (79_999, Heartbeat(s(30)))),
        ("progress", step("a"), r(), vec![began(), (20_000, progress())], (50_000, Heartbeat(s(30)))),
        ("silence of its own", limited(Some(10), None), r(), vec![began()], (10_000, Heartbeat(s(10)))),
        ("alive, and too long at it", limited(None, Some(50)), r(), busy, (50_000, Total(s(50)))),
        // A local process holds its lease as long as it lives, unless its step asks for signs of life.
        ("local", step("a"), local("w"), vec![], (half_a_day.0, Total(half_a_day))),
        (
            "local, and asked",
            limited(Some(10), None),
            local("w"),
            vec![(9_999, alive())],
            (19_999, Heartbeat(s(10))),
        ),
    ]
}

#[test]
fn each_limit_finds_what_is_silent_and_not_a_millisecond_sooner() {
    for (name, make, worker, script, (when, limit)) in limits() {
        let mut world = World::new(vec![flow("f", vec![make])]);
        let run = world.start("f");
        let attempt = world.claim(run, "a", &worker).expect("claimed");
        let until = |world: &mut World, ms| world.pass((BEGIN + Millis(ms)).since(world.now));
        for (at, says) in script {
            until(&mut world, at);
            world.say(attempt, says).expect(name);
        }
        until(&mut world, when - 1);
        assert_eq!(world.step(run, "a"), "active", "{name}");
        until(&mut world, when);
        let past = world.unit(run, "a").past.last().expect(name);
        assert!(matches!(&past.outcome, Outcome::Stuck(stuck) if stuck.limit == limit), "{name}: {past:?}");
        assert_eq!(world.step(run, "a"), "waiting", "{name}");
        // The worker is told to stop, and by which limit.
        assert_eq!(world.interrupted(), [(attempt, limit.to_string())], "{name}");
    }
}

#[test]
fn a_heartbeat_is_no_event_and_one_with_progress_is() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
    world.say(attempt, Report::Start).expect("started");
    let events = world.history[&run].len();

    world.pass(Millis::seconds(10));
    let decision =
        world.decide_on(run, Command::Report { attempt, report: alive() }, None).expect("it is alive");
    let lease = decision.lease.expect("the lease has moved");
    assert_eq!((decision.event, lease.due), (None, world.now + Millis::seconds(30)));
    assert_eq!(world.history[&run].len(), events);

    world.say(attempt, progress()).expect("heard");
    assert_eq!(world.history[&run].len(), events + 1);
    world.say(attempt, done()).expect("completed");
    let progress = world.unit(run, "a").past[0].progress.clone().expect("its last progress is kept");
    assert_eq!(world.json(&progress).text(), "\"half\"");
}

#[test]
fn a_timer_that_fires_early_changes_nothing() {
    let waits =
        || step("a").retry(Some(2), 5).change(|step| step.limits.queue_timeout = Some(Millis::hours(1)));
    let mut world = World::new(vec![flow("f", vec![waits()])]);
    let run = world.start("f");
    let due = |world: &mut World, heard| {
        let unit = Some(world.unit_ref(run, "a"));
        let decision = world.decide_on(run, Command::Due { unit, heard }, None).expect("never refused");
        assert_eq!((decision.answer, &decision.event), (Answer::Already, &None));
        decision.lease.map(|lease| lease.due)
    };
    assert_eq!(due(&mut world, None), None, "ready");
    let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
    assert_eq!(due(&mut world, None), Some(BEGIN + Millis::seconds(30)), "dequeued");
    world.say(attempt, Report::Start).expect("started");
    // The lease was moved after the timer was set: the timer learns of it, and is set again.
    world.now = BEGIN + Millis::seconds(35);
    let heard = BEGIN + Millis::seconds(20);
    assert_eq!(due(&mut world, Some(heard)), Some(BEGIN + Millis::seconds(50)), "active");
    world.say(attempt, stall("x")).expect("stalled");
    assert_eq!(due(&mut world, None), None, "waiting");
    world.pass(Millis::seconds(5));
    world.attempt(run, "a", done());
    assert_eq!(due(&mut world, None), None, "final");
}

/// Lets the attempts of a step be stuck, one after the other.
fn be_stuck(world: &mut World, run: RunId, times: u32) {
    for _ in 0..times {
        let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
        world.say(attempt, Report::Start).expect("started");
        world.pass(Millis::seconds(30));
        world.pass(Millis::seconds(1));
    }
}

#[test]
fn below_max_stuck_it_is_tried_anew_whatever_its_retry_strategy_and_at_max_stuck_it_is_failed() {
    use RunState::{Failed, Held, Running};
    let cases = |max_stuck| {
        let a = move || step("a").change(|step| step.limits.max_stuck = max_stuck);
        [
            ("none", a(), ("failed", Failed)),
            ("retry", a().retry(Some(5), 60), ("failed", Failed)),
            ("hold", a().hold(None), ("held", Held)),
            ("hold, bounded", a().hold(Some(1)), ("failed", Failed)),
            ("failOnError: false", a().goes_on(), ("failed", Running)),
            ("exceptionHandler", a().handler("h"), ("failed", Running)),
        ]
    };
    for max_stuck in [1, 3] {
        for (name, make, leaves) in cases(max_stuck) {
            let mut world = World::new(vec![flow("f", vec![make, step("b")]), flow("h", vec![step("c")])]);
            let run = world.start("f");
            be_stuck(&mut world, run, max_stuck - 1);
            assert_eq!(world.state(run), Running, "{name}: tried again {max_stuck} times");
            be_stuck(&mut world, run, 1);
            assert_eq!((world.step(run, "a"), world.state(run)), leaves, "{name} of {max_stuck}");
            let error = world.unit(run, "a").last_error().expect("an error").clone();
            assert_eq!(&*error.cause, "stuck: no heartbeat for 30s (heartbeatTimeout)", "{name}");
        }
    }
}

#[test]
fn after_max_stuck_under_hold_each_retry_is_one_more_attempt() {
    let mut world = World::new(vec![flow("f", vec![step("a").hold(None)])]);
    let run = world.start("f");
    be_stuck(&mut world, run, 3);
    for attempts in 3..6 {
        assert_eq!((world.step(run, "a"), world.unit(run, "a").attempts), ("held", attempts));
        world.choose(run, "a", Choice::Retry).expect("chosen");
        be_stuck(&mut world, run, 1);
    }
}

#[test]
fn stalls_and_stuck_ones_have_budgets_of_their_own_and_a_new_round_has_both_anew() {
    let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(2), 1)])]);
    let run = world.start("f");
    for _ in 0..2 {
        be_stuck(&mut world, run, 2);
        world.attempt(run, "a", stall("x"));
        world.pass(Millis::seconds(1));
        world.attempt(run, "a", stall("x"));
        let round = world.unit(run, "a").round;
        assert_eq!((world.step(run, "a"), round.stuck, round.stalled), ("error", 2, 2));
        world.resume(run, "a").expect("resumed");
    }
    assert_eq!((world.unit(run, "a").round.stuck, world.unit(run, "a").round.number), (0, 3));
}

/// Where the next attempt will queue, once its delay is over.
fn place(world: &World, run: RunId) -> (QueuePlace, Millis) {
    match &world.unit(run, "a").state {
        UnitState::Waiting(Waiting::Again { due, by: ResumedBy::Reclaim, place }) => {
            (*place, due.since(world.now))
        }
        other => panic!("it is not tried again: {other:?}"),
    }
}

#[test]
fn the_first_time_it_waits_at_the_front_later_at_the_back_and_always_for_the_minimum_delay() {
    let make = || step("a").change(|step| step.limits.minimum_delay = Millis::seconds(4));
    let mut world = World::new(vec![flow("f", vec![make()])]);
    let run = world.start("f");
    for front in [true, false] {
        let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
        world.say(attempt, Report::Start).expect("started");
        world.pass(Millis::seconds(30));
        assert_eq!(place(&world, run), (QueuePlace { front, alone: false }, Millis::seconds(4)));
        world.pass(Millis(3_999));
        assert_eq!(world.step(run, "a"), "waiting");
        world.pass(Millis(1));
        let ready = world.wakeup(run, "a").ready.expect("ready");
        assert_eq!((ready.front, ready.alone), (front, false));
    }
}

#[test]
fn a_first_loss_together_with_others_is_free_and_from_the_second_on_the_step_runs_alone() {
    const OTHERS: bool = true;
    const ALONE: bool = false;
    // The losses one after the other; then how many count, and the place of the next attempt.
    let cases: [(&[bool], u32, (bool, bool)); 6] = [
        (&[OTHERS], 0, (true, false)),
        (&[ALONE], 1, (true, false)),
        (&[OTHERS, OTHERS], 1, (false, true)),
        (&[OTHERS, ALONE], 1, (false, true)),
        (&[ALONE, OTHERS], 2, (false, true)),
        (&[OTHERS, OTHERS, OTHERS], 2, (false, true)),
    ];
    for (losses, counted, (front, alone)) in cases {
        let mut world = World::new(vec![flow("f", vec![step("a")])]);
        let run = world.start("f");
        for with_others in losses {
            world.pass(Millis::seconds(1));
            let attempt = world.begin(run, "a");
            world.lose(attempt, *with_others);
        }
        assert_eq!(world.unit(run, "a").round.stuck, counted, "{losses:?}");
        assert_eq!(place(&world, run).0, QueuePlace { front, alone }, "{losses:?}");
        assert!(world.interrupted().is_empty(), "there is nobody to tell");
        for _ in counted..3 {
            assert_eq!(world.state(run), RunState::Waiting, "{losses:?}");
            world.pass(Millis::seconds(1));
            let attempt = world.begin(run, "a");
            world.lose(attempt, true);
        }
        assert_eq!(&*world.error(run).error.cause, "stuck: its worker is gone", "{losses:?}");
    }
}

#[test]
fn a_step_that_has_cost_two_workers_runs_alone_for_the_rest_of_its_round() {
    let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(9), 1).hold(None)])]);
    let run = world.start("f");
    for _ in 0..2 {
        let attempt = world.begin(run, "a");
        world.lose(attempt, true);
        world.pass(Millis::seconds(1));
    }
    let alone = |world: &World| world.wakeup(run, "a").ready.expect("ready").alone;
    assert!(alone(&world), "after its second loss");
    world.attempt(run, "a", Report::Release);
    assert!(alone(&world), "after a release");
    world.attempt(run, "a", stall("x"));
    world.choose(run, "a", Choice::Retry).expect("chosen");
    assert!(alone(&world), "after an operator's retry");
    world.attempt(run, "a", crate::support::lacking());
    world.pass(Millis::seconds(30));
    assert!(alone(&world), "after a deferral");
}

#[test]
fn a_release_costs_nothing_and_goes_to_the_front_at_once() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    for attempt in 1..=9 {
        let id = world.attempt(run, "a", Report::Release);
        assert_eq!(id.attempt, attempt);
        let ready = world.wakeup(run, "a").ready.expect("ready again");
        assert_eq!((ready.front, ready.alone, ready.since), (true, false, world.now));
    }
    let unit = world.unit(run, "a");
    assert_eq!((unit.round.stuck, unit.round.stalled, unit.round.number), (0, 0, 1));
    assert!(world.interrupted().is_empty());
}

#[test]
fn what_is_stuck_while_its_run_fails_or_is_paused_is_not_tried_anew_yet() {
    let steps = || vec![step("a").needs(&[]), step("b").needs(&[])];
    let mut world = World::new(vec![flow("f", steps())]);
    let run = world.start("f");
    let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
    world.attempt(run, "b", fatal("broken"));
    assert_eq!(world.state(run), RunState::Running, "what is active ends first");
    world.pass(Millis::seconds(30));
    assert_eq!((world.step(run, "a"), world.state(run)), ("cancelled", RunState::Failed));
    assert_eq!(world.interrupted()[0].0, attempt);

    let mut world = World::new(vec![flow("f", steps())]);
    let run = world.start("f");
    world.claim(run, "a", &remote("r")).expect("claimed");
    world.ask(run, Command::Pause { by: operator(), reason: None }).expect("paused");
    world.pass(Millis::seconds(90));
    assert_eq!((world.step(run, "a"), world.unit(run, "a").round.stuck), ("waiting", 1));
    world.unpause(run).expect("goes on");
    world.pass(Millis(0));
    assert_eq!(world.step(run, "a"), "ready");
}
