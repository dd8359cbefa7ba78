//! What opening a store refuses, with a sentence each, and without touching what is there.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use unstuck_sqlite::{Disk, Options, RawFile, SqliteStore};
use unstuck_store::contract::{Store as _, StoreError};

fn refusal(folder: &Path) -> StoreError {
    SqliteStore::open(folder).expect_err("refused")
}

#[test]
fn a_store_has_one_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = SqliteStore::open(folder.path()).expect("opens");
    let second = refusal(folder.path());
    assert!(
        matches!(&second, StoreError::Away(what) if what.contains("another process has the store")),
        "{second}"
    );
    drop(first);
    SqliteStore::open(folder.path()).expect("opens once the first has gone");
}

#[test]
fn a_newer_schema_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(SqliteStore::open(folder.path()).expect("opens"));
    let file = folder.path().join("unstuck.db");
    let connection = rusqlite::Connection::open(&file).expect("opens");
    connection.pragma_update(None, "user_version", 99).expect("set");
    drop(connection);
    let refused = refusal(folder.path());
    assert!(refused.to_string().contains("newer version of Unstuck (schema 99"), "{refused}");
}

#[test]
fn a_file_that_is_no_store_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("unstuck.db");
    let text = "this is a letter, and no database at all; ".repeat(100);
    fs::write(&file, &text).expect("written");
    let refused = refusal(folder.path());
    assert!(
        refused.to_string().contains("unstuck.db: the file is damaged or is not a store of Unstuck"),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(&file).expect("readable"), text);
}

#[test]
fn a_database_of_somebody_else_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("unstuck.db");
    let connection = rusqlite::Connection::open(&file).expect("opens");
    connection.execute_batch("CREATE TABLE event (letter TEXT); PRAGMA user_version = 1;").expect("written");
    drop(connection);
    let before = fs::read(&file).expect("readable");
    let refused = refusal(folder.path());
    assert!(
        refused.to_string().contains("unstuck.db: it is a database but not a store of Unstuck"),
        "{refused}"
    );
    assert_eq!(fs::read(&file).expect("readable"), before);
}

/// Files whose connections cannot share memory, as on many network file systems.
#[derive(Debug)]
struct Unshared;

impl Disk for Unshared {
    fn vfs(&self) -> &'static str {
        "unix-dotfile"
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RawFile>> {
        let file = fs::File::options().read(true).write(true).open(path)?;
        Ok(Box::new(file))
    }
}

#[test]
fn a_place_that_cannot_have_a_log_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { disk: Some(Arc::new(Unshared)), ..Options::default() };
    let refused = SqliteStore::open_with(folder.path(), options).expect_err("refused").to_string();
    assert!(refused.contains("cannot have a write-ahead log (its mode is `delete`)"), "{refused}");
    assert!(refused.contains("give a folder on a local disk"), "{refused}");
}

/// A crash while a store is made leaves one.
#[test]
fn an_empty_file_is_a_new_store() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("unstuck.db"), "").expect("written");
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    assert_eq!((store.last_time(), store.last_id()), (Ok(None), Ok(0)));
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let refused = refusal(&file.join("store"));
    assert!(refused.to_string().contains("cannot be created"), "{refused}");
}

#[test]
fn a_damaged_row_of_the_log_is_told_and_not_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(SqliteStore::open(folder.path()).expect("opens"));
    let connection = rusqlite::Connection::open(folder.path().join("unstuck.db")).expect("opens");
    connection
        .execute("INSERT INTO event (pos, run, prev, body) VALUES (1, 5, 0, '{')", [])
        .expect("written");
    drop(connection);
    let refused = refusal(folder.path());
    assert!(refused.to_string().contains("event 1 of the log is damaged"), "{refused}");
}

#[test]
fn a_new_store_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = SqliteStore::open(&folder.path().join("a/b")).expect("makes its folders");
    assert_eq!((store.last_time(), store.last_id()), (Ok(None), Ok(0)));
}
