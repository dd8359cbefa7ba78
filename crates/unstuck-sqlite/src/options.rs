//! How a store is kept: its limits, who writes, and on what disk.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::recent::MAX_BYTES;

/// How a store is kept. What is usual is right; the rest is for tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of it is in memory.
    pub room: Room,
    /// So many runs park in one stage at most.
    pub max_parked: usize,
    /// So many stages become one transaction at most, so that a long line does not make the first wait for the last.
    pub max_group: usize,
    /// So many bytes of payloads are kept for those who read them again soon.
    pub payload_bytes: usize,
    /// So many pages may be in the write-ahead log before they are taken over into the database.
    pub checkpoint_pages: u32,
    /// Who writes.
    pub hand: Hand,
    /// Where the files are, if not in the file system. The folder is neither made nor locked then.
    pub disk: Option<Arc<dyn Disk>>,
}

/// How much of a store is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// So many runs stay in memory; beyond, those that have rested longest park.
    pub max_runs: usize,
    /// So many events may come after the last one that the rows cover: what opening replays at most, nearly.
    pub max_tail: u64,
}

/// Who writes stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// A thread, at once.
    Thread,
    /// Whoever waits for stages to settle, a group at a time: everything happens in the same order every time.
    Caller,
}

/// Something other than the file system that files can be on.
pub trait Disk: Debug + Send + Sync {
    /// The name of the SQLite VFS that has the files.
    fn vfs(&self) -> &str;

    /// Writes what a file holds, up to so many bytes, to the same place again, and syncs it. A file that is not there
    /// needs nothing.
    fn write_again(&self, path: &Path, at_most: u64) -> io::Result<()>;
}

impl Default for Options {
    fn default() -> Options {
        Options {
            room: Room::default(),
            max_parked: 2_000,
            max_group: 64,
            payload_bytes: MAX_BYTES,
            checkpoint_pages: 1_000,
            hand: Hand::Thread,
            disk: None,
        }
    }
}

impl Default for Room {
    fn default() -> Room {
        Room { max_runs: 20_000, max_tail: 200_000 }
    }
}

impl From<Room> for Options {
    fn from(room: Room) -> Options {
        Options { room, ..Options::default() }
    }
}
