//! The write-ahead log as it is found when a store is opened: made durable before anything stands on it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use unstuck_store::contract::StoreError;

use crate::error::{folder_error, store_error};
use crate::options::Options;

/// A page of the database, the first of which says that there is a log.
const PAGE: u64 = 4096;

/// Writes again what a process before this one may have failed to sync: the log, and the first page of the database.
///
/// After a sync that failed, what it should have made durable is in the memory of this machine only, and no later sync
/// tries it again. The next process would find it there as if all were well, and what it commits on top, or writes into
/// the database from it, would be lost or torn when the power goes. What is written again is synced again.
pub(crate) fn make_durable(database: &Path, options: &Options) -> Result<(), StoreError> {
    for (path, at_most) in [(log_of(database), u64::MAX), (database.to_owned(), PAGE)] {
        let written = match &options.disk {
            Some(disk) => disk.write_again(&path, at_most),
            None => write_again(&path, at_most),
        };
        written.map_err(|error| folder_error("the file", &path, "cannot be made durable", &error))?;
    }
    Ok(())
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
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-wal");
    name.into()
}

/// Writes what a file holds, up to so many bytes, to the same place again, and syncs it.
fn write_again(path: &Path, at_most: u64) -> io::Result<()> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
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
    if at > 0 { file.sync_data() } else { Ok(()) }
}
