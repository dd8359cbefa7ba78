//! A store that is only read: nothing in its folder is written, made or removed, so that a full or read-only disk is no
//! hindrance.
//!
//! SQLite cannot read a write-ahead log without shared memory in the same folder. So where that cannot be had, a store
//! that was closed is read as a file that nobody changes, and for one with a log the file is put together in memory.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use unstuck_store::contract::StoreError;

use crate::access::check_access;
use crate::error::{add_path, broken_store, folder_error, store_error};
use crate::open::{DATABASE, Lock};
use crate::wal::wal_path;
use crate::wal_frames::{self, find_damage};

/// A file with a log that is larger than this is not put together in memory.
const MAX_IMAGE: u64 = 1 << 30;

/// A connection that writes nothing, and what keeps others from writing meanwhile.
#[derive(Debug)]
pub(crate) struct ReadConnection {
    pub(crate) connection: Connection,
    /// Where SQLite's own locks do not do it.
    pub(crate) lock: Option<Lock>,
}

impl Deref for ReadConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for ReadConnection {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// Opens the file of a store that nobody else has open.
pub(crate) fn open(directory: &Path) -> Result<ReadConnection, StoreError> {
    check_access(directory)?;
    let lock = Lock::lock_for_reading(directory)?;
    let path = directory.join(DATABASE);
    let log = wal_path(&path);
    let size = |path: &Path| fs::metadata(path).map_or(0, |about| about.len());
    let opened = if size(&log) == 0 { open_unchanging(&path) } else { open_image(&path, &log) };
    let connection = opened.map_err(|error| add_path(&path, error))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(ReadConnection { connection, lock: Some(lock) })
}

/// Opens the database as immutable: SQLite then needs neither locks nor shared memory in the folder.
fn open_unchanging(path: &Path) -> Result<Connection, StoreError> {
    let text = path.to_str().ok_or_else(|| broken_store("the name of the folder is not UTF-8"))?;
    let mut name = String::from("file:");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(name, flags).map_err(store_error)
}

/// Reads the database into memory and applies the committed part of its log there, because SQLite cannot read a log
/// without writing beside it.
fn open_image(path: &Path, log: &Path) -> Result<Connection, StoreError> {
    let unreadable = |error: io::Error| folder_error("the file", path, "cannot be read", &error);
    let size = fs::metadata(path).map_err(unreadable)?.len() + fs::metadata(log).map_err(unreadable)?.len();
    if size > MAX_IMAGE {
        return Err(broken_store(format!(
            "it was not closed properly, it is not writable, and it is too large ({} MiB) to be read as it is; copy the \
             folder with all of its files to a disk with free space, and give that folder",
            size >> 20
        )));
    }
    let open_log = || File::open(log).map(|file| BufReader::with_capacity(64 * 1024, file));
    if let Some(at) = open_log().and_then(|mut log| find_damage(&mut log)).map_err(unreadable)? {
        return Err(broken_store(format!(
            "its log is damaged at byte {at}: later changes cannot be read; restore a copy of the whole folder"
        )));
    }
    let mut image = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut image)).map_err(unreadable)?;
    open_log().and_then(|mut log| wal_frames::apply_commits(&mut log, &mut image)).map_err(unreadable)?;
    if image.len() < 100 {
        return Err(broken_store(
            "the file is missing or empty, but its log is not; restore a copy of the whole folder",
        ));
    }
    // There is no log any more, which these two say.
    image[18..20].copy_from_slice(&[1, 1]);
    let mut connection = Connection::open_in_memory().map_err(store_error)?;
    let length = image.len();
    connection.deserialize_read_exact(c"main", &*image, length, true).map_err(store_error)?;
    Ok(connection)
}
