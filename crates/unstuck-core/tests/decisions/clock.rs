//! A clock that is set, by hours or years, forward or back: lengths of time stay as long, and instants stay where they are.

use crate::flows::{flow, step};
use crate::support::{BEGIN, World, remote};
use unstuck_core::command::{Command, Report, Rerun};
use unstuck_core::errors::{OpenError, changed_open_errors};
use unstuck_core::event::{Actor, Fact};
use unstuck_core::evolve::replay;
use unstuck_core::id::RunId;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Deadline, Kind, WaitFor};
use unstuck_core::model::recovery::{BackOff, RetryStrategy};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Millis;

const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * 24 * HOUR;
const SHIFTS: [i64; 6] = [2_500, -2_500, HOUR, -HOUR, 4 * YEAR, -4 * YEAR];

/// What is under way, and 60 s long.
#[derive(Clone, Copy, Debug)]
enum What {
    Queued,
    HandedOut,
    Lease,
    Beaten,
    Timeout,
    Retry,
    Wait,
    Signal,
    Deadline,
}

/// A world in which `what` begins at the beginning of time, and the state of the step until its minute is over.
fn begin(what: What) -> (World, RunId) {
    let minute = Millis::seconds(60);
    let builder = step("a").change(move |step| match what {
        What::Queued => step.limits.queue_timeout = Some(minute),
        What::HandedOut => step.limits.start_timeout = minute,
        What::Lease | What::Beaten => step.limits.heartbeat_timeout = Some(minute),
        What::Timeout => step.limits.timeout = Some(minute),
        What::Retry => step.retry = retry(minute),
        What::Wait => (step.kind, step.queue) = (Kind::Wait(WaitFor::Span(minute)), "".into()),
        What::Signal => {
            (step.kind, step.queue) = (Kind::Signal("s".into()), "".into());
            step.limits.timeout = Some(minute);
        }
        What::Deadline => {}
    });
    let mut made = flow("f", vec![builder]);
    if let What::Deadline = what {
        made.deadline = Some(Deadline::After(minute));
    }
    if let What::Lease | What::Beaten = what {
        made.steps[0].limits.timeout = None;
    }
    let mut world = World::new(vec![made]);
    let run = world.start("f");
    match what {
        What::Queued | What::Wait | What::Signal | What::Deadline => {}
        What::HandedOut => drop(world.claim(run, "a", &remote("r")).expect("claimed")),
        What::Lease | What::Timeout => drop(world.begin(run, "a")),
        What::Beaten => {
            let attempt = world.begin(run, "a");
            world.say(attempt, Report::Heartbeat { progress: None }).expect("heard");
        }
        What::Retry => {
            let error = Box::new(Error::new("no"));
            world.attempt(run, "a", Report::Fail { error, fatal: false });
        }
    }
    (world, run)
}

fn retry(after: Millis) -> RetryStrategy {
    RetryStrategy::Retry { max_attempts: Some(9), back_off: Some(BackOff::fixed(after)) }
}

fn seen(world: &World, run: RunId) -> (String, u64, bool) {
    let state = &world.runs[&run];
    (
        world.step(run, "a").to_string(),
        state.unit(world.unit_ref(run, "a")).expect("there").attempts.into(),
        state.is_final(),
    )
}

#[test]
fn lengths_of_time_stay_as_long_whatever_the_clock_is_set_to() {
    use What::{Beaten, Deadline, HandedOut, Lease, Queued, Retry, Signal, Timeout, Wait};
    for what in [Queued, HandedOut, Lease, Beaten, Timeout, Retry, Wait, Signal, Deadline] {
        for by in SHIFTS {
            let (mut world, run) = begin(what);
            world.pass(Millis::seconds(20));
            world.set_clock(by);
            let before = seen(&world, run);
            world.pass(Millis(39_999));
            assert_eq!(seen(&world, run), before, "{what:?} by {by}: a millisecond before");
            world.pass(Millis(1));
            assert_ne!(seen(&world, run), before, "{what:?} by {by}: its minute is over");
            assert_eq!(replay(&world.history[&run]), world.runs.get(&run).cloned(), "{what:?} by {by}");
            let times: Vec<_> = world.history[&run].iter().map(|event| event.at).collect();
            assert!(times.is_sorted(), "{what:?} by {by}: recorded time never goes back: {times:?}");
        }
    }
}

