//! Downtime counts against nobody: what the engine slept through is added to leases, `startTimeout` and `queueTimeout`.

use crate::flows::{StepBuilder, flow, step};
use crate::support::{BEGIN, World, remote};
use unstuck_core::command::Report;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Millis;

/// How far the attempt is when the engine goes down.
#[derive(Clone, Copy, Debug)]
enum When {
    Queued,
    HandedOut,
    Started,
}

fn limited() -> StepBuilder {
    step("a").change(|step| {
        step.limits.queue_timeout = Some(Millis::seconds(10));
        step.limits.start_timeout = Millis::seconds(20);
        step.limits.heartbeat_timeout = Some(Millis::seconds(30));
        step.limits.timeout = Some(Millis::hours(10));
    })
}

/// A run at that point, at the beginning of time.
fn at(when: When) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", vec![limited()])]);
    let run = world.start("f");
    if let When::HandedOut | When::Started = when {
        let attempt = world.claim(run, "a", &remote("r")).expect("claimed");
        if let When::Started = when {
            world.say(attempt, Report::Start).expect("started");
        }
    }
    (world, run)
}

/// The engine is down from second to second; the clock goes on, and nothing is decided.
fn down(world: &mut World, from_s: u64, to_s: u64) {
    let time = |s| BEGIN + Millis::seconds(s);
    world.pass(time(from_s).since(world.now));
    world.now = time(to_s);
    world.downtimes.push(Downtime { from: time(from_s), to: time(to_s) });
    world.pass(Millis::ZERO);
}

#[test]
fn each_clock_that_an_answer_would_have_stopped_is_moved_on() {
    // When, from which second to which the engine was down, when the limit is reached.
    let cases = [
        (When::Queued, 4, 3_604, 3_610, "error"),
        (When::HandedOut, 19, 100, 101, "waiting"),
        (When::Started, 5, 10_005, 10_030, "waiting"),
        // It went down before, or its time was over before it went down.
        (When::Started, 5, 6, 31, "waiting"),
    ];
    for (when, from, to, reached, then) in cases {
        let (mut world, run) = at(when);
        let before = world.step(run, "a");
        down(&mut world, from, to);
        assert_eq!(world.step(run, "a"), before, "{when:?}: spared");
        world.pass((BEGIN + Millis::seconds(reached)).since(world.now + Millis(1)));
        assert_eq!(world.step(run, "a"), before, "{when:?}: a millisecond before");
        world.pass(Millis(1));
        assert_eq!(world.step(run, "a"), then, "{when:?}: its time is over");
    }
}

#[test]
fn it_is_recorded_once_for_each_downtime() {
    let (mut world, run) = at(When::Started);
    down(&mut world, 10, 1_000);
    down(&mut world, 1_015, 2_000);
    let spared: Vec<(u64, u64)> = world.history[&run]
        .iter()
        .flat_map(|event| &event.facts)
        .filter_map(|fact| match fact {
            Fact::Unit { fact: UnitFact::LimitExtended { until, by, .. }, .. } => {
                Some((until.since(BEGIN).0 / 1_000, by.0 / 1_000))
            }
            _ => None,
        })
        .collect();
    assert_eq!(spared, [(1_020, 990), (2_005, 985)]);
}

#[test]
fn a_sign_of_life_after_the_downtime_counts_as_ever() {
    let (mut world, run) = at(When::Started);
    down(&mut world, 10, 1_000);
    let attempt = unstuck_core::model::attempt::AttemptId {
        run,
        generation: 1,
        unit: UnitRef::step(unstuck_core::model::flow::StepIndex(0)),
        attempt: 1,
    };
    world.say(attempt, Report::Heartbeat { progress: None }).expect("heard");
    world.pass(Millis(29_999));
    assert_eq!(world.step(run, "a"), "active");
    world.pass(Millis(1));
    assert_eq!(world.step(run, "a"), "waiting");
}

#[test]
fn the_first_sign_of_life_after_the_downtime_is_recorded_and_the_next_one_is_not() {
    let (mut world, run) = at(When::Started);
    let attempt = unstuck_core::model::attempt::AttemptId {
        run,
        generation: 1,
        unit: UnitRef::step(unstuck_core::model::flow::StepIndex(0)),
        attempt: 1,
    };
    down(&mut world, 10, 1_000);
    // At this moment its limit is moved on and it is heard of: what is decided last must hold.
    let mut events = Vec::new();
    for _ in 0..3 {
        world.say(attempt, Report::Heartbeat { progress: None }).expect("heard");
        events.push(world.history[&run].len());
        world.pass(Millis::seconds(20));
        assert_eq!(world.step(run, "a"), "active");
    }
    assert_eq!(events, [events[0]; 3], "one event for the first, none for the others");
    let heard = world.history[&run].iter().flat_map(|event| &event.facts).filter_map(|fact| match fact {
        Fact::Unit { fact: UnitFact::LimitExtended { heard, by: Millis::ZERO, .. }, .. } => *heard,
        _ => None,
    });
    assert_eq!(heard.collect::<Vec<_>>(), [BEGIN + Millis::seconds(1_000)]);
}

#[test]
fn total_timeouts_and_deadlines_are_not_moved() {
    let (mut world, run) = at(When::Started);
    down(&mut world, 10, 36_010);
    assert_eq!(world.step(run, "a"), "waiting", "over its timeout of 10 h");
}
