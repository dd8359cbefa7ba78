//! The file as a whole: what can be checked, what cannot, and that nothing of it is changed.

use std::fs;
use std::path::Path;

use unstuck_sqlite::verify::{MAX_FINDINGS_OF_A_PROMISE, Promise, check};
use unstuck_store::conformance::driver::Driver;
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::contract::{FlowRecord, Store as _};

use crate::fixture::Temporary;
use crate::world::World;

/// Why a check cannot be made.
fn refusal(directory: &Path) -> String {
    let mut compile = |_: &FlowRecord| Err("nobody asks".to_owned());
    check(directory, &mut compile, &mut |_| {}).expect_err("refused").to_string()
}

#[test]
fn tables_that_are_not_ours() {
    let cases = [
        ("CREATE TABLE notes (text)", "`notes`: it is in the file but does not belong to Unstuck"),
        ("DROP INDEX run_parent", "`run_parent`: it is missing from the file"),
        ("DROP TABLE lease", "`lease`: it is missing from the file"),
        (
            "ALTER TABLE lease ADD COLUMN note",
            "`lease`: it was not changed by Unstuck but by another program",
        ),
    ];
    for (sql, said) in cases {
        let world = World::new(true);
        world.damage(sql);
        let findings = world.check().findings;
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!(findings[0].promise, Promise::Schema);
        assert!(findings[0].to_string().starts_with(said), "{}", findings[0]);
    }
}

#[test]
fn what_is_kept_about_the_store_itself() {
    let cases = [
        "INSERT INTO meta VALUES ('token_key', x'00')",
        "INSERT INTO meta VALUES ('downtimes', '{')",
        "INSERT OR REPLACE INTO meta VALUES ('policy_switch', '{')",
        "INSERT INTO meta VALUES ('incarnation', 0)",
        "UPDATE meta SET value = 'x' WHERE name = 'flushed'",
    ];
    for sql in cases {
        let world = World::new(true);
        world.damage(sql);
        let findings = world.check().findings;
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!(findings[0].promise, Promise::File);
        assert!(findings[0].to_string().contains("the store cannot be opened"), "{}", findings[0]);
    }
}

#[test]
fn what_a_killed_engine_leaves_can_be_checked() {
    let mut driver = Driver::new(Temporary::new());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    driver.start(&flow);
    while driver.store.settle(true).is_empty() {}
    let (flows, open) = (driver.flows.clone(), driver.store.directory());
    let copy = tempfile::tempdir().expect("a folder");
    for file in ["unstuck.db", "unstuck.db-wal"] {
        fs::copy(open.join(file), copy.path().join(file)).expect("copied");
    }
    let mut compile = |record: &FlowRecord| Ok((*flows[&record.id]).clone());
    let report = check(copy.path(), &mut compile, &mut |_| {}).expect("checks");
    assert_eq!((report.runs, report.findings), (1, vec![]));
}

#[test]
fn a_damaged_page() {
    let world = World::new(true);
    let mut bytes = fs::read(world.closed.file()).expect("readable");
    let pages = bytes.len() / 4096;
    for page in 2..pages.min(12) {
        bytes[page * 4096..page * 4096 + 200].fill(0xa5);
    }
    fs::write(world.closed.file(), bytes).expect("writable");
    let findings = world.check().findings;
    assert!(
        !findings.is_empty() && findings.iter().all(|finding| finding.promise == Promise::File),
        "{findings:#?}"
    );
    assert!(findings[0].to_string().contains("restore a copy of the store"), "{}", findings[0]);
}

#[test]
fn what_cannot_be_checked_is_told() {
    let empty = tempfile::tempdir().expect("a folder");
    assert!(refusal(empty.path()).contains("there is no store in"), "{}", refusal(empty.path()));
    let cases =
        [(99, "newer version of Unstuck (schema 99"), (0, "it has an older schema (0, this version has 9)")];
    for (version, said) in cases {
        let world = World::new(true);
        world.damage(&format!("PRAGMA user_version = {version}"));
        let refused = refusal(world.closed.directory());
        assert!(refused.contains(said), "{refused}");
    }
    fs::write(empty.path().join("unstuck.db"), "this is a letter, and no database; ".repeat(100))
        .expect("written");
    let refused = refusal(empty.path());
    assert!(refused.contains("damaged or is not a store of Unstuck"), "{refused}");
}

#[test]
fn a_check_changes_nothing_and_tells_how_far_it_is() {
    let world = World::new(true);
    let before = fs::read(world.closed.file()).expect("readable");
    let mut told = Vec::new();
    let mut compile = |record: &FlowRecord| Ok((*world.flows[&record.id]).clone());
    let report =
        check(world.closed.directory(), &mut compile, &mut |progress| told.push(progress)).expect("checks");
    assert_eq!(report.findings, []);
    assert_eq!((report.runs, report.flows, report.notices), (11, 4, 2), "{report:?}");
    assert!(report.events > 12 && report.payloads == 3, "{report:?}");
    assert!(!told.is_empty() && told.iter().all(|progress| progress.done <= progress.of), "{told:?}");
    assert_eq!(fs::read(world.closed.file()).expect("readable"), before);
}

#[test]
fn very_many_findings_are_counted() {
    let world = World::new(true);
    world.damage(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90)
         INSERT INTO payload (id, run, body) SELECT i, 5, 'null' FROM n; CREATE TABLE notes (text)",
    );
    let report = world.check();
    assert_eq!(report.findings.len(), MAX_FINDINGS_OF_A_PROMISE + 1, "{report:#?}");
    assert_eq!(report.more, 70);
}
