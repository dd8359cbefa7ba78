//! Two that have one store open, whatever their locks say: the one that wrote first stops, and says who has it now.

use std::fs;

use unstuck_sqlite::{Options, SqliteStore, WriteMode};
use unstuck_store::conformance::driver::{Driver, put_policies};
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::conformance::sessions::session;
use unstuck_store::contract::{Store as _, StoreError};

use crate::support::fixture::Fixture;
use crate::support::power::Power;

/// Number 18, where no lock helps: nothing is locked on this disk.
#[test]
fn who_has_lost_the_store_to_another_process_stops_and_says_so() {
    let options = Options { hand: WriteMode::Caller, ..Options::default() };
    let mut driver = Driver::new(Fixture::on_a_disk(options, Power::steady(1)));
    driver.store.open_session(session([1; 32])).expect("begins");
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    // Reading its history waits until it is durable.
    assert!(!driver.store.history(run, 0, 1).expect("read").is_empty());

    let mut other = driver.store.beside().expect("opens");
    assert!(other.run(run).expect("read").is_some(), "who reads takes nothing over");
    let policies = unstuck_store::contract::PolicyChange {
        policies: Vec::new(),
        switch: unstuck_core::policy::PolicySwitch::default(),
        changes: Vec::new(),
        ..unstuck_store::contract::PolicyChange::default()
    };
    put_policies(&mut driver.store, policies.clone()).expect("it has the store still");

    other.open_session(session([1; 32])).expect("takes it over");
    let process = std::process::id();
    let refused = put_policies(&mut driver.store, policies).expect_err("refused");
    let wanted = format!("process {process} took it over while this process had it open");
    assert!(matches!(&refused, StoreError::Broken(what) if what.contains(&wanted)), "{refused}");
    assert!(refused.to_string().contains("unstuck run --continue"), "{refused}");
    // It is over for good.
    assert_eq!(driver.begin(), Err(refused));
    drop(driver);
    assert!(other.run(run).expect("read").is_some());
    let policies = unstuck_store::contract::PolicyChange {
        policies: Vec::new(),
        switch: unstuck_core::policy::PolicySwitch::default(),
        changes: Vec::new(),
        ..unstuck_store::contract::PolicyChange::default()
    };
    put_policies(&mut other, policies).expect("the other one goes on");
}

/// Number 18: the lock file is removed, and the store has one owner still.
#[test]
fn without_its_lock_file_a_store_has_one_owner_still() {
    let folder = tempfile::tempdir().expect("a folder");
    let owner = SqliteStore::open(folder.path()).expect("opens");
    fs::remove_file(folder.path().join("lock")).expect("removed");
    for _ in 0..2 {
        let refused = SqliteStore::open(folder.path()).expect_err("refused");
        assert!(matches!(refused, StoreError::Away(_)), "{refused}");
    }
    drop(owner);
    SqliteStore::open(folder.path()).expect("opens");
}
