//! What is due: in order of time, until a stage changes it; and how signs of life move it.

use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Withheld;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::flow::{Deadline, Flow, Kind, Step, StepIndex, WaitFor};
use unstuck_core::model::recovery::Limits;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::{Millis, Time};

use crate::conformance::TestStore;
use crate::conformance::driver::{Ask, Driver, user, worker};
use crate::conformance::flows::{action, each, graph, sequence, step};
use crate::conformance::restarts::settle_all;
use crate::conformance::sessions::session;
use crate::conformance::transactions::pause;
use crate::contract::Due;

/// What is due is given in order of time, then of run and unit, and no more of it than is asked for.
pub fn timers_come_in_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![waits(30), waits(10), waits(30)]));
    let start = driver.now;
    assert_eq!(driver.store.next_due(), Ok(None));
    let first = driver.start(&flow);
    let second = driver.start(&flow);
    driver.pass(Millis(5));
    let third = driver.start(&flow);
    let expected = [
        (10, first, 1),
        (10, second, 1),
        (15, third, 1),
        (30, first, 0),
        (30, first, 2),
        (30, second, 0),
        (30, second, 2),
        (35, third, 0),
        (35, third, 2),
    ];
    let expected = expected.map(|(due, run, step)| due_at(start, due, run, step));
    assert_eq!(driver.store.next_due(), Ok(Some(start + Millis(10))));
    for (now, count) in [(9, 0), (10, 2), (14, 2), (15, 3), (34, 7), (35, 9), (1_000_000, 9)] {
        let found = driver.store.due(start + Millis(now), usize::MAX).expect("reads");
        assert_eq!(found, expected[..count], "at {now}");
    }
    for limit in 0..=expected.len() {
        let found = driver.store.due(Time(i64::MAX), limit).expect("reads");
        assert_eq!(found, expected[..limit], "at most {limit}");
    }
}

/// What is withheld is not due any more and is not waited for, until it is changed or another session begins.
pub fn what_is_withheld_is_not_due<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![waits(10), waits(20)]));
    let start = driver.now;
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    let withheld = due_at(start, 10, first, 0);
    driver.store.withhold(&withheld, Withheld::ForHome);
    let expected = [due_at(start, 10, second, 0), due_at(start, 20, first, 1), due_at(start, 20, second, 1)];
    assert_eq!(driver.store.due(start + Millis(99), 9).expect("reads"), expected);
    driver.store.withhold(&expected[0], Withheld::ForHome);
    assert_eq!(driver.store.next_due(), Ok(Some(start + Millis(20))));
    // Whatever else happens to its run, it stays withheld as long as its time is the same.
    driver.act(first, Command::Signal { name: "s".into(), payload: Json::NULL, by: user() });
    assert_eq!(driver.store.due(start + Millis(99), 9).expect("reads"), expected[1..]);
    // Its timer is another one after a pause.
    driver.act(first, pause());
    driver.act(first, Command::Unpause { by: user() });
    let found = driver.store.due(start + Millis(99), 9).expect("reads");
    assert_eq!(found, [withheld, expected[1], expected[2]]);
    settle_all(&mut driver);
    let mut store = driver.split().0.reopen();
    store.open_session(session([7; 32])).expect("begins");
    let found = store.due(start + Millis(99), 9).expect("reads");
    assert_eq!(found, [withheld, expected[0], expected[1], expected[2]]);
}