#[test]
fn instants_that_people_gave_are_the_walls() {
    let instant = BEGIN + Millis::hours(10);
    for by in [HOUR, -HOUR, 4 * HOUR] {
        let until = move || (Kind::Wait(WaitFor::Until(instant)), "".into());
        let wait = step("a").change(move |step| (step.kind, step.queue) = until());
        let mut late = flow("late", vec![step("a")]);
        late.deadline = Some(Deadline::At(instant));
        let mut world = World::new(vec![flow("f", vec![wait]), late]);
        for name in ["f", "late"] {
            world.now = BEGIN;
            world.clock = 0;
            let run = world.start(name);
            world.pass(Millis::hours(1));
            world.set_clock(by);
            world.pass(instant.since(world.now + Millis(1)));
            assert!(!world.runs[&run].is_final(), "{name} by {by}");
            world.pass(Millis(1));
            assert!(world.runs[&run].is_final(), "{name} by {by}");
        }
    }
}

#[test]
fn a_correction_is_recorded_once_by_what_it_comes_to_and_a_refusal_changes_nothing() {
    let (mut world, run) = begin(What::Wait);
    world.clock += HOUR;
    world.now = world.now.shifted(HOUR);
    let resume = Command::Pause { by: Actor::Engine, reason: None };
    let refused = Command::Choose {
        unit: world.unit_ref(run, "a"),
        choice: unstuck_core::event::Choice::Retry,
        by: Actor::Engine,
        bulk: None,
    };
    assert!(world.ask(run, refused).is_err());
    world.clock -= 3 * HOUR;
    world.now = world.now.shifted(-3 * HOUR);
    world.ask(run, resume).expect("paused");
    world.ask(run, Command::Unpause { by: Actor::Engine }).expect("goes on");
    let facts = world.history[&run].iter().flat_map(|event| &event.facts);
    let shifts: Vec<i64> = facts
        .filter_map(|fact| if let Fact::ClockCorrected { by } = fact { Some(*by) } else { None })
        .collect();
    assert_eq!(shifts, [-2 * HOUR]);
    let event = &world.history[&run][1];
    assert_eq!((event.at, event.time()), (BEGIN, BEGIN.shifted(-2 * HOUR)));
}

#[test]
fn whoever_asks_for_what_changes_nothing_has_not_set_the_clock() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    let attempt = world.begin(run, "a");
    world.clock += HOUR;
    world.now = world.now.shifted(HOUR);
    world.say(attempt, Report::Heartbeat { progress: None }).expect("heard");
    let event = world.history[&run].last().expect("there");
    assert_eq!(event.facts, [Fact::ClockCorrected { by: HOUR }]);
    assert_eq!(event.by, Actor::Engine);
}

#[test]
fn what_is_in_error_is_listed_by_the_clock_as_it_is_now() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    world.attempt(run, "a", Report::Fail { error: Box::new(Error::new("no")), fatal: false });
    let before = changed_open_errors(&world.history[&run], &world.runs[&run], &world.flows["f"]);
    world.clock += HOUR;
    world.now = world.now.shifted(HOUR);
    world.ask(run, Command::Pause { by: Actor::Engine, reason: None }).expect("paused");
    let correction = world.history[&run].last().expect("there").clone();
    let after = changed_open_errors(&[correction], &world.runs[&run], &world.flows["f"]);
    let at = |found: &[(UnitRef, Option<OpenError>)]| found[0].1.as_ref().expect("in error").record.at;
    assert_eq!(at(&after), at(&before).shifted(HOUR));
}

#[test]
fn a_rerun_is_told_of_earlier_attempts_by_the_clock_as_it_is_now() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    world.attempt(run, "a", Report::Fail { error: Box::new(Error::new("no")), fatal: true });
    let ended = world.unit(run, "a").past[0].ended_at;
    // Once while it is final, and once while its next generation is under way.
    world.set_clock(HOUR);
    world.ask(run, Command::rerun(Rerun::Continue, Actor::Engine)).expect("it begins again");
    assert_eq!(world.unit(run, "a").earlier[0].past.ended_at, ended.shifted(HOUR));
    world.set_clock(-4 * HOUR);
    world.begin(run, "a");
    assert_eq!(world.unit(run, "a").earlier[0].past.ended_at, ended.shifted(-3 * HOUR));
    assert_eq!(replay(&world.history[&run]), world.runs.get(&run).cloned());
}
