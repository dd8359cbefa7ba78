//! Damaged files: what is wrong and where is told, nothing false is, and what is refused is left as it was.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_sqlite::{MemoryLimits, Options, SqliteStore, WriteMode};
use unstuck_store::contract::{RunFilter, Store as _, StoreError};

use crate::support::fixture::Fixture;
use crate::support::ledger::Ledger;

const DATABASE: &str = "unstuck.db";
const LOG: &str = "unstuck.db-wal";
const PAGE: usize = 4096;

/// The files of a store, and the runs in it.
struct Sample {
    database: Vec<u8>,
    log: Vec<u8>,
    runs: Vec<RunId>,
}

impl Sample {
    /// A store whose process has died, with some of it in the log. Every run has parked.
    fn new() -> Sample {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            room: MemoryLimits { max_runs: 0, max_tail: 0 },
            checkpoint_pages: 1_000,
            hand: WriteMode::Caller,
            ..Options::default()
        };
        let mut ledger = Ledger::new(Fixture::in_this_folder(folder.path(), options));
        ledger.start_all(100);
        ledger.restart().expect("opens");
        for _ in 0..10 {
            ledger.start_all(1);
        }
        let read = |name: &str| fs::read(folder.path().join(name)).expect("readable");
        Sample { database: read(DATABASE), log: read(LOG), runs: ledger.durable.clone() }
    }

    /// A folder with these files in place of its own.
    fn with(database: &[u8], log: &[u8]) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(DATABASE), database).expect("written");
        if !log.is_empty() {
            fs::write(folder.path().join(LOG), log).expect("written");
        }
        folder
    }

    /// The store is refused with this sentence, and nothing is changed.
    fn assert_refused(case: &str, database: &[u8], log: &[u8], says: &str) {
        let folder = Sample::with(database, log);
        let refused = SqliteStore::open(folder.path()).expect_err(case).to_string();
        let place = folder.path().display().to_string();
        assert!(refused.contains(says) && refused.contains(&place), "{case}: {refused}");
        assert!(refused.contains("restore a copy"), "{case}: {refused}");
        assert_eq!(fs::read(folder.path().join(DATABASE)).expect("readable"), database, "{case}");
        let left = fs::read(folder.path().join(LOG)).unwrap_or_default();
        assert_eq!(left, log, "{case}");
    }
}

fn with_bytes(bytes: &[u8], at: usize, put: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + put.len()].copy_from_slice(put);
    bytes
}

#[test]
fn what_is_damaged_is_told() {
    let Sample { database, log, .. } = Sample::new();
    let damaged = "unstuck.db: the file is damaged";
    let half = database.len() / 2;
    let frame = 32 + 5 * (24 + PAGE);
    let cases: [(&str, Vec<u8>, Vec<u8>, &str); 9] = [
        ("the first bytes", with_bytes(&database, 0, b"no SQLite"), vec![], damaged),
        ("the size of pages", with_bytes(&database, 16, &[7, 7]), vec![], damaged),
        ("the first tables", with_bytes(&database, 100, &[9; 40]), vec![], damaged),
        ("half of it is gone", database[..half].to_vec(), vec![], damaged),
        ("nearly all is gone", database[..100].to_vec(), vec![], damaged),
        ("all is gone but the log", vec![], log.clone(), "the file is missing or empty, but its log"),
        (
            "the header of the log",
            database.clone(),
            with_bytes(&log, 17, &[7]),
            "unstuck.db-wal is damaged at byte 0",
        ),
        (
            "a frame of the log",
            database.clone(),
            with_bytes(&log, frame + 500, &[7; 9]),
            "is damaged at byte 20632",
        ),
        (
            "a salt in the log",
            database.clone(),
            with_bytes(&log, frame + 8, &[7]),
            "is damaged at byte 20632",
        ),
    ];
    for (case, database, log, says) in cases {
        Sample::assert_refused(case, &database, &log, says);
    }
}

