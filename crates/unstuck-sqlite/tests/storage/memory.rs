//! What is over costs nothing: no memory, and no time when a store is opened.

use unstuck_core::command::{Command, Report};
use unstuck_core::json::Json;
use unstuck_sqlite::{MemoryLimits, Options, WriteMode};
use unstuck_store::conformance::driver::{Driver, user};
use unstuck_store::conformance::flows::{action, limited, sequence};
use unstuck_store::conformance::settle;
use unstuck_store::contract::{Locked, Stage, Store};

use crate::support::fixture::Fixture;
use crate::support::power::Power;

/// So many runs that are over, each with a slot that it had, and three that wait; then it is opened again.
fn opened_with(over: usize) -> Driver<Fixture> {
    let options = Options { hand: WriteMode::Caller, ..Options::default() };
    let mut driver = Driver::new(Fixture::on_a_disk(options, Power::steady(1)));
    let flow = driver.keep(limited(sequence("f", vec![action("a")]), 5));
    for _ in 0..over {
        let run = driver.start(&flow);
        driver.act(run, Command::Admit);
        driver.work(run, 0);
        driver.say(run, 0, Report::Complete { output: Json::NULL });
        assert_eq!(settle(&mut driver.store, 5), []);
    }
    // The last of them wait for others, so that their rows are written together, but not for long.
    let left = driver.store.store().runs_in_memory();
    assert!(left <= Options::default().max_ended, "{left} runs that are over are in memory");
    driver.pass(Options::default().max_ended_wait);
    for _ in 0..3 {
        let run = driver.start(&flow);
        driver.act(run, Command::Admit);
        assert_eq!(settle(&mut driver.store, 2), []);
    }
    assert_eq!(driver.store.store().runs_in_memory(), 3, "what is over has left");
    driver.store.close();
    driver.store.disk().inner().faults.reads = 0;
    driver.store.restart().expect("opens");
    driver
}

#[test]
fn opening_reads_what_goes_on_and_not_what_is_over() {
    let [few, many] = [50, 2_000].map(|over| {
        let mut driver = opened_with(over);
        assert_eq!(driver.store.store().runs_in_memory(), 3);
        driver.store.disk().inner().faults.reads
    });
    println!("{many} reads with two thousand runs that are over, {few} with fifty");
    // Trees get higher, and that is all.
    assert!(many <= few + 10, "{many} reads with two thousand runs that are over, {few} with fifty");
}

/// A store with this room, in which a run waits and is busy: each time one more has been started, and waits too, it is paused
/// and goes on again.
fn with_a_busy_run(room: MemoryLimits, others: usize) -> Driver<Fixture> {
    let options = Options { hand: WriteMode::Caller, room, ..Options::default() };
    let mut driver = Driver::new(Fixture::on_a_disk(options, Power::steady(1)));
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let busy = driver.start(&flow);
    assert_eq!(settle(&mut driver.store, 1), []);
    for _ in 0..others {
        driver.start(&flow);
        driver.act(busy, Command::Pause { by: user(), reason: None });
        driver.act(busy, Command::Unpause { by: user() });
        assert_eq!(settle(&mut driver.store, 3), []);
    }
    driver
}

/// The row of a busy run is behind, and so the log since its start is read. What other runs have there is in their rows.
#[test]
fn opening_reads_no_run_whose_row_has_all_of_it() {
    let mut driver = with_a_busy_run(MemoryLimits { max_runs: 2, max_tail: 1_000 }, 50);
    driver.store.close();
    driver.store.restart().expect("opens");
    let found = driver.store.store().runs_in_memory();
    assert!((1..=4).contains(&found), "{found} of 51 runs were read");
}

/// To make the state of a busy run again would cost all of its history.
#[test]
fn a_busy_run_stays_in_memory_while_the_rows_keep_up_with_the_log() {
    let mut driver = with_a_busy_run(MemoryLimits { max_runs: 1_000, max_tail: 10 }, 50);
    assert_eq!(driver.store.store().runs_in_memory(), 51);
    driver.store.close();
    driver.store.restart().expect("opens");
    let found = driver.store.store().runs_in_memory();
    assert!((1..=6).contains(&found), "{found} of 51 runs were in the last 10 events of the log");
}

