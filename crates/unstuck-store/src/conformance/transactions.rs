//! Transactions: what is locked comes back, what is staged is seen at once, what goes wrong leaves nothing.

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::UnitRef;

use crate::conformance::contents::contents;
use crate::conformance::driver::{Ask, Driver, user, worker};
use crate::conformance::flows::{action, sequence};
use crate::conformance::steps::runs_of;
use crate::conformance::{TestStore, settle};
use crate::contract::{Locked, Stage, StoreError};

/// Locking gives runs as they are, in the order that was asked for, and says which are not there.
pub fn a_lock_gives_runs_in_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    let (one, two) = (driver.run(first), driver.run(second));
    driver.begin().expect("begins");
    let locked = driver.lock(&[second, RunId(5), first]).expect("locks");
    assert_eq!(locked, [Locked::Here(Box::new(two)), Locked::Absent, Locked::Here(Box::new(one))]);
    driver.abandon(runs_of(locked));
}

/// The next transaction sees what the last one staged, durable or not.
pub fn a_staged_batch_is_seen_at_once<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    driver.work(run, 0);
    driver.say(run, 0, Report::Complete { output: Json::NULL });
    assert_eq!(driver.run(run).state(), RunState::Completed);
    assert_eq!(driver.run(run).seq, 4);
}

/// Every stage settles, once, in order.
pub fn stages_settle_in_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let mut staged = Vec::new();
    for _ in 0..5 {
        let ask = driver.start_of(&flow, |_| {});
        staged.push(driver.attempt_all(vec![ask]).expect("staged").0);
    }
    assert!(staged.is_sorted() && staged[0] != staged[4], "they grow: {staged:?}");
    let mut settled = Vec::new();
    while settled.len() < staged.len() {
        let more = driver.store.settle(true);
        assert!(!more.is_empty() && more.iter().all(|settled| settled.result == Ok(())), "{more:?}");
        settled.extend(more.into_iter().map(|settled| settled.stage));
    }
    assert_eq!(settled, staged);
    assert!(driver.store.settle(true).is_empty(), "nothing is outstanding, so nothing is waited for");
    assert!(driver.store.settle(false).is_empty());
}

/// Runs that were only locked are given back, with or without changes of others.
pub fn what_was_only_locked_comes_back_as_it_was<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    let before = driver.run(first);
    driver.begin().expect("begins");
    let refused = Command::Resume { unit: None, by: user(), reason: None, changes: Box::default() };
    let asks = vec![
        Ask { run: first, command: refused, flow: None },
        Ask { run: second, command: pause(), flow: None },
    ];
    let batch = driver.decide(asks).expect("decides");
    assert_eq!(batch.stage.unchanged.len(), 1);
    driver.stage(batch.stage).expect("stages");
    assert_eq!(driver.run(first), before);
    assert_eq!(driver.run(second).state(), RunState::Paused);
    assert_eq!(driver.act(first, pause()), unstuck_core::decide::Answer::Done, "it can be locked again");
}

/// An abandoned transaction leaves everything as it was, and the runs can be locked again.
pub fn an_abandoned_transaction_changes_nothing<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy_store(make());
    let before = contents(&mut driver.store, driver.flows.values());
    driver.begin().expect("begins");
    let ids: Vec<RunId> = before.states().into_iter().map(|(id, _)| id).collect();
    let locked = driver.lock(&ids).expect("locks");
    driver.abandon(runs_of(locked));
    assert_eq!(contents(&mut driver.store, driver.flows.values()), before);
    driver.act(oldest(&ids), pause());
}

/// A transaction that is rolled back leaves everything as it was, whatever was decided in it.
pub fn a_rolled_back_transaction_changes_nothing<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy_store(make());
    let before = contents(&mut driver.store, driver.flows.values());
    let runs: Vec<RunId> = before.states().into_iter().map(|(id, _)| id).collect();
    driver.begin().expect("begins");
    let asks = runs.iter().map(|run| Ask { run: *run, command: pause(), flow: None }).collect();
    let batch = driver.decide(asks).expect("decides");
    drop(batch);
    driver.rollback();
    driver.rollback();
    assert_eq!(contents(&mut driver.store, driver.flows.values()), before);
    driver.act(oldest(&runs), pause());
}

