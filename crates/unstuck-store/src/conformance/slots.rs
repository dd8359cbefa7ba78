//! Slots: who may be admitted under a limit, never more than there is room for.

use std::sync::Arc;

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Millis;

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, user};
use crate::conformance::flows::{action, limited, sequence};
use crate::conformance::transactions::pause;

/// As many as there is room for are admissible, and only those.
pub fn no_more_than_there_is_room_for<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(limited(sequence("f", vec![action("q")]), 2));
    assert_eq!(admissible(&mut driver), []);
    let runs: Vec<RunId> = (0..4).map(|_| start(&mut driver, &flow, 0)).collect();
    assert_eq!(admissible(&mut driver), runs[..2]);
    assert_eq!(driver.store.admissible_runs(1), Ok(runs[..1].to_vec()));
    assert_eq!(driver.store.admissible_runs(0), Ok(vec![]));
    driver.act(runs[0], Command::Admit);
    assert_eq!(admissible(&mut driver), [runs[1]]);
    driver.act(runs[1], Command::Admit);
    assert_eq!(admissible(&mut driver), []);
    driver.act(runs[3], Command::Cancel { by: user(), reason: None });
    driver.work(runs[0], 0);
    driver.say(runs[0], 0, Report::Complete { output: Json::NULL });
    assert_eq!(admissible(&mut driver), [runs[2]], "one has ended, so there is room for one");
}

/// Who has a slot is told, the oldest first, and nobody who only wants one.
pub fn holders_of_slots_are_named<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(limited(sequence("f", vec![action("q")]), 2));
    let other = driver.keep(limited(sequence("g", vec![action("q")]), 2));
    let runs: Vec<RunId> = (0..3).map(|_| start(&mut driver, &flow, 0)).collect();
    let elsewhere = start(&mut driver, &other, 0);
    for run in [runs[1], runs[0], elsewhere] {
        driver.act(run, Command::Admit);
    }
    let unstuck_core::model::run::Slot::Taken(limit) =
        driver.store.run(runs[0]).expect("reads").expect("it is there").slot
    else {
        panic!("it has a slot");
    };
    assert_eq!(driver.store.slot_holders(&limit.name, 9), Ok(runs[..2].to_vec()));
    assert_eq!(driver.store.slot_holders(&limit.name, 1), Ok(runs[..1].to_vec()));
    assert_eq!(driver.store.slot_holders("nobody's", 9), Ok(vec![]));
    driver.act(runs[0], Command::Cancel { by: user(), reason: None });
    assert_eq!(driver.store.slot_holders(&limit.name, 9), Ok(vec![runs[1]]));
}

/// Higher priorities first, then whoever has waited longest.
pub fn by_priority_then_by_age<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(limited(sequence("f", vec![action("q")]), 9));
    let low = start(&mut driver, &flow, -1);
    let first = start(&mut driver, &flow, 0);
    let second = start(&mut driver, &flow, 0);
    let high = start(&mut driver, &flow, 1);
    assert_eq!(admissible(&mut driver), [high, first, second, low]);
    driver.pass(Millis(10));
    driver.act(first, pause());
    assert_eq!(admissible(&mut driver), [high, second, low], "a paused run wants nothing");
    driver.pass(Millis(10));
    driver.act(first, Command::Unpause { by: user() });
    assert_eq!(admissible(&mut driver), [high, second, first, low], "it waits from now on");
    driver.pass(Millis(10));
    driver.act(second, Command::Signal { name: "s".into(), payload: Json::NULL, by: user() });
    assert_eq!(
        admissible(&mut driver),
        [high, second, first, low],
        "whatever else happens, its age is its age"
    );
}

/// A slot is given back in error and taken again on resume; then it is waited for like any other.
pub fn a_slot_is_given_back<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(limited(sequence("f", vec![action("q")]), 1));
    let (first, second) = (start(&mut driver, &flow, 0), start(&mut driver, &flow, 0));
    driver.act(first, Command::Admit);
    driver.work(first, 0);
    assert_eq!(admissible(&mut driver), []);
    driver.say(first, 0, Report::Fail { error: Box::new(Error::new("no")), fatal: false });
    assert_eq!(admissible(&mut driver), [second]);
    driver.pass(Millis(10));
    driver.act(first, Command::Resume { unit: None, by: user(), reason: None, changes: Box::default() });
    assert_eq!(admissible(&mut driver), [second], "it wants one again, behind the other");
    driver.act(second, Command::Admit);
    assert_eq!(admissible(&mut driver), []);
    driver.act(second, Command::Cancel { by: user(), reason: None });
    assert_eq!(admissible(&mut driver), [first]);
}

/// Limits do not know of each other; together their runs come by priority and age.
pub fn each_limit_counts_its_own<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let one = driver.keep(limited(sequence("one", vec![action("q")]), 1));
    let two = driver.keep(limited(sequence("two", vec![action("q")]), 2));
    let free = driver.keep(sequence("free", vec![action("q")]));
    start(&mut driver, &free, 9);
    let of_one: Vec<RunId> = (0..3).map(|_| start(&mut driver, &one, 0)).collect();
    let of_two: Vec<RunId> = (0..3).map(|_| start(&mut driver, &two, 1)).collect();
    assert_eq!(admissible(&mut driver), [of_two[0], of_two[1], of_one[0]]);
    assert_eq!(driver.store.admissible_runs(2), Ok(vec![of_two[0], of_two[1]]));
    driver.act(of_one[0], Command::Admit);
    assert_eq!(admissible(&mut driver), [of_two[0], of_two[1]]);
}

/// Two versions of a flow may differ in their limit: each run goes by its own, and all of them count.
pub fn versions_may_differ_in_their_limit<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let tight = driver.keep(limited(sequence("f", vec![action("q")]), 1));
    let old: Vec<RunId> = (0..2).map(|_| start(&mut driver, &tight, 0)).collect();
    let wide = driver.keep(limited(sequence("f", vec![action("q")]), 3));
    let new: Vec<RunId> = (0..4).map(|_| start(&mut driver, &wide, 0)).collect();
    assert_eq!(admissible(&mut driver), [old[0], new[0], new[1]]);
    driver.act(old[0], Command::Admit);
    assert_eq!(admissible(&mut driver), [new[0], new[1]], "the old ones have no room, the new ones for two");
    driver.act(new[0], Command::Admit);
    driver.act(new[1], Command::Admit);
    assert_eq!(admissible(&mut driver), []);
    driver.act(old[0], Command::Cancel { by: user(), reason: None });
    assert_eq!(admissible(&mut driver), [new[2]], "two go on, which is too many for an old one");
}

fn start<S: TestStore>(driver: &mut Driver<S>, flow: &Arc<Flow>, priority: i32) -> RunId {
    driver.pass(Millis(1));
    driver.start_with(flow, |start| start.priority = priority)
}

fn admissible<S: TestStore>(driver: &mut Driver<S>) -> Vec<RunId> {
    driver.store.admissible_runs(usize::MAX).expect("reads")
}