/// What waits for a turn is not due, comes back in the order in which it was due, as much of it as is asked for, and is
/// listed with the other timers all the time. Another session is given all of it.
pub fn what_waits_for_a_turn_comes_back_in_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![waits(20), waits(10), waits(30)]));
    let start = driver.now;
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    let all = driver.store.due(start + Millis(99), 9).expect("reads");
    let times: Vec<(Time, RunId)> = all.iter().map(|due| (due.due, due.run)).collect();
    assert_eq!(
        times[..3],
        [(start + Millis(10), first), (start + Millis(10), second), (start + Millis(20), first)]
    );
    for due in all[..4].iter().rev() {
        driver.store.withhold(due, Withheld::ForTurn);
    }
    assert_eq!(driver.store.due(start + Millis(99), 9).expect("reads"), all[4..]);
    assert_eq!(driver.store.next_due(), Ok(Some(start + Millis(30))));
    assert_eq!(driver.store.timers(None, 9).expect("reads"), all, "they are listed all the same");
    assert_eq!(driver.store.release_withheld(0), 0);
    assert_eq!(driver.store.release_withheld(1), 1);
    let found = driver.store.due(start + Millis(99), 9).expect("reads");
    assert_eq!(found, [all[0], all[4], all[5]]);
    // What is over waits for nothing.
    driver.act(second, Command::Cancel { by: user(), reason: None });
    assert_eq!(driver.store.release_withheld(9), 1);
    let found = driver.store.due(start + Millis(99), 9).expect("reads");
    assert_eq!(found, [all[0], all[2], all[4]]);
    driver.store.withhold(&all[0], Withheld::ForTurn);
    settle_all(&mut driver);
    let mut store = driver.split().0.reopen();
    store.open_session(session([7; 32])).expect("begins");
    assert_eq!(store.due(start + Millis(99), 9).expect("reads"), [all[0], all[2], all[4]]);
    assert_eq!(store.release_withheld(9), 0);
}

/// An entry stays until its run has done something about it.
pub fn a_timer_stays_until_it_is_changed<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![waits(10), waits(20)]));
    let start = driver.now;
    let run = driver.start(&flow);
    driver.pass(Millis(12));
    let expected = [due_at(start, 10, run, 0)];
    assert_eq!(driver.store.due(driver.now, 9).expect("reads"), expected);
    assert_eq!(driver.store.due(driver.now, 9).expect("reads"), expected);
    driver.act(run, Command::Due { unit: expected[0].unit, heard: None });
    assert_eq!(driver.store.due(driver.now, 9), Ok(vec![]));
    assert_eq!(driver.store.next_due(), Ok(Some(start + Millis(32))), "the next step waits from now on");
}

/// A claim, a start and an end replace the timer of their unit.
pub fn a_timer_is_replaced_and_removed<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let limits = Limits {
        queue_timeout: Some(Millis(100)),
        start_timeout: Millis(200),
        heartbeat_timeout: Some(Millis(300)),
        ..Limits::default()
    };
    let flow = driver.keep(sequence("f", vec![Step { limits, ..action("q") }]));
    let start = driver.now;
    let run = driver.start(&flow);
    let due = |driver: &mut Driver<S>| driver.store.due(Time(i64::MAX), 9).expect("reads");
    assert_eq!(due(&mut driver), [due_at(start, 100, run, 0)]);
    driver.pass(Millis(7));
    driver.claim(run, 0);
    assert_eq!(due(&mut driver), [due_at(start, 207, run, 0)]);
    driver.pass(Millis(7));
    driver.say(run, 0, Report::Start);
    assert_eq!(due(&mut driver), [due_at(start, 314, run, 0)]);
    driver.say(run, 0, Report::Complete { output: Json::NULL });
    assert_eq!(due(&mut driver), []);
    assert_eq!(driver.store.next_due(), Ok(None));
}

/// A sign of life moves the timer, and is told when it comes due; the next attempt begins without one.
pub fn a_lease_moves_with_signs_of_life<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![leased(1_000)]));
    let start = driver.now;
    let run = driver.start(&flow);
    driver.work(run, 0);
    for beat in [100, 350] {
        driver.now = start + Millis(beat);
        let before = driver.run(run);
        driver.say(run, 0, Report::Heartbeat { progress: None });
        assert_eq!(driver.run(run), before, "a heartbeat is no event");
        let heard = Some(driver.now);
        let expected = [Due { heard, ..due_at(start, beat + 1_000, run, 0) }];
        assert_eq!(driver.store.due(Time(i64::MAX), 9).expect("reads"), expected);
    }
    assert_eq!(driver.store.due(start + Millis(1_000), 9), Ok(vec![]), "it was due here before it was moved");
    driver.now = start + Millis(1_350);
    let due = driver.store.due(driver.now, 9).expect("reads")[0];
    driver.act(run, Command::Due { unit: due.unit, heard: due.heard });
    driver.pass(Millis(1_000));
    driver.act(run, Command::Due { unit: due.unit, heard: None });
    driver.work(run, 0);
    let due = driver.store.due(Time(i64::MAX), 9).expect("reads")[0];
    assert_eq!((due.due, due.heard), (driver.now + Millis(1_000), None), "another attempt, another lease");
}