/// A stage that breaks an invariant is refused as a whole; the transaction has ended, and nothing has happened.
pub fn a_refused_stage_changes_nothing<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy_store(make());
    let flow = driver.flows.values().next().expect("a flow").clone();
    driver.start_with(&flow, |start| start.key = Some("k".into()));
    let before = contents(&mut driver.store, driver.flows.values());
    let runs: Vec<RunId> = before.states().into_iter().map(|(id, _)| id).collect();
    let mut asks: Vec<Ask> = runs.iter().map(|run| Ask { run: *run, command: pause(), flow: None }).collect();
    asks.push(driver.start_of(&flow, |_| {}));
    asks.push(driver.start_of(&flow, |start| start.key = Some("k".into())));
    let result = driver.attempt_all(asks);
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    driver.rollback();
    assert_eq!(contents(&mut driver.store, driver.flows.values()), before);
    driver.act(oldest(&runs), pause());
}

/// A store that has no room, or is away, says so; the same batch succeeds when that has passed.
pub fn a_stage_that_fails_for_now_succeeds_later<S: TestStore>(make: &mut dyn FnMut() -> S) {
    for error in [StoreError::Full("disk".into()), StoreError::Away("network".into())] {
        let mut driver = busy_store(make());
        if !driver.store.refuse_stage(error.clone()) {
            return;
        }
        let before = contents(&mut driver.store, driver.flows.values());
        let runs: Vec<RunId> = before.states().into_iter().map(|(id, _)| id).collect();
        let run = oldest(&runs);
        let ask = Ask { run, command: pause(), flow: None };
        assert_eq!(driver.attempt_all(vec![ask.clone()]).err(), Some(error));
        assert_eq!(contents(&mut driver.store, driver.flows.values()), before);
        driver.all(vec![ask]);
        assert_eq!(driver.run(run).state(), RunState::Paused);
    }
}

/// A stage without changes is a stage.
pub fn an_empty_stage_settles<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    driver.begin().expect("begins");
    driver.stage(Stage { at: driver.now, ..Stage::default() }).expect("stages");
    assert_eq!(settle(&mut driver.store, 1), []);
    assert_eq!(driver.store.last_time(), Ok(Some(driver.now)));
}

/// The time of the last stage is known, and the ids, which do not go back.
pub fn the_last_time_and_id_are_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    assert_eq!(driver.store.last_time(), Ok(None));
    assert_eq!(driver.store.last_id(), Ok(0));
    let mut stage = |at, last_id| {
        driver.begin().expect("begins");
        let at = unstuck_core::time::Time(at);
        driver.stage(Stage { at, last_id, ..Stage::default() }).expect("stages");
        (driver.store.last_time().expect("reads").map(|time| time.0), driver.store.last_id().expect("reads"))
    };
    assert_eq!(stage(1_000, 70), (Some(1_000), 70));
    assert_eq!(stage(2_000, 0), (Some(2_000), 70), "a batch may give out no ids");
    assert_eq!(stage(1_500, 71), (Some(1_500), 71), "a clock may be set back");
}

/// A store with something of everything: queued, active, waiting, final, with a lease that has moved.
pub(crate) fn busy_store<S: TestStore>(store: S) -> Driver<S> {
    let mut driver = Driver::new(store);
    let flow = driver.keep(sequence("busy", vec![action("a"), action("b")]));
    driver.start(&flow);
    let active = driver.start(&flow);
    driver.work(active, 0);
    driver.pass(unstuck_core::time::Millis(1_500));
    driver.say(active, 0, Report::Heartbeat { progress: None });
    let waiting = driver.start(&flow);
    driver.work(waiting, 0);
    driver.say(waiting, 0, Report::Defer { asked: None, lacking: None });
    let done = driver.start_with(&flow, |start| start.key = Some("done".into()));
    for step in 0..2 {
        let unit = UnitRef::step(StepIndex(step));
        driver.act(done, Command::Claim { unit, worker: worker("w") });
        let attempt = AttemptId { run: done, generation: 1, unit, attempt: 1 };
        let output = crate::conformance::driver::large("output");
        driver.act(done, Command::Report { attempt, report: Report::Complete { output } });
    }
    driver
}

pub(crate) fn pause() -> Command {
    Command::Pause { by: user(), reason: None }
}

/// The oldest run of a list, newest first: the one of a busy store that is queued.
pub(crate) fn oldest(runs: &[RunId]) -> RunId {
    *runs.last().expect("there are runs")
}
