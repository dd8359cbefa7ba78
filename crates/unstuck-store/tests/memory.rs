//! The store in memory keeps the contract, whether it settles at once or later.

use std::sync::Arc;

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Run, RunState};
use unstuck_store::conformance::driver::{Ask, Driver, user};
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::contract::{Locked, Stage, Store, StoreError};
use unstuck_store::differential::check_stores_agree;
use unstuck_store::memory::MemoryStore;

mod at_once {
    unstuck_store::conformance_tests!(unstuck_store::memory::MemoryStore::new);
}

mod deferred {
    unstuck_store::conformance_tests!(unstuck_store::memory::MemoryStore::deferred);
}

mod shared {
    use unstuck_store::memory::{MemoryStore, SharedStore};

    unstuck_store::conformance_tests!(|| SharedStore::new(MemoryStore::deferred()));
    unstuck_store::sharing_tests!(|| SharedStore::new(MemoryStore::deferred()));
}

/// The cases about failures have nothing to do where a store cannot fail: this one can.
#[test]
fn the_deferred_store_fails_when_it_is_told_to() {
    let mut driver = Driver::new(MemoryStore::deferred());
    driver.keep(sequence("f", vec![action("a")]));
    driver.begin().expect("begins");
    driver.stage(Stage::default()).expect("stages");
    assert_eq!(driver.store.fail_next(&StoreError::Away("the disk".into())), 1);
}

#[test]
fn both_lead_the_same_life() {
    for seed in 0..200 {
        check_stores_agree(MemoryStore::new, MemoryStore::deferred, seed, 200);
    }
}

/// What an engine must not do, and what it is told.
#[test]
fn misuse_is_refused() {
    type Misuse = fn(&mut Driver<MemoryStore>, RunId) -> Result<(), StoreError>;
    let cases: [(&str, Misuse); 10] = [
        ("a batch is under way: end it before the next", |driver, _| {
            driver.begin()?;
            driver.begin()
        }),
        ("no batch of this number is under way", |driver, run| driver.lock(&[run]).map(drop)),
        ("no batch of this number is under way", |driver, _| driver.stage(Stage::default()).map(drop)),
        ("is locked twice in one batch", |driver, run| {
            driver.begin()?;
            driver.lock(&[run, run]).map(drop)
        }),
        ("was locked but is not part of the commit", |driver, run| {
            driver.begin()?;
            driver.lock(&[run])?;
            driver.stage(Stage::default()).map(drop)
        }),
        ("was not locked", |driver, run| {
            let stage = paused(driver, run)?;
            driver.rollback();
            driver.begin()?;
            driver.stage(stage).map(drop)
        }),
        ("is in one commit twice", |driver, run| {
            let mut stage = paused(driver, run)?;
            stage.unchanged.push((*stage.runs[0].run).clone());
            driver.stage(stage).map(drop)
        }),
        ("is marked as unchanged but has changed", |driver, run| {
            let mut stage = paused(driver, run)?;
            let change = stage.runs.remove(0);
            stage.unchanged.push(*change.run);
            driver.stage(stage).map(drop)
        }),
        ("is of flow `f`, not `g`", |driver, run| {
            let mut stage = paused(driver, run)?;
            stage.runs[0].flow = "g".into();
            driver.stage(stage).map(drop)
        }),
        ("does not match its events up to 1", |driver, run| {
            let mut stage = paused(driver, run)?;
            stage.runs[0].events.clear();
            driver.stage(stage).map(drop)
        }),
    ];
    for (told, misuse) in cases {
        for make in [MemoryStore::new, MemoryStore::deferred] {
            let (mut driver, _, run) = one_run(make());
            let before = driver.run(run);
            let Err(StoreError::Conflict(text)) = misuse(&mut driver, run) else {
                panic!("{told}: not refused")
            };
            assert!(text.contains(told), "`{text}` says `{told}`");
            driver.rollback();
            assert_eq!(driver.run(run), before, "{told}");
            driver.act(run, pause());
        }
    }
}

#[test]
fn a_locked_run_is_read_as_it_was() {
    let (mut driver, _, run) = one_run(MemoryStore::new());
    let before = driver.run(run);
    let stage = paused(&mut driver, run).unwrap();
    assert_eq!(driver.run(run), before);
    driver.stage(stage).unwrap();
    assert_eq!(driver.run(run).state(), RunState::Paused);
}

#[test]
fn a_run_that_is_given_back_changed_is_as_it_was() {
    let (mut driver, _, run) = one_run(MemoryStore::new());
    let before = driver.run(run);
    let stage = paused(&mut driver, run).unwrap();
    driver.abandon(stage.runs.into_iter().map(|change| *change.run).collect());
    assert_eq!(driver.run(run), before);
}

#[test]
fn stages_stay_outstanding_until_they_are_told() {
    let (mut driver, flow, run) = one_run(MemoryStore::deferred());
    driver.start(&flow);
    assert_eq!(driver.store.outstanding(), 2);
    assert!(driver.store.settle(false).is_empty());
    assert_eq!(driver.store.settle(true).len(), 1, "who waits, waits for one");
    driver.act(run, pause());
    driver.store.make_durable(1);
    driver.store.make_durable(0);
    assert_eq!(driver.store.outstanding(), 1);
    assert_eq!(driver.store.settle(true).len(), 1);
    let mut store = driver.store.crash();
    assert_eq!(store.outstanding(), 0);
    assert_eq!(
        store.run(run).unwrap().map(|run| run.state()),
        Some(RunState::Running),
        "the pause was not durable"
    );
}

#[test]
fn without_history_nothing_can_be_taken_back() {
    let (mut driver, flow, run) = one_run(MemoryStore::without_history());
    driver.work(run, 0);
    driver.say(run, 0, Report::Complete { output: Json::NULL });
    assert_eq!(driver.run(run).state(), RunState::Completed);
    assert_eq!(driver.store.history(run, 0, 9), Ok(vec![]));
    driver.begin().unwrap();
    let locked = driver.lock(&[run]).unwrap();
    driver.abandon(unboxed(locked));
    let other = driver.start(&flow);
    drop(paused(&mut driver, other));
    driver.rollback();
    let told = driver.begin().unwrap_err();
    assert!(matches!(&told, StoreError::Broken(text) if text.contains("no history")), "{told}");
    assert_eq!(driver.store.run(run), Err(told));
}

fn one_run(store: MemoryStore) -> (Driver<MemoryStore>, Arc<Flow>, RunId) {
    let mut driver = Driver::new(store);
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = driver.start(&flow);
    (driver, flow, run)
}

/// A pause of this run, in a transaction that stays open.
fn paused(driver: &mut Driver<MemoryStore>, run: RunId) -> Result<Stage, StoreError> {
    driver.begin()?;
    Ok(driver.decide(vec![Ask { run, command: pause(), flow: None }])?.stage)
}

fn pause() -> Command {
    Command::Pause { by: user(), reason: None }
}

fn unboxed(locked: Vec<Locked>) -> Vec<Run> {
    let here = locked.into_iter().filter_map(|locked| match locked {
        Locked::Here(run) => Some(*run),
        Locked::Absent | Locked::Busy | Locked::Damaged(_) => None,
    });
    here.collect()
}
