//! Restarts: what was durable is found again, with everything that will move it.

use unstuck_core::command::{Command, Report};
use unstuck_core::time::Millis;

use crate::conformance::TestStore;
use crate::conformance::contents::contents;
use crate::conformance::driver::{Ask, Driver, offer};
use crate::conformance::flows::{action, limited, sequence};
use crate::conformance::notices::family;
use crate::conformance::ready::{flow_names, pick};
use crate::conformance::transactions::{busy_store, pause};

/// Runs, histories, payloads, keys, queues, timers with their leases, notices, slots with their ages, flows, the last
/// time and id: all that was durable is there.
pub fn what_is_durable_is_found_again<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy_store(make());
    let scarce = driver.keep(limited(sequence("scarce", vec![action("q")]), 1));
    for priority in [0, 0, 2] {
        driver.pass(Millis(3));
        driver.start_with(&scarce, |start| start.priority = priority);
    }
    let first = driver.store.admissible_runs(1).expect("reads")[0];
    driver.act(first, Command::Admit);
    settle_all(&mut driver);
    let before = contents(&mut driver.store, driver.flows.values());
    before.check();
    let Driver { store, flows, .. } = driver;
    let mut store = store.reopen();
    assert_eq!(contents(&mut store, flows.values()), before);
    assert!(store.settle(true).is_empty(), "a store that was opened has nothing outstanding");
}

/// Notices that were not delivered come again, and none that was.
pub fn undelivered_notices_come_again<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    driver.start(&parent);
    driver.deliver(1);
    settle_all(&mut driver);
    let waiting = driver.store.notices(9).expect("reads");
    assert_eq!(waiting.len(), 1);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.notices(9), Ok(waiting));
    assert_eq!(driver.deliver(9), 1);
    assert_eq!(driver.deliver(9), 0);
}

/// A process that dies in a transaction has locked nothing for good.
pub fn nothing_stays_locked<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = driver.start(&flow);
    settle_all(&mut driver);
    let before = driver.run(run);
    driver.begin().expect("begins");
    let batch = driver.decide(vec![Ask { run, command: pause(), flow: None }]).expect("decides");
    drop(batch);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.run(run), before);
    driver.work(run, 0);
    driver.say(run, 0, Report::Release);
}

/// What was staged and not durable is there as a whole or not at all, and nothing without what it was built on.
pub fn what_is_not_durable_is_whole_or_gone<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let mut states = vec![contents(&mut driver.store, driver.flows.values())];
    for _ in 0..3 {
        let run = driver.start_with(&flow, |start| {
            start.input = unstuck_core::command::StartInput::New(crate::conformance::driver::large("in"));
        });
        states.push(contents(&mut driver.store, driver.flows.values()));
        driver.claim(run, 0);
        states.push(contents(&mut driver.store, driver.flows.values()));
    }
    let Driver { store, flows, .. } = driver;
    let found = contents(&mut store.reopen(), flows.values());
    assert!(states.contains(&found), "the store is as it was after one of its stages: {found:#?}");
}

/// Turns are no one's property: after a restart they begin again, with the flow that was kept first.
pub fn turns_begin_anew<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    for name in ["f", "g"] {
        let flow = driver.keep(sequence(name, vec![action("q")]));
        driver.start(&flow);
        driver.start(&flow);
    }
    settle_all(&mut driver);
    let one = |driver: &mut Driver<S>| {
        let found = pick(driver, &[offer(["q"], 9)], 1);
        flow_names(driver, &found)
    };
    assert_eq!(one(&mut driver), ["f"]);
    assert_eq!(one(&mut driver), ["g"]);
    assert_eq!(one(&mut driver), ["f"]);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(one(&mut driver), ["f"]);
}

/// A restarted store goes on: its clock, its ids and its events follow what is there.
pub fn work_goes_on_after_a_restart<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
    let run = driver.start(&flow);
    for step in 0..2 {
        driver.work(run, step);
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
        driver.say(run, step, Report::Complete { output: unstuck_core::json::Json::NULL });
    }
    assert!(driver.run(run).is_final());
    let other = driver.start(&flow);
    assert!(other > run);
    contents(&mut driver.store, driver.flows.values()).check();
}

/// Waits until everything that was staged has settled.
pub(crate) fn settle_all<S: TestStore>(driver: &mut Driver<S>) {
    driver.store.make_durable(usize::MAX);
    // One more, so that there is something to wait for.
    driver.begin().expect("begins");
    let last = crate::contract::Stage { at: driver.now, ..Default::default() };
    let last = driver.stage(last).expect("stages");
    loop {
        let settled = driver.store.settle(true);
        assert!(settled.iter().all(|settled| settled.result.is_ok()));
        if settled.iter().any(|settled| settled.stage == last) {
            return;
        }
        assert!(!settled.is_empty(), "the last stage settles");
    }
}
