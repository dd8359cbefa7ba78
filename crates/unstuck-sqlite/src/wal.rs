//! The write-ahead log as it is found when a store is opened: whole, and made durable before anything stands on it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, SeekFrom};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use unstuck_store::contract::StoreError;

use crate::error::{broken_store, folder_error, store_error};
use crate::options::{Options, RawFile};
use crate::wal_frames::find_damage;

/// The first page of the database says that there is a log.
const FIRST_PAGE: u64 = 4096;

/// Looks whether the log is whole, and writes again what a process before this one may have failed to sync: the log, and
/// the first page of the database.
///
/// After a sync that failed, what it should have made durable is in the memory of this machine only, and no later sync
/// tries it again. The next process would find it there as if all were well, and what it commits on top, or writes into
/// the database from it, would be lost or torn when the power goes. What is written again is synced again.
pub(crate) fn make_durable(database: &Path, options: &Options) -> Result<(), StoreError> {
    let log = wal_path(database);
    if let Some(mut file) = open_if_present(&log, options)? {
        let has_log = has_content(&mut *file).map_err(|error| unreadable_file(&log, &error))?;
        if has_log && !has_database(database, options)? {
            return Err(missing_database(&log));
        }
        let found = find_damage(&mut BufReader::with_capacity(64 * 1024, file));
        if let Some(at) = found.map_err(|error| unreadable_file(&log, &error))? {
            return Err(damaged_log(&log, at));
        }
    }
    for (path, at_most) in [(&*log, u64::MAX), (database, FIRST_PAGE)] {
        let Some(mut file) = open_if_present(path, options)? else { continue };
        let written = rewrite_and_sync(&mut *file, at_most);
        written.map_err(|error| folder_error("the file", path, "cannot be synced to disk", &error))?;
    }
    Ok(())
}

/// Looks whether the log is whole, for somebody who only reads: SQLite reads up to the first frame that does not fit and
/// says nothing of what was committed after it. Whoever owns the store may write meanwhile, so what looks like damage is
/// what two looks agree on: a frame that is half written is whole a moment later, and a log that has begun again has other
/// frames.
///
/// The database itself is not opened: closing it would give up the locks that a connection of this process has on it.
pub(crate) fn check_log(database: &Path) -> Result<(), StoreError> {
    let log = wal_path(database);
    let look = || -> io::Result<Option<u64>> {
        match File::open(&log) {
            Ok(file) => find_damage(&mut BufReader::with_capacity(64 * 1024, file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    };
    let size = |path: &Path| fs::metadata(path).map_or(0, |about| about.len());
    if size(database) == 0 && size(&log) > 0 {
        return Err(missing_database(&log));
    }
    let mut before = look().map_err(|error| unreadable_file(&log, &error))?;
    while let Some(at) = before {
        let again = look().map_err(|error| unreadable_file(&log, &error))?;
        if again == Some(at) {
            return Err(damaged_log(&log, at));
        }
        before = again;
    }
    Ok(())
}

/// Builds the error of a log without its database: SQLite would take it for a new one, and delete the log.
fn missing_database(log: &Path) -> StoreError {
    let log = log.display();
    broken_store(format!(
        "the file is missing or empty, but its log {log} is not; restore a copy of the whole folder"
    ))
}

/// Builds the error of a log in which a frame before acknowledged ones is damaged.
fn damaged_log(log: &Path, at: u64) -> StoreError {
    broken_store(format!(
        "the file {} is damaged at byte {at}: later changes cannot be read; restore a copy of the whole folder",
        log.display()
    ))
}

/// Takes the log over into the database and cuts it off. What a crash has left of a transaction that never was would
/// otherwise stand behind its end, and could be made whole by parts of one that another crash leaves there.
pub(crate) fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    let taken = connection.wal_checkpoint_v2(rusqlite::DEFAULT_NAME, CheckpointMode::TRUNCATE);
    match taken.map_err(store_error) {
        // Somebody reads: what is there is durable, and is taken over later.
        Ok(_) | Err(StoreError::Away(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The write-ahead log of a database.
pub(crate) fn wal_path(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-wal");
    name.into()
}

fn open_if_present(path: &Path, options: &Options) -> Result<Option<Box<dyn RawFile>>, StoreError> {
    let opened = if let Some(disk) = &options.disk {
        disk.open(path)
    } else {
        let file = File::options().read(true).write(true).open(path);
        file.map(|file| Box::new(file) as Box<dyn RawFile>)
    };
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(folder_error("the file", path, "cannot be opened", &error)),
    }
}

/// SQLite takes a database without a first page for a new one, and throws its log away.
fn has_database(database: &Path, options: &Options) -> Result<bool, StoreError> {
    let Some(mut file) = open_if_present(database, options)? else { return Ok(false) };
    has_content(&mut *file).map_err(|error| unreadable_file(database, &error))
}

/// Returns whether a file has at least one byte; the file is read from its start afterwards.
fn has_content(file: &mut dyn RawFile) -> io::Result<bool> {
    let read = file.read(&mut [0])?;
    file.seek(SeekFrom::Start(0))?;
    Ok(read > 0)
}

fn unreadable_file(path: &Path, error: &io::Error) -> StoreError {
    folder_error("the file", path, "cannot be read", error)
}

/// Writes the first `at_most` bytes of a file to the same place again, and syncs it: that makes durable what a failed
/// sync left in the page cache.
fn rewrite_and_sync(file: &mut dyn RawFile, at_most: u64) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut at = 0;
    while at < at_most {
        let most = usize::try_from(at_most - at).unwrap_or(usize::MAX).min(buffer.len());
        file.seek(SeekFrom::Start(at))?;
        let read = file.read(&mut buffer[..most])?;
        if read == 0 {
            break;
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&buffer[..read])?;
        at += read as u64;
    }
    if at > 0 { file.sync() } else { Ok(()) }
}
