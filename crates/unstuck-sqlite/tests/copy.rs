//! A copy of a store is whole, is of one moment, and begins an epoch of its own.

use unstuck_core::time::Millis;
use unstuck_sqlite::{SqliteStore, copy};
use unstuck_store::conformance::contents::contents;
use unstuck_store::conformance::driver::Driver;
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::conformance::sessions::session;
use unstuck_store::contract::{Store, TailError};

#[test]
fn a_copy_of_a_store_that_is_in_use_is_what_was_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (folder.path().join("store"), folder.path().join("copies/monday"));
    let mut driver = Driver::new(SqliteStore::open(&here).expect("opens"));
    let first = driver.store.open_session(session([7; 32])).expect("begins");
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let runs: Vec<_> = (0..50).map(|_| driver.start(&flow)).collect();
    // Reading waits until everything is durable.
    let then = contents(&mut driver.store, driver.flows.values());
    let cursor = driver.store.reader().cursor().expect("is there");
    copy(&here, &there).expect("copies beside its owner");
    driver.pass(Millis(5));
    driver.work(runs[0], 0);
    let mut copied = SqliteStore::open(&there).expect("opens");
    assert_eq!(contents(&mut copied, driver.flows.values()), then);
    assert_eq!(copied.reader().tail(&cursor, 9), Err(TailError::Gone), "what follows it is told by another");
    assert!(driver.store.reader().tail(&cursor, 9).is_ok());
    let other = copied.open_session(session([9; 32])).expect("begins");
    assert_eq!((other.epoch, other.token_key), (first.epoch + 1, first.token_key));
}

#[test]
fn what_cannot_be_copied_is_refused_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, taken) = (folder.path().join("store"), folder.path().join("taken"));
    drop(SqliteStore::open(&here).expect("opens"));
    std::fs::create_dir(&taken).expect("a folder");
    std::fs::write(taken.join("mine"), "precious").expect("a file");
    let told = copy(&here, &taken).expect_err("refused").to_string();
    assert!(told.contains("is not empty; give an empty or a new folder"), "{told}");
    assert_eq!(std::fs::read_to_string(taken.join("mine")).expect("there"), "precious");
    let told =
        copy(&folder.path().join("nothing"), &folder.path().join("to")).expect_err("refused").to_string();
    assert!(told.contains("nothing"), "{told}");
    assert!(!folder.path().join("to").exists());
}

/// Number 20: a copy that was killed left its folder, and the next one was refused.
#[test]
fn what_a_killed_copy_left_is_cleaned_by_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (folder.path().join("store"), folder.path().join("copy"));
    drop(SqliteStore::open(&here).expect("opens"));
    std::fs::create_dir(&there).expect("a folder");
    for name in ["copying", "copying-journal"] {
        std::fs::write(there.join(name), "half").expect("written");
    }
    copy(&here, &there).expect("copied");
    let names: Vec<_> =
        there.read_dir().expect("readable").map(|entry| entry.expect("there").file_name()).collect();
    assert_eq!(names, ["unstuck.db"]);
    SqliteStore::open(&there).expect("opens");
}

#[test]
fn two_copies_at_once_do_not_meet_in_one_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (folder.path().join("store"), folder.path().join("copy"));
    drop(SqliteStore::open(&here).expect("opens"));
    std::fs::create_dir(&there).expect("a folder");
    let other = std::fs::File::create(there.join("copying")).expect("made");
    other.try_lock().expect("it is being made");
    let told = copy(&here, &there).expect_err("refused").to_string();
    assert!(told.contains("another process is making a copy in"), "{told}");
    assert!(there.join("copying").exists());
}
