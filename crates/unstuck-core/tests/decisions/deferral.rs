//! Deferred: resources are lacking, so the step waits and is tried again, within the time of its round.

use crate::flows::{StepBuilder, flow, step};
use crate::support::{World, done, fatal, lacking, stall};
use unstuck_core::command::Report;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{Outcome, ResumedBy};
use unstuck_core::model::error::Reason;
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::{UnitState, Waiting};
use unstuck_core::time::Millis;

fn world_of(make: StepBuilder) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", vec![make, step("b")])]);
    let run = world.start("f");
    (world, run)
}

/// One attempt that is deferred; gives the seconds that the step waits for, which pass.
fn defer(world: &mut World, run: RunId, asked: Option<u64>) -> Millis {
    world.attempt(run, "a", Report::Defer { asked: asked.map(Millis::seconds), lacking: Some("GPU".into()) });
    let UnitState::Waiting(Waiting::Again { due, by: ResumedBy::Defer, .. }) = world.unit(run, "a").state
    else {
        panic!("it was deferred: {:?}", world.unit(run, "a").state);
    };
    let delay = due.since(world.now);
    world.pass(Millis(delay.0 - 1));
    assert_eq!(world.step(run, "a"), "waiting");
    world.pass(Millis(1));
    assert_eq!(world.step(run, "a"), "ready");
    delay
}

#[test]
fn the_wait_grows_to_its_cap_unless_the_worker_knows_better() {
    // The step, how long its workers ask for each time, and how long it waits each time, in seconds.
    type Case = (&'static str, fn() -> StepBuilder, &'static [Option<u64>], &'static [u64]);
    let cases: [Case; 6] = [
        ("the defaults", || step("a"), &[None; 7], &[30, 60, 120, 240, 480, 600, 600]),
        (
            "of its own",
            || {
                step("a").change(|step| {
                    step.defer.delay = Millis::seconds(10);
                    step.defer.multiplier = 3.0;
                    step.defer.max_delay = Millis::seconds(50);
                })
            },
            &[None; 4],
            &[10, 30, 50, 50],
        ),
        ("what the worker asks for", || step("a"), &[Some(7), Some(3_600), None], &[7, 3_600, 120]),
        ("not sooner than the minimum delay", || step("a"), &[Some(0)], &[1]),
        (
            "a minimum delay of its own",
            || step("a").change(|step| step.limits.minimum_delay = Millis::seconds(45)),
            &[None, None],
            &[45, 60],
        ),
        (
            "not beyond what is left of the limit",
            || step("a").change(|step| step.defer.limit = Millis::seconds(100)),
            &[None, None, None],
            &[30, 60, 10],
        ),
    ];
    for (name, make, asked, waits) in cases {
        let (mut world, run) = world_of(make());
        for (place, (asked, waits)) in asked.iter().zip(waits).enumerate() {
            assert_eq!(defer(&mut world, run, *asked), Millis::seconds(*waits), "{name}: {place}");
        }
        // Each has the next number; nothing else is used up.
        let unit = world.unit(run, "a");
        let ended = u32::try_from(asked.len()).unwrap();
        assert_eq!((unit.attempts, unit.round.stalled, unit.round.stuck), (ended + 1, 0, 0), "{name}");
        assert_eq!(unit.round.deferrals, ended, "{name}");
    }
}

#[test]
fn over_the_limit_it_goes_on_as_stalled_and_nobody_is_blamed() {
    let short = |step: StepBuilder| step.change(|step| step.defer.limit = Millis::seconds(50));
    let cases: [(&str, StepBuilder, (&str, RunState)); 4] = [
        ("none", short(step("a")), ("error", RunState::Error)),
        ("retry", short(step("a").retry(Some(2), 5)), ("waiting", RunState::Waiting)),
        ("hold", short(step("a").hold(None)), ("held", RunState::Held)),
        ("failOnError: false", short(step("a").goes_on()), ("failed", RunState::Running)),
    ];
    for (name, make, leaves) in cases {
        let (mut world, run) = world_of(make);
        assert_eq!(defer(&mut world, run, None), Millis::seconds(30), "{name}");
        assert_eq!(defer(&mut world, run, None), Millis::seconds(20), "{name}");
        let says = Report::Defer { asked: None, lacking: Some("GPU".into()) };
        world.attempt(run, "a", says);
        assert_eq!((world.step(run, "a"), world.state(run)), leaves, "{name}");
        let unit = world.unit(run, "a");
        let Some(Outcome::Stalled(error)) = unit.last_outcome() else { panic!("stalled: {unit:?}") };
        assert_eq!(&*error.cause, "deferred for longer than 50s (defer.limit): GPU");
        assert_eq!((error.reason, unit.round.stalled), (Reason::Capacity, 1), "{name}");
    }
}

#[test]
fn the_limit_is_of_one_round() {
    let (mut world, run) = world_of(step("a").change(|step| step.defer.limit = Millis::seconds(30)));
    for round in 1..=3 {
        assert_eq!(defer(&mut world, run, None), Millis::seconds(30));
        world.attempt(run, "a", lacking());
        assert_eq!((world.step(run, "a"), world.unit(run, "a").round.number), ("error", round));
        world.resume(run, "a").expect("resumed");
    }
    world.attempt(run, "a", done());
    assert_eq!(world.step(run, "b"), "ready");
}

#[test]
fn a_stall_between_two_deferrals_gives_no_time_back() {
    let make = step("a").retry(Some(5), 1).change(|step| step.defer.limit = Millis::seconds(40));
    let (mut world, run) = world_of(make);
    assert_eq!(defer(&mut world, run, None), Millis::seconds(30));
    world.attempt(run, "a", stall("x"));
    world.pass(Millis::seconds(1));
    assert_eq!(defer(&mut world, run, None), Millis::seconds(10));
    world.attempt(run, "a", lacking());
    assert_eq!(world.unit(run, "a").round.stalled, 2);
}

#[test]
fn what_is_deferred_in_a_failing_run_just_ends() {
    let steps = vec![step("a").needs(&[]), step("b").needs(&[])];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    let a = world.begin(run, "a");
    world.attempt(run, "b", fatal("broken"));
    world.say(a, lacking()).expect("recorded");
    assert_eq!((world.step(run, "a"), world.state(run)), ("cancelled", RunState::Failed));
}
