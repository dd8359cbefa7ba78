//! States that are kept: a long history is read neither to show a run nor to bring it back, and what is kept is no more
//! than a cache.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use unstuck_core::command::{Command, Report};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::flow::Flow;
use unstuck_sqlite::verify::check;
use unstuck_sqlite::{MemoryLimits, SqliteStore, copy};
use unstuck_store::conformance::driver::{Driver, user};
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::conformance::steps::BatchSteps as _;
use unstuck_store::contract::{FlowRecord, Locked, RunFilter, Stage, Store as _};

/// Every run parks as soon as it can.
const PARKS: MemoryLimits = MemoryLimits { max_runs: 0, max_tail: 0 };

/// A run is paused and goes on so many times.
fn keep_busy(driver: &mut Driver<SqliteStore>, run: RunId, times: usize) {
    for _ in 0..times {
        driver.act(run, Command::Pause { by: user(), reason: None });
        driver.act(run, Command::Unpause { by: user() });
        driver.store.settle(true);
    }
}

/// A store with a run that has waited for a worker all the time, and has so many events.
fn with_a_long_history(folder: &Path, room: MemoryLimits, events: usize) -> (Driver<SqliteStore>, RunId) {
    let mut driver = Driver::new(SqliteStore::open_with(folder, room).expect("opens"));
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    keep_busy(&mut driver, run, events / 2);
    (driver, run)
}

fn change(folder: &Path, sql: &str) {
    let connection = Connection::open(folder.join("unstuck.db")).expect("opens");
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    connection.close().expect("closes");
}

fn count(folder: &Path, sql: &str) -> i64 {
    let connection = Connection::open(folder.join("unstuck.db")).expect("opens");
    connection.query_row(sql, [], |row| row.get(0)).expect("counted")
}

fn assert_clean(folder: &Path, flows: &BTreeMap<FlowId, Arc<Flow>>) {
    let mut compile = |record: &FlowRecord| Ok((*flows[&record.id]).clone());
    let report = check(folder, &mut compile, &mut |_| {}).expect("the check can be made");
    assert!(report.is_clean(), "{report:#?}");
}

/// Nobody could read more events than the last few: the others are damaged.
#[test]
fn a_long_history_is_read_neither_to_show_a_run_nor_to_bring_it_back() {
    let busy = MemoryLimits { max_runs: 10, max_tail: 50_000 };
    for (case, room, most) in [("it parks", PARKS, 16), ("it is busy", busy, 64)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut driver, run) = with_a_long_history(folder.path(), room, 1_000);
        let before = driver.store.run(run).expect("reads").expect("is there");
        assert_eq!(before.seq, 1_001, "{case}");
        drop(driver);
        let damage = "UPDATE event SET body = '{' WHERE pos <= (SELECT max(pos) FROM event)";
        change(folder.path(), &format!("{damage} - {most}"));

        let mut store = SqliteStore::open_with(folder.path(), room).expect(case);
        assert_eq!(store.run(run).expect(case).as_ref(), Some(&before), "{case}");
        let listed = store.list(&RunFilter::default(), None, 9).expect(case);
        assert_eq!(listed.first(), Some(&before), "{case}");
        let batch = store.begin().expect("begins");
        assert_eq!(store.lock(batch, &[run]).expect(case), [Locked::Here(Box::new(before))], "{case}");
        store.rollback(batch);
        assert!(store.run(run).expect(case).is_some(), "{case}: it is made again");
        store.history(run, 0, 9).expect_err("the history itself is damaged");
    }
}

/// What is wrong with what is kept costs a replay, and the next time that the run parks it is right again.
#[test]
fn what_is_kept_in_another_form_or_damaged_is_made_again() {
    let cases = [
        "DELETE FROM run_snapshot",
        "UPDATE run_snapshot SET format = format + 1",
        "UPDATE run_snapshot SET sum = sum + 1",
        "UPDATE run_snapshot SET body = '{'",
        "UPDATE run_snapshot SET body = x'00ff'",
        "UPDATE run_snapshot SET body = replace(body, '\"seq\":', '\"seq\":1')",
        "UPDATE run_snapshot SET head = head - 1",
        "UPDATE run_snapshot SET head = head + 1000",
        "UPDATE run_snapshot SET head = -1",
    ];
    for case in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut driver, run) = with_a_long_history(folder.path(), PARKS, 100);
        let before = driver.store.run(run).expect("reads");
        let (store, rest) = driver.split();
        drop(store);
        assert_eq!(count(folder.path(), "SELECT count(*) FROM run_snapshot"), 1, "{case}");
        change(folder.path(), case);
        let mut driver = rest.continue_with(SqliteStore::open_with(folder.path(), PARKS).expect(case));
        assert_eq!(driver.store.run(run).expect(case), before, "{case}");
        keep_busy(&mut driver, run, 1);
        let Driver { store, flows, .. } = driver;
        drop(store);
        assert_clean(folder.path(), &flows);
        assert_eq!(count(folder.path(), "SELECT count(*) FROM run_snapshot"), 1, "{case}");
    }
}

#[test]
fn few_events_are_read_and_no_state_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (driver, _) = with_a_long_history(folder.path(), PARKS, 10);
    drop(driver);
    assert_eq!(count(folder.path(), "SELECT count(*) FROM run_snapshot"), 0);
}

#[test]
fn a_state_goes_with_its_run_and_is_not_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (folder.path().join("store"), folder.path().join("copy"));
    let (mut driver, run) = with_a_long_history(&here, PARKS, 100);
    driver.work(run, 0);
    driver.say(run, 0, Report::Complete { output: Json::NULL });
    let ended = driver.store.list(&RunFilter::default(), None, 9).expect("reads once all is durable");
    copy(&here, &there).expect("copies");
    assert_eq!(count(&there, "SELECT count(*) FROM run_snapshot"), 0);
    let mut copied = SqliteStore::open(&there).expect("opens");
    assert_eq!(copied.list(&RunFilter::default(), None, 9), Ok(ended));
    drop(copied);
    assert_clean(&there, &driver.flows);
    driver.begin().expect("begins");
    driver.lock(&[run]).expect("locks");
    driver.stage(Stage { at: driver.now, forgotten: vec![run], ..Stage::default() }).expect("it is final");
    drop(driver);
    assert_eq!(count(&here, "SELECT count(*) FROM run_snapshot"), 0);
}
