//! How a store is kept: its limits, who writes, and on what disk.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use unstuck_core::time::Millis;

use crate::recent_ids::MAX_BYTES;

/// How a store is kept. What is usual is right; the rest is for tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of it is in memory.
    pub room: MemoryLimits,
    /// So many runs park in one stage at most.
    pub max_parked: usize,
    /// So many runs that have ended wait until their rows are written together, and so long at most while others go on: rows
    /// of neighbours share pages.
    pub max_ended: usize,
    pub max_ended_wait: Millis,
    /// So many events later the state of a run is kept again, or as many as it has units, if those are more; a run whose row
    /// is written anyway has its state kept after a quarter of that.
    pub snapshot_events: u64,
    /// Of a run with more units than this, only the wakeups that have changed are written with its row.
    pub many_units: usize,
    /// So many stages become one transaction at most, so that a long line does not make the first wait for the last.
    pub max_group: usize,
    /// So many bytes of payloads are kept for those who read them again soon.
    pub payload_bytes: usize,
    /// So many pages may be in the write-ahead log before they are taken over into the database.
    pub checkpoint_pages: u32,
    /// So many runs that do not fit are looked at for a page of a list, at most: then it is short, and tells where the list
    /// goes on.
    pub max_candidates: usize,
    /// Who writes.
    pub hand: WriteMode,
    /// Where the files are, if not in the file system. The folder is neither made nor locked then.
    pub disk: Option<Arc<dyn Disk>>,
}

/// How much of a store is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// So many runs stay in memory; beyond, those that have rested longest park.
    pub max_runs: usize,
    /// So many events may come after the last one that the rows cover: what opening replays at most, nearly.
    pub max_tail: u64,
}

/// Who writes stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// A thread, at once.
    Thread,
    /// Whoever waits for stages to settle, a group at a time: everything happens in the same order every time.
    Caller,
}

/// Something other than the file system that files can be on.
pub trait Disk: Debug + Send + Sync {
    /// The name of the SQLite VFS that has the files.
    fn vfs(&self) -> &str;

    /// Opens a file that is there, to be read and written to.
    fn open(&self, path: &Path) -> io::Result<Box<dyn RawFile>>;
}

/// A file, as bytes.
pub trait RawFile: Read + Write + Seek {
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

impl RawFile for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// So many runs are looked at for a page of a list by default.
pub(crate) const MAX_CANDIDATES: usize = 5_000;

impl Default for Options {
    fn default() -> Options {
        Options {
            room: MemoryLimits::default(),
            max_parked: 2_000,
            max_ended: 256,
            max_ended_wait: Millis::seconds(1),
            snapshot_events: 64,
            many_units: 64,
            max_group: 64,
            payload_bytes: MAX_BYTES,
            checkpoint_pages: 1_000,
            max_candidates: MAX_CANDIDATES,
            hand: WriteMode::Thread,
            disk: None,
        }
    }
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits { max_runs: 20_000, max_tail: 50_000 }
    }
}

impl From<MemoryLimits> for Options {
    fn from(room: MemoryLimits) -> Options {
        Options { room, ..Options::default() }
    }
}
