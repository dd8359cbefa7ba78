//! Room that is kept for `forget`: on a full disk it is released, so that there is room to make room.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::access::make_file;

/// The file that takes the room up.
pub(crate) const RESERVE: &str = "reserve";
/// What forgetting a run of a few thousand events writes at most, before the log is taken over.
const BYTES: u64 = 1 << 20;
/// A disk with less room than this keeps what it has for work.
const MIN_FREE: u64 = 8 * BYTES;

/// Allocates a file of ballast if the disk has plenty of room. On a full disk it is deleted, so that forgetting runs
/// has room to work. A failure is ignored: the store works without it.
pub(crate) fn keep_reserve(directory: &Path) {
    let path = directory.join(RESERVE);
    if path.exists() {
        return;
    }
    let free = statvfs(directory).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    if free < MIN_FREE {
        return;
    }
    let take = |file: File| fallocate(&file, FallocateFlags::empty(), 0, BYTES).map_err(io::Error::from);
    if make_file(&path).and_then(take).is_err() {
        let _ = fs::remove_file(&path);
    }
}

/// Gives back the room that the store in this folder keeps for `forget`; whether there was any. It is kept again when the
/// store is opened and there is plenty of room.
pub fn release_reserve(directory: &Path) -> bool {
    fs::remove_file(directory.join(RESERVE)).is_ok()
}
