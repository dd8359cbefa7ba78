//! A failing disk: it says which call failed, stops where going on could lose something, and nothing acknowledged is lost.

use rusqlite::ffi;
use unstuck_sqlite::{MemoryLimits, Options, WriteMode};
use unstuck_store::conformance::sessions::session;
use unstuck_store::conformance::steps::BatchSteps;
use unstuck_store::contract::{RunFilter, Store as _, StoreError};

use crate::support::faults::{Fault, Op, Which};
use crate::support::ledger::Ledger;

fn options() -> Options {
    Options { hand: WriteMode::Caller, checkpoint_pages: 4, ..Options::default() }
}

fn fault(op: Op, which: Option<Which>, after: usize, code: i32) -> Fault {
    Fault { op, which, after, times: 1, code }
}

/// While it runs: which call fails, how, and what is said.
const WHILE_RUNNING: [(Op, Which, i32, &str); 6] = [
    (Op::Sync, Which::Wal, ffi::SQLITE_IOERR_FSYNC, "the disk failed (a sync"),
    (Op::Sync, Which::Database, ffi::SQLITE_IOERR_FSYNC, "the disk failed (a sync"),
    (Op::Write, Which::Wal, ffi::SQLITE_IOERR_WRITE, "the disk failed (a write"),
    (Op::Write, Which::Database, ffi::SQLITE_IOERR_WRITE, "the disk failed (a write"),
    (Op::Cut, Which::Database, ffi::SQLITE_IOERR_TRUNCATE, "the disk failed (disk I/O error"),
    (Op::Write, Which::Wal, ffi::SQLITE_READONLY, "the file is not writable"),
];

#[test]
fn a_call_that_fails_stops_it_and_nothing_is_lost() {
    for (op, which, code, says) in WHILE_RUNNING {
        for hand in [WriteMode::Caller, WriteMode::Thread] {
            let mut ledger = Ledger::on_a_disk(Options { hand, ..options() });
            ledger.start_all(5);
            ledger.fixture().disk().inner().add_fault(fault(op, Some(which), 0, code));
            let error = ledger.start_until_it_fails();
            let case = format!("{op:?} of {which:?}: {error}");
            assert!(matches!(&error, StoreError::Broken(what) if what.contains(says)), "{case}");
            assert_stopped(&mut ledger, &error, &case);
            // It is not tried again: not by somebody who asks, and not when it ends.
            let syncs = ledger.fixture().disk().inner().faults.syncs;
            assert_stopped(&mut ledger, &error, &case);
            ledger.fixture().close();
            assert_eq!(ledger.fixture().disk().inner().faults.syncs, syncs, "{case}");
            ledger.restart().expect("opens again");
            ledger.check();
            ledger.start_all(3);
            ledger.pull_the_plug();
            ledger.check();
            ledger.start_all(3);
        }
    }
}

/// Whatever is asked is answered with the same sentence: what is in memory may never have been durable.
fn assert_stopped(ledger: &mut Ledger, error: &StoreError, case: &str) {
    let run = ledger.durable[0];
    let store = &mut ledger.driver.store;
    let told = [
        store.begin().err(),
        store.run(run).err(),
        store.history(run, 0, 1).err(),
        store.list(&RunFilter::default(), None, 1).err(),
        store.run_of_key("f", "k").err(),
        store.next_due().err(),
        store.open_session(session([0; 32])).err(),
        store.begin().err(),
    ];
    for told in told {
        assert_eq!(told.as_ref(), Some(error), "{case}");
    }
}

/// What a reader cannot read is the reader's trouble: nothing else is touched.
#[test]
fn a_read_that_fails_is_told_to_whoever_reads() {
    let room = MemoryLimits { max_runs: 0, max_tail: 0 };
    let mut ledger = Ledger::on_a_disk(Options { room, ..options() });
    ledger.start_all(300);
    ledger.restart().expect("opens");
    let run = ledger.durable[0];
    let code = ffi::SQLITE_IOERR_READ;
    ledger.fixture().disk().inner().add_fault(fault(Op::Read, Some(Which::Database), 0, code));
    let told = ledger.driver.store.history(run, 0, 9);
    assert!(matches!(&told, Err(StoreError::Broken(what)) if what.contains("a read")), "{told:?}");
    assert_eq!(ledger.driver.store.history(run, 0, 9).expect("the next one is answered").len(), 1);
    ledger.start_all(3);
    ledger.check();
}

/// SQLite would go on without a write-ahead log, and say nothing.
#[test]
fn a_store_that_cannot_have_a_log_is_refused() {
    for after in [0, 1] {
        let mut ledger = Ledger::on_a_disk(options());
        ledger.lose_process(true);
        let code = ffi::SQLITE_IOERR_FSYNC;
        ledger.fixture().disk().inner().add_fault(fault(Op::Sync, Some(Which::Journal), after, code));
        let told = ledger.restart();
        assert!(matches!(&told, Err(StoreError::Broken(what)) if what.contains("(a sync")), "{told:?}");
        ledger.restart().expect("opens once it can");
    }
}

/// Every call of every sort fails once, in an open that follows a crash.
#[test]
fn whatever_fails_while_opening_nothing_is_lost() {
    let calls = [
        (Op::Read, ffi::SQLITE_IOERR_READ),
        (Op::Write, ffi::SQLITE_IOERR_WRITE),
        (Op::Write, ffi::SQLITE_FULL),
        (Op::Sync, ffi::SQLITE_IOERR_FSYNC),
        (Op::Cut, ffi::SQLITE_IOERR_TRUNCATE),
        (Op::Make, ffi::SQLITE_CANTOPEN),
        (Op::Remove, ffi::SQLITE_IOERR_DELETE),
        (Op::Map, ffi::SQLITE_IOERR_SHMMAP),
    ];
    let mut refused = 0;
    for (op, code) in calls {
        for is_new in [true, false] {
            for after in 0..200 {
                let mut ledger = Ledger::on_a_disk(options());
                if !is_new {
                    ledger.start_all(4);
                }
                ledger.lose_process(is_new);
                ledger.fixture().disk().inner().add_fault(fault(op, None, after, code));
                let opened = ledger.restart();
                let has_failed = ledger.fixture().disk().inner().faults.failed.values().sum::<usize>() > 0;
                refused += usize::from(opened.is_err());
                assert!(opened.is_ok() || has_failed, "{opened:?}");
                ledger.fixture().disk().inner().faults.clear();
                ledger.restart().unwrap_or_else(|error| panic!("{op:?} {after}: {error}"));
                if is_new {
                    ledger.flow = ledger.driver.keep((*ledger.flow).clone());
                }
                ledger.check();
                ledger.start_all(1);
                ledger.pull_the_plug();
                ledger.check();
                if !has_failed {
                    break;
                }
            }
        }
    }
    assert!(refused > 50, "only {refused} opens were refused");
}
