//! Runs that are set aside: nothing of them is offered, nothing of them is lost, and everybody else goes on.

use unstuck_core::command::{Command, NoticeBody};
use unstuck_core::id::RunId;

use unstuck_core::time::{Millis, Time};

use crate::conformance::driver::{Driver, offer, user};
use crate::conformance::due::waits;
use crate::conformance::flows::{action, graph, limited, sequence};
use crate::conformance::notices::{children, family};
use crate::conformance::steps::BatchSteps;
use crate::conformance::transactions::pause;
use crate::conformance::{TestStore, settle};
use crate::contract::{Due, NoticeId, SetAside, StoreError};

/// What is due in it is neither given nor waited for, however much of it there is; then it is given as before.
pub fn what_is_due_in_it_waits<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![waits(10), waits(30)]));
    let start = driver.now;
    let bad: Vec<RunId> = (0..3).map(|_| driver.start(&flow)).collect();
    driver.pass(Millis(5));
    let good = driver.start(&flow);
    let before = due(&mut driver, 99);
    for run in &bad {
        driver.store.set_aside(*run, aside());
    }
    assert_eq!(driver.store.next_due(), Ok(Some(start + Millis(15))));
    let others: Vec<Due> = before.iter().copied().filter(|due| due.run == good).collect();
    for limit in 0..=3 {
        assert_eq!(due(&mut driver, limit), others[..limit.min(2)], "at most {limit}");
    }
    assert_eq!(driver.store.set_aside_record(bad[0]), Some(aside()));
    assert_eq!(driver.store.set_aside_record(good), None);
    // Whatever an operator does to it meanwhile is not given either.
    driver.act(bad[0], pause());
    driver.act(bad[0], Command::Unpause { by: user() });
    assert_eq!(due(&mut driver, 99), others);
    for run in &bad {
        driver.store.release(*run);
    }
    assert_eq!(due(&mut driver, 99), before);
    assert_eq!(driver.store.next_due(), Ok(Some(start + Millis(10))));
    assert_eq!(driver.store.set_aside_record(bad[0]), None);
}

/// What is ready in it is not handed out, and the room that it would take is others'.
pub fn what_is_ready_in_it_waits<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![action("q"), action("r")]));
    let bad = driver.start_with(&flow, |start| start.priority = 5);
    let good = driver.start(&flow);
    let before = candidates(&mut driver, 9);
    assert_eq!(before, [bad, bad, good, good]);
    driver.store.set_aside(bad, aside());
    assert_eq!(candidates(&mut driver, 1), [good]);
    assert_eq!(candidates(&mut driver, 9), [good, good]);
    driver.store.release(bad);
    assert_eq!(candidates(&mut driver, 9), before);
}

/// It is not admitted, and whoever stands behind it is.
pub fn it_is_not_admitted<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(limited(sequence("f", vec![action("q")]), 1));
    let (bad, good) = (driver.start(&flow), driver.start(&flow));
    assert_eq!(driver.store.admissible_runs(9), Ok(vec![bad]));
    driver.store.set_aside(bad, aside());
    assert_eq!(driver.store.admissible_runs(9), Ok(vec![good]));
    driver.act(bad, pause());
    driver.act(bad, Command::Unpause { by: user() });
    assert_eq!(driver.store.admissible_runs(9), Ok(vec![good]));
    driver.store.release(bad);
    assert_eq!(driver.store.admissible_runs(9).map(|found| found.len()), Ok(1));
    driver.act(good, Command::Cancel { by: user(), reason: None });
    assert_eq!(driver.store.admissible_runs(9), Ok(vec![bad]));
}

/// Notices to it stay, in their order, with those that come meanwhile behind them.
pub fn notices_to_it_stay_in_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let run = driver.start(&parent);
    driver.deliver_all(9);
    let child = children(&mut driver, run)[0];
    driver.act(run, pause());
    let first = notices_to(&mut driver, child);
    assert_eq!(first.len(), 1);
    driver.store.set_aside(child, aside());
    driver.act(run, Command::Unpause { by: user() });
    assert_eq!(notices_to(&mut driver, child), []);
    assert_eq!(driver.store.notices(9).map(|found| found.len()), Ok(2), "its sibling is told");
    driver.store.release(child);
    let all = driver.store.notices(9).expect("reads");
    assert!(all.is_sorted_by_key(|(id, _)| *id));
    let to_it = notices_to(&mut driver, child);
    assert_eq!(to_it[0], first[0]);
    assert!(matches!(to_it[1].1, NoticeBody::UnpauseChild), "{to_it:?}");
    assert_eq!(to_it.len(), 2);
}

/// A stage that fails brings nothing of it back; the next one who opens the store is offered everything.
pub fn it_stays_aside_until_the_store_is_opened_again<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let (bad, good) = (driver.start(&flow), driver.start(&flow));
    assert_eq!(settle(&mut driver.store, 2), []);
    driver.store.set_aside(bad, aside());
    driver.act(good, pause());
    if driver.store.fail_next(&StoreError::Away("the disk".into())) > 0 {
        settle(&mut driver.store, 1);
        driver.resume();
    } else {
        driver.act(good, Command::Unpause { by: user() });
    }
    assert_eq!(candidates(&mut driver, 9), [good]);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.set_aside_record(bad), None);
    assert!(candidates(&mut driver, 9).contains(&bad));
}

fn aside() -> SetAside {
    SetAside { since: Time(7), why: "why".into(), next_try: Some(Time(8)) }
}

fn due<S: TestStore>(driver: &mut Driver<S>, limit: usize) -> Vec<Due> {
    driver.store.due(Time(i64::MAX), limit).expect("reads")
}

fn candidates<S: TestStore>(driver: &mut Driver<S>, limit: usize) -> Vec<RunId> {
    let found = driver.store.candidates(&[offer(["q", "r"], 9)], limit).expect("reads");
    found.into_iter().map(|candidate| candidate.ready.run).collect()
}

fn notices_to<S: TestStore>(driver: &mut Driver<S>, run: RunId) -> Vec<(NoticeId, NoticeBody)> {
    let all = driver.store.notices(usize::MAX).expect("reads");
    all.into_iter()
        .filter(|(_, notice)| notice.to.run() == Some(run))
        .map(|(id, notice)| (id, notice.body))
        .collect()
}
