//! The file as a whole: it opens, its pages are whole, and its tables are the known ones.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use unstuck_core::clock::ClockRecord;
use unstuck_core::downtime::Downtime;
use unstuck_core::policy::PolicySwitch;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{Finding, Promise, RESTORE};

use crate::access::check_access;
use crate::error::{add_path, broken_store, store_error};
use crate::open::DATABASE;
use crate::read_only::{self, ReadConnection};
use crate::schema::migrate;
use crate::verify::CheckReport;
use crate::wal::check_log;

/// What a connection may keep of the file, as SQLite counts it: negative for KiB.
const CACHE: i64 = -65_536;
/// The same for one of several.
pub(crate) const CACHE_OF_HELPER: i64 = -16_384;
/// So many of SQLite's own findings are told.
const MAX_OF_SQLITE: u32 = 20;

/// Opens the file for reading only, beside whoever owns it, if opening the store would not refuse its write-ahead log. Where
/// SQLite would have to write for that, and cannot, and nobody owns it, it is read without.
pub(crate) fn open(directory: &Path) -> Result<ReadConnection, StoreError> {
    let path = directory.join(DATABASE);
    check_access(directory)?;
    if !path.exists() {
        return Err(broken_store(format!("there is no store in {}; check the path", directory.display())));
    }
    check_log(&path).map_err(|error| add_path(&path, error))?;
    match open_beside(&path, CACHE) {
        Ok(connection) => Ok(ReadConnection { connection, lock: None }),
        Err(error) if needs_writing(&error) => match read_only::open(directory) {
            Err(StoreError::Away(_)) => Err(store_error(error)),
            opened => opened,
        },
        Err(error) => Err(store_error(error)),
    }
}

/// Opens the file for reading beside another process that writes.
pub(crate) fn open_beside(path: &Path, cache: i64) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch("PRAGMA busy_timeout = 5000;")?;
    connection.pragma_update(None, "cache_size", cache)?;
    // Only now are the log and the shared memory opened, or made.
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(connection)
}

/// Returns whether SQLite failed because it could not create shared memory, as on a full or read-only disk.
fn needs_writing(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::DiskFull | ErrorCode::SystemIoFailure)
    )
}

/// Refuses other schema versions: a newer one is unknown, and opening the store migrates an older one.
pub(crate) fn check_version(connection: &Connection) -> Result<(), StoreError> {
    let (found, known) = (load_version(connection)?, load_version(&create_expected()?)?);
    if found == known {
        return Ok(());
    }
    if found > known {
        return Err(broken_store(format!(
            "it was written by a newer version of Unstuck (schema {found}, this version knows {known}): use the newer version"
        )));
    }
    Err(broken_store(format!(
        "it has an older schema ({found}, this version has {known}); open it once with `unstuck runs`, then check it again"
    )))
}

fn load_version(connection: &Connection) -> Result<u32, StoreError> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(store_error)
}

/// Creates an empty store in memory, to compare its schema with that of the file.
fn create_expected() -> Result<Connection, StoreError> {
    let mut connection = Connection::open_in_memory().map_err(store_error)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Runs SQLite's integrity check of all pages and indexes, and returns what is damaged.
pub(crate) fn check_pages(connection: &Connection) -> Result<Vec<String>, StoreError> {
    match list_integrity_problems(connection) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(vec![error.to_string()])
        }
        found => found.map_err(store_error),
    }
}

/// Reports damaged pages and nothing else: whatever else is read may be wrong because of them.
pub(crate) fn report_damaged_pages(problems: &[String]) -> CheckReport {
    let mut report = CheckReport::default();
    for problem in problems {
        let what = format!("SQLite reports damage: {problem}; the rest was not checked");
        report.add(Finding::new(Promise::File, "the file", what, RESTORE));
    }
    report
}

fn list_integrity_problems(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MAX_OF_SQLITE})"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Compares tables and indexes with those of this version; returns whether they can be read.
pub(crate) fn check_schema(connection: &Connection, report: &mut CheckReport) -> Result<bool, StoreError> {
    let (found, expected) = (list_tables(connection)?, list_tables(&create_expected()?)?);
    let mut add = |name: &str, what: &str| {
        let hint = "unless this was done on purpose, restore a copy of the store";
        report.add(Finding::new(Promise::Schema, format!("`{name}`"), what, hint));
    };
    for (name, made) in &expected {
        match found.get(name) {
            None => add(name, "it is missing from the file"),
            Some(other) if other != made => add(name, "it was not changed by Unstuck but by another program"),
            Some(_) => {}
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        add(name, "it is in the file but does not belong to Unstuck");
    }
    Ok(expected.keys().all(|name| found.contains_key(name)))
}

fn list_tables(connection: &Connection) -> Result<BTreeMap<String, Option<String>>, StoreError> {
    let sql = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    rows.collect::<Result<_, _>>().map_err(store_error)
}

/// Checks that the values of `meta` can be read; returns whether the rest can be read with them.
pub(crate) fn check_meta(connection: &Connection, report: &mut CheckReport) -> Result<bool, StoreError> {
    let mut statement = connection.prepare("SELECT name, value FROM meta").map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut is_usable = true;
    while let Some(row) = rows.next().map_err(store_error)? {
        let name: String = row.get(0).map_err(store_error)?;
        let value = row.get_ref(1).map_err(store_error)?;
        let is_right = match name.as_str() {
            "flushed" | "last_id" | "last_time" | "last_error" | "errors_from" | "end" | "stage" => {
                let is_number = value.as_i64().is_ok();
                is_usable &= is_number;
                is_number
            }
            "epoch" | "incarnation" | "number" => value.as_i64().is_ok_and(|number| number > 0),
            "token_key" => value.as_blob().is_ok_and(|key| key.len() == 32),
            "downtimes" => {
                value.as_str().is_ok_and(|text| serde_json::from_str::<Vec<Downtime>>(text).is_ok())
            }
            "policy_switch" => {
                value.as_str().is_ok_and(|text| serde_json::from_str::<PolicySwitch>(text).is_ok())
            }
            "clock" => value.as_str().is_ok_and(|text| serde_json::from_str::<ClockRecord>(text).is_ok()),
            _ => true,
        };
        if !is_right {
            let what = "it cannot be read, so the store cannot be opened";
            report.add(Finding::new(Promise::File, format!("`{name}` of the store"), what, RESTORE));
        }
    }
    Ok(is_usable)
}