/// A lease that was moved stays so when the wakeups of its run are derived again for another reason.
pub fn a_moved_lease_outlives_other_changes<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![leased(1_000), action("other")]));
    let run = driver.start(&flow);
    driver.work(run, 0);
    driver.pass(Millis(700));
    driver.say(run, 0, Report::Heartbeat { progress: None });
    let moved = Due {
        due: driver.now + Millis(1_000),
        run,
        unit: Some(UnitRef::step(StepIndex(0))),
        heard: Some(driver.now),
    };
    driver.pass(Millis(100));
    driver.act(run, pause());
    assert_eq!(driver.store.due(Time(i64::MAX), 9), Ok(vec![moved]));
    driver.act(run, Command::Unpause { by: user() });
    driver.act(run, Command::Due { unit: moved.unit, heard: moved.heard });
    assert_eq!(driver.store.due(Time(i64::MAX), 9), Ok(vec![moved]));
    driver.say(run, 0, Report::Heartbeat { progress: Some(Json::NULL) });
    let due = driver.store.due(Time(i64::MAX), 9).expect("reads")[0];
    assert_eq!(
        (due.due, due.heard),
        (driver.now + Millis(1_000), None),
        "progress is an event: it sets the timer"
    );
}

/// A clock that is set moves the leases of a run, with the signs of life that have moved them, when the run takes it in: they
/// have as long to go as before, and the next sign of life moves them by the clock as it is now.
pub fn a_clock_that_is_set_moves_leases<S: TestStore>(make: &mut dyn FnMut() -> S) {
    const HOUR: i64 = 3_600_000;
    for by in [-9 * HOUR, 9 * HOUR, -1] {
        let mut driver = Driver::new(make());
        let flow = driver.keep(graph("f", vec![leased(1_000), leased(1_000), action("other")]));
        let run = driver.start(&flow);
        driver.work(run, 0);
        driver.work(run, 1);
        driver.pass(Millis(700));
        driver.say(run, 0, Report::Heartbeat { progress: None });
        driver.set_clock(by);
        let lease = |driver: &Driver<S>, step: u16, left: u64, heard: bool| Due {
            heard: heard.then_some(driver.now),
            ..due_at(driver.now, left, run, step)
        };
        // Whatever is asked of it first: here it is paused.
        driver.act(run, pause());
        let moved = [lease(&driver, 1, 300, false), lease(&driver, 0, 1_000, true)];
        assert_eq!(driver.store.due(Time(i64::MAX), 9), Ok(moved.to_vec()), "by {by}");
        driver.pass(Millis(100));
        driver.say(run, 0, Report::Heartbeat { progress: None });
        let moved = [moved[0], lease(&driver, 0, 1_000, true)];
        assert_eq!(driver.store.due(Time(i64::MAX), 9), Ok(moved.to_vec()), "by {by}: a sign of life");
        settle_all(&mut driver);
        let mut store = driver.split().0.reopen();
        assert_eq!(store.due(Time(i64::MAX), 9), Ok(moved.to_vec()), "by {by}: opened again");
    }
}

/// A start and a sign of life in one batch: the start sets the timer, and later signs of life move it.
pub fn a_lease_begins_with_the_start<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![leased(1_000)]));
    let run = driver.start(&flow);
    driver.claim(run, 0);
    driver.pass(Millis(10));
    let attempt = driver.attempt(run, UnitRef::step(StepIndex(0)));
    let says = |says| Ask { run, command: Command::Report { attempt, report: says }, flow: None };
    driver.all(vec![says(Report::Start), says(Report::Heartbeat { progress: None })]);
    assert_eq!(driver.store.next_due(), Ok(Some(driver.now + Millis(1_000))));
    driver.pass(Millis(500));
    driver.say(run, 0, Report::Heartbeat { progress: None });
    driver.act(run, pause());
    let due = driver.store.due(Time(i64::MAX), 9).expect("reads");
    assert_eq!(
        due.iter().map(|due| (due.due, due.heard)).collect::<Vec<_>>(),
        [(driver.now + Millis(1_000), Some(driver.now))]
    );
}

