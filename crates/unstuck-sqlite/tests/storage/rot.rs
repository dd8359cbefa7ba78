//! What a disk does to data that can still be read: it is known as damage, it is never a panic, and whoever reads the store
//! without opening it finds what opening it would.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use unstuck_core::id::PayloadId;
use unstuck_core::random::Random;
use unstuck_sqlite::verify::check;
use unstuck_sqlite::{MemoryLimits, Options, SqliteStore, WriteMode, copy, info};
use unstuck_store::contract::{FlowRecord, RunFilter, Store as _, StoreError};

use crate::support::fixture::Fixture;
use crate::support::ledger::Ledger;

const DATABASE: &str = "unstuck.db";
const LOG: &str = "unstuck.db-wal";

/// The files of a store whose process has died: some runs in the database, some in the log.
fn files(room: MemoryLimits) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { room, checkpoint_pages: 1_000, hand: WriteMode::Caller, ..Options::default() };
    let mut ledger = Ledger::new(Fixture::in_this_folder(folder.path(), options));
    ledger.start_all(20);
    ledger.restart().expect("opens");
    for _ in 0..10 {
        ledger.start_all(1);
    }
    let read = |name: &str| fs::read(folder.path().join(name)).expect("readable");
    (read(DATABASE), read(LOG))
}

fn folder_with(database: &[u8], log: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(DATABASE), database).expect("written");
    if !log.is_empty() {
        fs::write(folder.path().join(LOG), log).expect("written");
    }
    folder
}

/// The same files in another folder, for somebody who changes them.
fn another(folder: &Path) -> TempDir {
    let log = fs::read(folder.join(LOG)).unwrap_or_default();
    folder_with(&fs::read(folder.join(DATABASE)).expect("readable"), &log)
}

/// Nobody here knows the flows: that is a finding of its own, which is passed over.
fn check_of(folder: &Path) -> Result<(), String> {
    let mut compile = |_: &FlowRecord| Err("nobody knows it".to_owned());
    let report = check(folder, &mut compile, &mut |_| {}).map_err(|error| error.to_string())?;
    let found = report.findings.iter().find(|finding| !finding.what.contains("nobody knows it"));
    found.map_or(Ok(()), |finding| Err(finding.to_string()))
}

/// How many runs a copy has that can be read.
fn copy_of(folder: &Path) -> Result<usize, StoreError> {
    let to = tempfile::tempdir().expect("a folder");
    let to = to.path().join("copy");
    copy(folder, &to)?;
    let mut store = SqliteStore::open(&to).expect("a copy that was made can be opened");
    Ok(store.list(&RunFilter::default(), None, usize::MAX)?.len())
}

/// Opens a store and reads all that there is in it.
fn open_and_read(folder: &Path) -> Result<(), StoreError> {
    let mut store = SqliteStore::open(folder)?;
    let runs = store.list(&RunFilter::default(), None, usize::MAX)?;
    for run in &runs {
        let mut payloads = Vec::new();
        for event in store.history(run.id, 0, usize::MAX)? {
            event.for_each_payload(|payload| payloads.push(payload));
        }
        store.payloads(&payloads)?;
    }
    Ok(())
}

/// Each number in a document, in the place of which another stands.
fn with_other_numbers(value: &Value) -> Vec<Value> {
    let others = [0_u64, 7, 65_535, u64::from(u32::MAX)];
    match value {
        Value::Number(_) => others.iter().map(|other| Value::from(*other)).collect(),
        Value::Array(list) => {
            let changed = |place: usize| {
                with_other_numbers(&list[place]).into_iter().map(move |other| {
                    let mut list = list.clone();
                    list[place] = other;
                    Value::Array(list)
                })
            };
            (0..list.len()).flat_map(changed).collect()
        }
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, field)| {
                with_other_numbers(field).into_iter().map(move |other| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), other);
                    Value::Object(fields)
                })
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => Vec::new(),
    }
}

