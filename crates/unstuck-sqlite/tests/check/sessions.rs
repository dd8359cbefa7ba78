//! A store that Unstuck has written is as promised, at any moment of any session.

use unstuck_core::command::{Command, Report, StartInput};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Kind, Step};
use unstuck_core::random::Random;
use unstuck_sqlite::MemoryLimits;
use unstuck_sqlite::verify::{CheckProgress, check};
use unstuck_store::conformance::driver::{Driver, large, user};
use unstuck_store::conformance::flows::{action, limited, sequence, step};
use unstuck_store::contract::{FlowRecord, RunFilter, Stage, Store as _};
use unstuck_store::differential::check_stores_agree;
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
        let room =
            MemoryLimits { max_runs: one_of([0, 1, 4, 1_000]), max_tail: one_of([0, 5, 30, 1_000]) as u64 };
        check_stores_agree(MemoryStore::deferred, || Temporary::with(room), seed, 120);
    }
}

/// Parts of the store are seen at different moments then: a slot is given on, and what was counted is gone.
#[test]
fn an_engine_that_writes_while_a_check_reads_makes_no_findings() {
    let mut driver = Driver::new(Temporary::parking());
    let flow = driver.keep(limited(sequence("scarce", vec![action("q")]), 1));
    let mut active = Vec::new();
    for _ in 0..30 {
        active.push(driver.start(&flow));
    }
    let (flows, directory) = (driver.flows.clone(), driver.store.directory().to_owned());
    driver.act(active[0], Command::Admit);
    while driver.store.settle(true).is_empty() {}
    let mut compile = |record: &FlowRecord| Ok((*flows[&record.id]).clone());
    let mut meanwhile = |_: CheckProgress| {
        if active.len() < 20 {
            return;
        }
        let last = active.pop().expect("one is left");
        let first = active.remove(0);
        driver.act(first, Command::Cancel { by: user(), reason: None });
        driver.act(last, Command::Admit);
        active.insert(0, last);
        driver.begin().expect("begins");
        driver.lock(&[first]).expect("locks");
        let forgotten = Stage { at: driver.now, forgotten: vec![first], ..Stage::default() };
        driver.stage(forgotten).expect("stages");
        while driver.store.settle(true).is_empty() {}
    };
    let report = check(&directory, &mut compile, &mut meanwhile).expect("checks");
    assert_eq!(report.findings, []);
    assert!(active.len() < 30);
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
    for says in [Report::Complete { output: large("output") }, Report::Complete { output: large("output") }] {
        driver.deliver_all(9);
        let newest = driver.store.list(&RunFilter::default(), None, 1).expect("lists")[0].id;
        family.push(newest);
        driver.work(newest, 0);
        driver.say(newest, 0, says);
        driver.deliver_all(9);
        if !driver.run(parent).is_final() {
            driver.work(parent, 1);
            driver.say(parent, 1, Report::Fail { error: Box::new(Error::new("it broke")), fatal: true });
        }
    }
    assert!(family.iter().all(|run| driver.run(*run).is_final()));
    driver.begin().expect("begins");
    driver.lock(&family).expect("locks");
    let stage = Stage { at: driver.now, forgotten: family, ..Stage::default() };
    driver.stage(stage).expect("stages");
    let flows = driver.flows.clone();
    let report = driver.store.close().check(&flows);
    assert_eq!((report.runs, report.events, report.payloads), (0, 0, 0), "{report:#?}");
    assert_eq!(report.findings, []);
}