/// A sign of life and an end in one batch: the lease is gone with the attempt.
pub fn a_lease_ends_with_its_attempt<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![leased(1_000), action("next")]));
    let run = driver.start(&flow);
    driver.work(run, 0);
    driver.pass(Millis(10));
    let attempt = driver.attempt(run, UnitRef::step(StepIndex(0)));
    let says = |says| Ask { run, command: Command::Report { attempt, report: says }, flow: None };
    let beat = says(Report::Heartbeat { progress: None });
    driver.all(vec![beat.clone(), says(Report::Defer { asked: Some(Millis(5)), lacking: None })]);
    let due = driver.store.due(Time(i64::MAX), 9).expect("reads");
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].heard, None, "it waits to be tried again: {due:?}");
}

/// The timer of the run itself is its deadline; the units have their own.
pub fn a_run_has_a_timer_of_its_own<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = sequence("f", vec![waits(100)]);
    let flow = driver.keep(Flow { deadline: Some(Deadline::After(Millis(40))), ..flow });
    let start = driver.now;
    let run = driver.start(&flow);
    let own = Due { due: start + Millis(40), run, unit: None, heard: None };
    assert_eq!(driver.store.due(Time(i64::MAX), 9), Ok(vec![own, due_at(start, 100, run, 0)]));
    driver.pass(Millis(40));
    driver.act(run, Command::Due { unit: None, heard: None });
    assert_eq!(
        driver.store.due(Time(i64::MAX), 9),
        Ok(vec![]),
        "the run is over, and all its timers with it"
    );
}

/// A run that stops has no timers left but those of its attempts; one that goes on has them again.
pub fn what_is_not_listed_is_removed<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let local = Worker { local: true, ..worker("w") };
    let flow = driver.keep(graph("f", vec![waits(100), each("q", 3), waits(200)]));
    let run = driver.start(&flow);
    for item in [0, 2] {
        let unit = UnitRef::item(StepIndex(1), item);
        driver.act(run, Command::Claim { unit, worker: local.clone() });
    }
    let units = |driver: &mut Driver<S>| -> Vec<(u16, Option<u32>)> {
        let due = driver.store.due(Time(i64::MAX), 99).expect("reads");
        due.iter().filter_map(|due| due.unit).map(|unit| (unit.step.0, unit.item)).collect()
    };
    assert_eq!(units(&mut driver), [(0, None), (2, None), (1, Some(0)), (1, Some(2))]);
    driver.act(run, pause());
    assert_eq!(units(&mut driver), [(1, Some(0)), (1, Some(2))]);
    driver.act(run, Command::Unpause { by: user() });
    assert_eq!(units(&mut driver), [(0, None), (2, None), (1, Some(0)), (1, Some(2))]);
    driver.act(run, Command::Cancel { by: user(), reason: None });
    assert_eq!(units(&mut driver), []);
}

pub(crate) fn waits(millis: u64) -> Step {
    step("wait", Kind::Wait(WaitFor::Span(Millis(millis))))
}

/// Another attempt may be planned for the time of the one before it, as when the clock is behind and time stands still.
pub fn an_attempt_inherits_no_sign_of_life<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![leased(1_000)]));
    let run = driver.start(&flow);
    driver.work(run, 0);
    driver.say(run, 0, Report::Heartbeat { progress: None });
    driver.say(run, 0, Report::Release);
    driver.work(run, 0);
    let start = driver.now;
    assert_eq!(driver.store.due(Time(i64::MAX), 9), Ok(vec![due_at(start, 1_000, run, 0)]));
    settle_all(&mut driver);
    let mut store = driver.split().0.reopen();
    assert_eq!(store.due(Time(i64::MAX), 9), Ok(vec![due_at(start, 1_000, run, 0)]), "after a restart");
}

fn leased(millis: u64) -> Step {
    let limits = Limits { heartbeat_timeout: Some(Millis(millis)), ..Limits::default() };
    Step { limits, ..action("q") }
}

fn due_at(start: Time, due: u64, run: RunId, step: u16) -> Due {
    Due { due: start + Millis(due), run, unit: Some(UnitRef::step(StepIndex(step))), heard: None }
}