/// Issue 10: every number of an event may have become another one. With its checksum that is told as damage; without one,
/// as a row from before checksums has none, whatever cannot be is refused with a sentence.
#[test]
fn damage_that_parses_is_a_sentence_and_never_a_panic() {
    let room = MemoryLimits { max_runs: 0, max_tail: 0 };
    for (room, is_parked) in [(room, true), (MemoryLimits::default(), false)] {
        let (database, log) = files(room);
        let folder = folder_with(&database, &log);
        drop(SqliteStore::open_with(folder.path(), room).expect("opens"));
        let sql = "SELECT pos, body FROM event ORDER BY pos DESC LIMIT 1";
        let connection = Connection::open(folder.path().join(DATABASE)).expect("opens");
        let (pos, body): (i64, String) =
            connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("reads");
        drop(connection);
        let changed = with_other_numbers(&serde_json::from_str(&body).expect("JSON"));
        assert!(changed.len() > 40, "{}", changed.len());
        for body in changed.iter().map(Value::to_string) {
            for has_sum in [true, false] {
                let folder = another(folder.path());
                let connection = Connection::open(folder.path().join(DATABASE)).expect("opens");
                let sum = if has_sum { "sum" } else { "NULL" };
                connection
                    .execute(&format!("UPDATE event SET body = ?1, sum = {sum} WHERE pos = ?2"), (&body, pos))
                    .expect("written");
                drop(connection);
                let result = catch_unwind(AssertUnwindSafe(|| {
                    let told = (check_of(folder.path()), copy_of(folder.path()), info(folder.path()));
                    (open_and_read(folder.path()), told)
                }));
                let (opened, (checked, copied, _)) = result.unwrap_or_else(|_| panic!("a panic: {body}"));
                if has_sum {
                    let error = opened.expect_err(&body).to_string();
                    assert!(
                        error.contains(&format!("event {pos} of the log is damaged, which belongs to run_"))
                    );
                    assert!(error.contains("its checksum does not match"), "{error}");
                    assert!(error.contains("restore a copy of the store"), "{error}");
                    assert!(checked.expect_err(&body).contains("its checksum does not match"));
                    assert!(copied.expect_err(&body).to_string().contains("no copy was made: event"));
                } else if let Err(error) = opened {
                    assert!(checked.is_err(), "{is_parked}: {error}, and the check says nothing: {body}");
                }
            }
        }
    }
}

/// Issue 10, number 14: one bit anywhere in the files. Whatever opening the store refuses, its check and its copy do
/// too, unless the copy is whole all the same.
#[test]
fn whatever_opening_refuses_check_and_copy_refuse_too() {
    let (database, log) = files(MemoryLimits::default());
    let mut random = Random::new(14);
    let (mut refused, mut by_log) = (0, 0);
    for round in 0..150_u64 {
        let (mut database, mut log) = (database.clone(), log.clone());
        let bytes = if round % 3 == 0 { &mut database } else { &mut log };
        let at = usize::try_from(random.between(0, bytes.len() as u64 - 1)).expect("small");
        bytes[at] ^= 1 << random.between(0, 7);
        let folder = folder_with(&database, &log);
        let (checked, copied) = (check_of(folder.path()), copy_of(folder.path()));
        let told = info(folder.path()).err();
        let opened = SqliteStore::open(folder.path()).err();
        let Some(error) = opened.map(|error| error.to_string()) else { continue };
        refused += 1;
        let checked = checked.expect_err(&error);
        if error.contains("unstuck.db-wal is damaged at byte") {
            by_log += 1;
            assert_eq!(checked, error, "the same sentence");
            assert_eq!(copied.expect_err(&error).to_string(), error, "the same sentence");
            assert_eq!(told.map(|error| error.to_string()), Some(error), "the same sentence");
        } else if let Ok(runs) = copied {
            // Only an index was damaged, which a copy makes again.
            assert_eq!(runs, 30, "{error}");
        }
    }
    assert!(refused > 12 && by_log > 6, "{refused} were refused, {by_log} of them for their log");
}

/// Issue 10, number 15: a payload that is damaged is told with what it is, and everything else can be read.
#[test]
fn a_damaged_payload_is_told_with_what_it_is_and_harms_nothing_else() {
    let (database, log) = files(MemoryLimits::default());
    let folder = folder_with(&database, &log);
    drop(SqliteStore::open(folder.path()).expect("opens"));
    let connection = Connection::open(folder.path().join(DATABASE)).expect("opens");
    let (id, run): (i64, i64) = connection
        .query_row("SELECT id, run FROM payload ORDER BY id LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .expect("reads");
    connection
        .execute("UPDATE payload SET body = replace(body, 'input', 'inqut') WHERE id = ?1", [id])
        .expect("written");
    drop(connection);
    let payload = PayloadId(id.cast_unsigned());
    let run = unstuck_core::id::RunId(run.cast_unsigned());
    let mut store = SqliteStore::open(folder.path()).expect("opens all the same");
    let error = store.payloads(&[payload]).expect_err("damaged");
    let says = format!("payload {payload} is damaged, the input of {run}: its checksum does not match");
    assert!(matches!(&error, StoreError::Damaged(what) if what.starts_with(&says)), "{error}");
    assert!(error.to_string().contains("cancel and forget this run and start it again"), "{error}");
    for other in
        store.list(&RunFilter::default(), None, 99).expect("lists").iter().filter(|other| other.id != run)
    {
        let mut payloads = Vec::new();
        for event in store.history(other.id, 0, 9).expect("reads") {
            event.for_each_payload(|payload| payloads.push(payload));
        }
        assert!(store.payloads(&payloads).expect("reads").iter().all(Option::is_some));
    }
    drop(store);
    assert!(check_of(folder.path()).expect_err("damaged").contains("it is damaged, the input of run_"));
    assert!(copy_of(folder.path()).expect_err("damaged").to_string().contains("no copy was made: payload"));
}