/// With one row for each event that comes, the same pages would be written again with each of them.
#[test]
fn rows_of_runs_that_wait_are_written_several_at_a_time() {
    let rooms =
        [MemoryLimits { max_runs: 320, max_tail: 10_000 }, MemoryLimits { max_runs: 10_000, max_tail: 320 }];
    for room in rooms {
        let options = Options { hand: WriteMode::Caller, room, ..Options::default() };
        let mut driver = Driver::new(Fixture::on_a_disk(options, Power::steady(1)));
        let flow = driver.keep(sequence("f", vec![action("a")]));
        driver.store.store().watch();
        for _ in 0..500 {
            driver.start(&flow);
            assert_eq!(settle(&mut driver.store, 1), []);
        }
        let rows: Vec<u64> = driver.store.store().stats().transactions.iter().map(|t| t.runs.count).collect();
        let (all, with_rows) = (rows.iter().sum::<u64>(), rows.iter().filter(|rows| **rows > 0).count());
        assert!((500 - 320..=500 - 320 + 5).contains(&all), "{all} rows with {room:?}");
        assert!(with_rows <= 30, "{all} rows in {with_rows} transactions with {room:?}");
    }
}

/// One run at a time: with a row for each as it ends, the same pages would be written again with each of them.
#[test]
fn rows_of_runs_that_have_ended_are_written_several_at_a_time() {
    let options = Options { hand: WriteMode::Caller, max_ended: 20, ..Options::default() };
    let mut driver = Driver::new(Fixture::on_a_disk(options, Power::steady(1)));
    let flow = driver.keep(sequence("f", vec![action("a")]));
    driver.store.store().watch();
    let end_one = |driver: &mut Driver<Fixture>| {
        let run = driver.start(&flow);
        driver.work(run, 0);
        driver.say(run, 0, Report::Complete { output: Json::NULL });
        assert_eq!(settle(&mut driver.store, 4), []);
    };
    (0..100).for_each(|_| end_one(&mut driver));
    let rows = |driver: &mut Driver<Fixture>| -> Vec<u64> {
        let transactions = driver.store.store().stats().transactions;
        transactions.iter().map(|t| t.runs.count).filter(|rows| *rows > 0).collect()
    };
    assert_eq!(rows(&mut driver), [20; 5]);
    // One that waits for others waits no longer than a second once something happens.
    end_one(&mut driver);
    driver.store.store().watch();
    driver.pass(Options::default().max_ended_wait);
    driver.start(&flow);
    assert_eq!(settle(&mut driver.store, 1), []);
    assert_eq!(rows(&mut driver), [1]);
}

/// Somebody looks at a parked run and changes nothing: its row is as it should be.
#[test]
fn a_run_that_was_only_looked_at_parks_without_a_new_row() {
    let room = MemoryLimits { max_runs: 2, max_tail: 1_000 };
    let options = Options { hand: WriteMode::Caller, room, ..Options::default() };
    let mut driver = Driver::new(Fixture::on_a_disk(options, Power::steady(1)));
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let runs: Vec<_> = (0..10)
        .map(|_| {
            let run = driver.start(&flow);
            assert_eq!(settle(&mut driver.store, 1), []);
            run
        })
        .collect();
    driver.store.store().watch();
    for run in &runs[..5] {
        driver.begin().expect("begins");
        let Locked::Here(locked) = driver.lock(&[*run]).expect("locks").remove(0) else {
            panic!("it is there");
        };
        let (at, last_id) = (driver.now, driver.store.last_id().expect("reads"));
        driver.stage(Stage { at, last_id, unchanged: vec![*locked], ..Stage::default() }).expect("stages");
        assert_eq!(settle(&mut driver.store, 1), []);
    }
    let transactions = driver.store.store().stats().transactions;
    assert_eq!(transactions.len(), 5);
    // Those of the two that had to leave, which had none before.
    assert_eq!(transactions.iter().map(|t| t.runs.count).sum::<u64>(), 2);
    assert_eq!(driver.store.store().runs_in_memory(), 2);
    driver.work(runs[0], 0);
    driver.say(runs[0], 0, Report::Complete { output: Json::NULL });
    assert!(driver.run(runs[0]).is_final());
}
