//! Keys: one run for each key of a flow, in any state, over all versions.

use unstuck_core::command::{Command, Start};
use unstuck_core::id::RunId;

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, user};
use crate::conformance::flows::{action, sequence};
use crate::contract::StoreError;

/// A key leads to its run, in its own flow and nowhere else.
pub fn a_key_leads_to_its_run<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let other = driver.keep(sequence("g", vec![action("a")]));
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(None));
    let run = driver.start_with(&flow, key("k"));
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(Some(run)));
    assert_eq!(driver.store.run_of_key("f", "K"), Ok(None));
    assert_eq!(driver.store.run_of_key("g", "k"), Ok(None));
    let theirs = driver.start_with(&other, key("k"));
    assert_eq!(driver.store.run_of_key("g", "k"), Ok(Some(theirs)));
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(Some(run)));
}

/// Runs without a key do not collide.
pub fn no_key_is_no_key<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    assert_ne!(driver.run(first).id, driver.run(second).id);
    assert_eq!(driver.store.run_of_key("f", ""), Ok(None));
}

/// A second run of a key is refused while the first one goes on, and when it is final; over versions of the flow.
pub fn a_key_is_taken_in_any_state<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start_with(&flow, key("k"));
    assert_taken(&mut driver, run);
    driver.act(run, Command::Cancel { by: user(), reason: None });
    assert_taken(&mut driver, run);
    driver.keep(sequence("f", vec![action("a"), action("b")]));
    assert_taken(&mut driver, run);
}

/// Two runs of one key in one stage are refused, and the key stays free.
pub fn a_key_is_taken_once_in_a_stage<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let asks = vec![driver.start_of(&flow, key("k")), driver.start_of(&flow, key("k"))];
    let result = driver.attempt_all(asks);
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(None));
    let run = driver.start_with(&flow, key("k"));
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(Some(run)));
}

/// The next generation keeps the key.
pub fn a_rerun_keeps_its_key<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start_with(&flow, key("k"));
    driver.act(run, Command::Cancel { by: user(), reason: None });
    driver.act(run, Command::rerun(unstuck_core::command::Rerun::All, user()));
    assert_eq!(driver.run(run).generation, 2);
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(Some(run)));
    assert_taken(&mut driver, run);
}

fn assert_taken<S: TestStore>(driver: &mut Driver<S>, run: RunId) {
    let newest = driver.store.newest_flow("f").expect("reads").expect("is there");
    let flow = driver.flows[&newest.id].clone();
    let ask = driver.start_of(&flow, key("k"));
    let result = driver.attempt_all(vec![ask]);
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(Some(run)));
}

fn key(key: &str) -> impl FnOnce(&mut Start) {
    move |start| start.key = Some(key.into())
}
