//! A store that Unstuck has written is as promised, at any moment of any life.

use unstuck_core::command::{Says, StartInput};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Kind, Step};
use unstuck_core::random::Random;
use unstuck_sqlite::Room;
use unstuck_store::conformance::driver::{Driver, large};
use unstuck_store::conformance::flows::{action, sequence, step};
use unstuck_store::contract::{Filter, Stage, Store as _};
use unstuck_store::differential::agree;
use unstuck_store::memory::MemoryStore;

use crate::fixture::Temporary;

#[test]
fn a_store_has_no_findings_at_any_moment_of_its_life() {
    let seeds: Vec<u64> = match std::env::var("UNSTUCK_SEED") {
        Ok(seed) => vec![seed.parse().expect("UNSTUCK_SEED is a number")],
        // In the last two, a run begins after the last event that all rows cover, and parks.
        Err(_) => (0..10).chain([120, 206]).collect(),
    };
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut one_of = |choices: [usize; 4]| choices[usize::try_from(random.between(0, 3)).unwrap_or(0)];
        let room = Room { max_runs: one_of([0, 1, 4, 1_000]), max_tail: one_of([0, 5, 30, 1_000]) as u64 };
        agree(MemoryStore::deferred, || Temporary::with(room), seed, 120);
    }
}

#[test]
fn what_is_forgotten_leaves_nothing_behind() {
    let mut driver = Driver::new(Temporary::new());
    let handled = Step { exception_handler: Some("handler".into()), ..action("q") };
    let flow = driver.keep(sequence("family", vec![step("child", Kind::Child("child".into())), handled]));
    for name in ["child", "handler"] {
        driver.keep(sequence(name, vec![action("r")]));
    }
    let parent = driver.start_with(&flow, |start| {
        (start.key, start.input) = (Some("k".into()), StartInput::New(large("input")));
    });
    let mut family = vec![parent];
    for says in [Says::Complete { output: large("output") }, Says::Complete { output: large("output") }] {
        driver.deliver_all(9);
        let newest = driver.store.list(&Filter::default(), None, 1).expect("lists")[0].id;
        family.push(newest);
        driver.work(newest, 0);
        driver.say(newest, 0, says);
        driver.deliver_all(9);
        if !driver.run(parent).is_final() {
            driver.work(parent, 1);
            driver.say(parent, 1, Says::Fail { error: Box::new(Error::new("it broke")), fatal: true });
        }
    }
    assert!(family.iter().all(|run| driver.run(*run).is_final()));
    driver.store.begin().expect("begins");
    driver.store.lock(&family).expect("locks");
    let stage = Stage { at: driver.now, forgotten: family, ..Stage::default() };
    driver.store.stage(stage).expect("stages");
    let flows = driver.flows.clone();
    let report = driver.store.close().check(&flows);
    assert_eq!((report.runs, report.events, report.payloads), (0, 0, 0), "{report:#?}");
    assert_eq!(report.findings, []);
}