/// What a crash leaves of the last transaction looks like this: it is passed over, and all before it is there.
#[test]
fn the_end_of_the_log_may_be_torn() {
    let Sample { database, log, runs } = Sample::new();
    let end = log.len();
    let cases = [
        ("whole", log.clone(), 0),
        ("the last frame", with_bytes(&log, end - 9, &[7; 9]), 1),
        ("the last byte", log[..end - 1].to_vec(), 1),
    ];
    for (case, log, lost) in cases {
        let folder = Sample::with(&database, &log);
        let mut store = SqliteStore::open(folder.path()).expect(case);
        let found = read_all(&mut store).expect("readable");
        let found: Vec<RunId> = found.iter().rev().map(|run| run.id).collect();
        assert_eq!(found, runs[..runs.len() - lost], "{case}");
    }
    // A log that somebody has cut off cannot be told from one that was never longer: what is there is whole.
    for frames in 0..(end - 32) / (24 + PAGE) {
        let folder = Sample::with(&database, &log[..32 + frames * (24 + PAGE)]);
        let mut store = SqliteStore::open(folder.path()).expect("opens");
        let found = read_all(&mut store).expect("readable");
        assert!(
            found.len() >= 100
                && found.iter().rev().map(|run| run.id).eq(runs[..found.len()].iter().copied())
        );
    }
}

/// Whichever page of the database is overwritten: whoever reads it is told, and nothing false.
#[test]
fn a_damaged_page_is_told_to_whoever_reads_it() {
    let Sample { database, log, .. } = Sample::new();
    let folder = Sample::with(&database, &log);
    drop(SqliteStore::open(folder.path()).expect("opens"));
    let database = fs::read(folder.path().join(DATABASE)).expect("readable");
    let expected = read_all(&mut SqliteStore::open(folder.path()).expect("opens")).expect("readable");
    let (mut refused, mut told) = (0, 0);
    for page in 0..database.len() / PAGE {
        for garbage in [[0; PAGE], [0xff; PAGE]] {
            let folder = Sample::with(&with_bytes(&database, page * PAGE, &garbage), &[]);
            let result = SqliteStore::open(folder.path()).and_then(|mut store| {
                let found = read_all(&mut store);
                told += usize::from(found.is_err());
                found
            });
            match result {
                Ok(found) => assert_eq!(found, expected, "page {page} holds nothing, or it is told"),
                Err(StoreError::Broken(what)) => {
                    assert!(what.contains("damaged"), "page {page}: {what}");
                    refused += 1;
                }
                Err(error) => panic!("page {page}: {error}"),
            }
        }
    }
    assert!(refused > told && told > 0, "{refused} were refused, {told} of them by a reader");
}

/// Every run with its history and its input, newest first.
fn read_all(store: &mut SqliteStore) -> Result<Vec<Run>, StoreError> {
    let runs = store.list(&RunFilter::default(), None, usize::MAX)?;
    for run in &runs {
        let history = store.history(run.id, 0, usize::MAX)?;
        assert_eq!(history.len() as u64, run.seq);
        let mut payloads = Vec::new();
        for event in &history {
            event.for_each_payload(|payload| payloads.push(payload));
        }
        assert!(store.payloads(&payloads)?.iter().all(Option::is_some), "its payloads are there");
        if let Some(key) = &run.key {
            assert_eq!(store.run_of_key("f", key)?, Some(run.id));
        }
    }
    Ok(runs)
}

#[test]
fn a_store_without_its_database_is_refused() {
    let Sample { log, .. } = Sample::new();
    let folder = Sample::with(&[], &log);
    fs::remove_file(folder.path().join(DATABASE)).expect("removed");
    let refused = SqliteStore::open(folder.path()).expect_err("refused").to_string();
    assert!(refused.contains("the file is missing or empty, but its log"), "{refused}");
    assert!(!Path::new(&folder.path().join(DATABASE)).exists(), "none is made");
}
