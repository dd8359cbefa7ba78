//! What a bulk action is told of the steps that it has resumed: once, and only when it is certain.

use crate::flows::{StepBuilder, flow, step};
use crate::support::{World, done, fatal, lacking, operator, stall};
use unstuck_core::bulk::{BulkOutcome, BulkRef, TargetResult};
use unstuck_core::command::{Changes, Command};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::time::Millis;

const TARGET: BulkRef = BulkRef { bulk: BulkId(9), place: 4 };

/// A run whose step `a` is in error and was resumed by a bulk action.
fn resumed(make: StepBuilder) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", vec![make, step("b")])]);
    let run = world.start("f");
    while world.step(run, "a") != "error" {
        world.attempt(run, "a", stall("first"));
        world.pass(Millis::seconds(1));
    }
    let changes = Changes { bulk: Some(TARGET), ..Changes::default() };
    let resume = Command::Resume { unit: None, by: operator(), reason: None, changes: Box::new(changes) };
    world.ask(run, resume).expect("resumed");
    assert_eq!(world.outcomes, []);
    (world, run)
}

fn failed(cause: &str) -> Vec<BulkOutcome> {
    vec![BulkOutcome { target: TARGET, result: TargetResult::FailedAgain { cause: cause.into() } }]
}

fn passed() -> Vec<BulkOutcome> {
    vec![BulkOutcome { target: TARGET, result: TargetResult::Passed }]
}

#[test]
fn it_is_told_how_the_step_came_out() {
    let cases = [
        ("completed", step("a"), done(), passed()),
        ("stalled", step("a"), stall("again"), failed("again")),
        ("fatal", step("a"), fatal("gone"), failed("gone")),
        // Its own strategy tries again first, and what lacks resources waits.
        ("retried", step("a").retry(Some(2), 1), stall("again"), vec![]),
        ("deferred", step("a"), lacking(), vec![]),
    ];
    for (name, make, says, wanted) in cases {
        let (mut world, run) = resumed(make);
        world.attempt(run, "a", says);
        assert_eq!(world.outcomes, wanted, "{name}");
    }
}

#[test]
fn it_is_told_once() {
    let (mut world, run) = resumed(step("a").retry(Some(2), 1));
    world.attempt(run, "a", stall("again"));
    world.pass(Millis::seconds(1));
    world.attempt(run, "a", done());
    world.attempt(run, "b", done());
    assert_eq!(world.outcomes, passed());
}

#[test]
fn a_later_round_is_not_its_own() {
    let (mut world, run) = resumed(step("a"));
    world.attempt(run, "a", stall("again"));
    world.resume(run, "a").expect("resumed");
    world.attempt(run, "a", done());
    assert_eq!(world.outcomes, failed("again"));
}

#[test]
fn what_ends_under_it_has_not_passed() {
    let (mut world, run) = resumed(step("a"));
    world.cancel(run).expect("cancelled");
    assert_eq!(world.outcomes, failed("first"));
}

#[test]
fn what_somebody_else_does_by_hand_has_passed() {
    let (mut world, run) = resumed(step("a"));
    let unit = world.unit_ref(run, "a");
    world.ask(run, Command::Skip { unit, by: operator(), reason: None }).expect("skipped");
    assert_eq!(world.outcomes, passed());
}
