//! Failures: a stage that does not become durable takes all that was staged on top of it with it.

use unstuck_core::command::{Command, Report};
use unstuck_core::model::run::RunState;

use crate::conformance::contents::contents;
use crate::conformance::driver::{Ask, Driver, user};
use crate::conformance::flows::{action, limited, sequence};
use crate::conformance::notices::family;
use crate::conformance::transactions::{busy_store, pause};
use crate::conformance::{TestStore, settle};
use crate::contract::{Locked, StageId, StoreError};

/// The failed stage and those on top of it are reported, in order, and the store shows what was durable before.
pub fn a_failed_stage_takes_what_is_on_top_with_it<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(limited(sequence("f", vec![action("q"), action("r")]), 2));
    let run = driver.start(&flow);
    let other = driver.start(&flow);
    assert_eq!(settle(&mut driver.store, 2), []);
    let durable = contents(&mut driver.store, driver.flows.values());
    driver.act(run, Command::Admit);
    driver.act(other, Command::Admit);
    driver.work(run, 0);
    driver.say(run, 0, Report::Complete { output: crate::conformance::driver::large("lost") });
    driver.start_with(&flow, |start| start.key = Some("k".into()));
    let error = StoreError::Away("the disk".into());
    let failed = driver.store.fail_next(&error);
    if failed == 0 {
        return;
    }
    assert_eq!(failed, 6);
    assert_eq!(settle(&mut driver.store, 6), vec![error; 6]);
    assert_eq!(contents(&mut driver.store, driver.flows.values()), durable);
    driver.resume();
    driver.act(run, Command::Admit);
    driver.work(run, 0);
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(None));
    assert_eq!(driver.run(run).seq, 4, "its events continue from what is durable");
    assert_eq!(settle(&mut driver.store, 3), []);
}

/// What was durable stays; what was not is gone.
pub fn what_was_durable_stays<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    driver.store.make_durable(1);
    let error = StoreError::Full("disk".into());
    if driver.store.fail_next(&error) == 0 {
        return;
    }
    assert_eq!(settle(&mut driver.store, 2), [error]);
    assert!(driver.store.run(first).expect("reads").is_some());
    assert_eq!(driver.store.run(second), Ok(None));
    assert_eq!(driver.store.fail_next(&StoreError::Full("disk".into())), 0, "nothing is outstanding");
}

/// A transaction that was open when what it was built on failed cannot be staged.
pub fn a_transaction_on_top_of_a_failure_is_a_conflict<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy_store(make());
    let flow = driver.flows.values().next().expect("a flow").clone();
    let run = driver.start(&flow);
    driver.begin().expect("begins");
    let batch = driver.decide(vec![Ask { run, command: pause(), flow: None }]).expect("decides");
    if driver.store.fail_next(&StoreError::Away("network".into())) == 0 {
        return driver.rollback();
    }
    let result = driver.stage(batch.stage);
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    assert_eq!(driver.store.run(run), Ok(None));
    driver.start(&flow);
}

/// A delivery that failed is made again: the notice is there.
pub fn a_failed_delivery_is_made_again<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let run = driver.start(&parent);
    driver.store.make_durable(1);
    assert_eq!(driver.deliver(9), 2);
    if driver.store.fail_next(&StoreError::Away("network".into())) == 0 {
        return;
    }
    driver.resume();
    assert_eq!(driver.store.notices(9).expect("reads").len(), 2);
    assert_eq!(driver.deliver(9), 2);
    driver.act(run, Command::Cancel { by: user(), reason: None });
    driver.deliver_all(9);
    for child in crate::conformance::notices::children(&mut driver, run) {
        assert_eq!(driver.run(child).state(), RunState::Cancelled);
    }
}

/// A stage whose answer was lost stays outstanding, whatever else settles; once it is looked up it is durable, or it has
/// never happened. What is really in the store shows what it is, before anybody knows.
pub fn what_nobody_knows_stays_outstanding_until_it_is_looked_up<S: TestStore>(make: &mut dyn FnMut() -> S) {
    for happens in [true, false] {
        let mut driver = busy_store(make());
        let flow = driver.flows.values().next().expect("a flow").clone();
        let run = driver.start(&flow);
        driver.store.make_durable(usize::MAX);
        driver.store.settle(false);
        if !driver.store.lose_next_answer(happens) {
            return;
        }
        let ask = Ask { run, command: pause(), flow: None };
        let (unknown, _) = driver.attempt_all(vec![ask]).expect("nobody knows better");
        let (known, _) = {
            let start = driver.start_of(&flow, |_| {});
            driver.attempt_all(vec![start]).expect("stages")
        };
        driver.store.make_durable(usize::MAX);
        let settled: Vec<StageId> =
            driver.store.settle(true).into_iter().map(|settled| settled.stage).collect();
        assert_eq!(settled, [known], "the other one is not known");
        let expected = if happens { RunState::Paused } else { RunState::Running };
        assert_eq!(driver.run(run).state(), expected, "whoever looks sees what is there");
        driver.begin().expect("begins");
        assert_eq!(driver.lock(&[run]), Ok(vec![Locked::Busy]), "nothing of it is repeated");
        driver.abandon(Vec::new());
        assert_eq!(driver.store.look_up_outcomes(), 1);
        let told = driver.store.settle(false);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].stage, told[0].result.is_ok()), (unknown, happens));
        driver.act(run, Command::Cancel { by: user(), reason: None });
    }
}
