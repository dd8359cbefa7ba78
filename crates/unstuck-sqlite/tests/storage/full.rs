//! A full disk: new work is refused, reads go on, nothing is lost, and all goes on by itself once there is room.

use rusqlite::ffi;
use unstuck_sqlite::{Options, WriteMode};
use unstuck_store::contract::{NewFlow, PutFlowError, Store as _, StoreError};

use crate::support::faults::{Fault, Op, Which};
use crate::support::ledger::Ledger;

fn options(hand: WriteMode) -> Options {
    Options { hand, checkpoint_pages: 16, ..Options::default() }
}

fn is_full<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Full(_)))
}

fn another_flow() -> NewFlow {
    let (source, steps) = ("x".repeat(100_000).into(), ["a".into()].into());
    NewFlow { name: "g".into(), version: None, source, directory: "/".into(), steps }
}

#[test]
fn it_refuses_new_work_and_goes_on_by_itself() {
    for (hand, more) in
        [WriteMode::Thread, WriteMode::Caller].into_iter().flat_map(|hand| [(hand, 0), (hand, 70_000)])
    {
        let mut ledger = Ledger::on_a_disk(options(hand));
        ledger.start_all(20);
        let used: usize = ledger.fixture().disk().seen().values().map(Vec::len).sum();
        ledger.fixture().disk().inner().faults.set_room(Some(used + more));
        for _ in 0..3 {
            let told = Err::<(), _>(ledger.start_until_it_fails());
            assert!(is_full(&told), "{told:?}");
            assert!(is_full(&ledger.driver.begin()), "nothing new is begun");
            ledger.read_everything();
            let told = ledger.driver.store.put_flow(another_flow());
            assert!(matches!(&told, Err(PutFlowError::Store(StoreError::Full(_)))), "{told:?}");
        }
        let durable = ledger.durable.len();
        ledger.fixture().disk().inner().faults.set_room(None);
        ledger.resume();
        ledger.start_all(20);
        ledger.driver.store.put_flow(another_flow()).expect("there is room");
        ledger.read_everything();
        assert_eq!(ledger.durable.len(), durable + 20);
        ledger.restart().expect("opens");
        ledger.check();
        ledger.pull_the_plug();
        ledger.check();
    }
}

/// Looking for room costs one small write, and memory is read again once, however often somebody asks.
#[test]
fn asking_again_does_not_read_everything_again() {
    let mut ledger = Ledger::on_a_disk(options(WriteMode::Caller));
    ledger.start_all(200);
    ledger.fixture().disk().inner().faults.set_room(Some(0));
    ledger.start_until_it_fails();
    // Whatever would read the file now fails.
    let no_reads = Fault {
        op: Op::Read,
        which: Some(Which::Database),
        after: 0,
        times: usize::MAX,
        code: ffi::SQLITE_IOERR_READ,
    };
    ledger.fixture().disk().inner().add_fault(no_reads);
    for _ in 0..50 {
        assert!(is_full(&ledger.driver.begin()));
    }
    ledger.fixture().disk().inner().faults.clear();
    ledger.start_all(1);
    ledger.check();
}

/// SQLite says it in other words when there is no room for the memory that connections share.
#[test]
fn no_room_for_shared_memory_is_a_full_disk() {
    let mut ledger = Ledger::on_a_disk(options(WriteMode::Caller));
    ledger.start_all(3);
    let code = ffi::SQLITE_IOERR_SHMSIZE;
    ledger.fixture().disk().inner().add_fault(Fault { op: Op::Map, which: None, after: 0, times: 1, code });
    assert!(is_full(&ledger.restart()), "it is told when the store is opened");
    ledger.restart().expect("there is room now");
    ledger.check();
}

#[test]
fn opening_says_so_and_loses_nothing() {
    let mut ledger = Ledger::on_a_disk(options(WriteMode::Caller));
    ledger.start_all(100);
    // The process dies with something in its log that the database has no room for.
    ledger.lose_process(false);
    ledger.fixture().disk().inner().faults.set_room(Some(0));
    let told = ledger.restart();
    assert!(is_full(&told), "{told:?}");
    let Err(error) = told else { return };
    let said = error.to_string();
    assert!(
        said.starts_with("Disk full (") && said.contains("unstuck.db). Nothing was changed. Free some"),
        "{said}"
    );
    ledger.fixture().disk().inner().faults.set_room(None);
    ledger.restart().expect("there is room now");
    ledger.check();
    ledger.start_all(3);
}
