//! What the errors of SQLite and of the system mean for a store.

use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::{ErrorCode, ffi};
use unstuck_store::contract::StoreError;

/// What an error of SQLite means: whether it may pass, and what to say.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => full(),
        Some(ErrorCode::SystemIoFailure) if is_lack_of_room(&error) => full(),
        Some(ErrorCode::ConstraintViolation) => StoreError::Conflict(error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Away(format!("another process uses the file ({error})"))
        }
        Some(ErrorCode::ReadOnly) => broken(
            "the file is not writable; check the owner of the file and its folder, and whether the disk is mounted read-only",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => broken(format!(
            "the file is damaged or is not a store of Unstuck ({error}); restore a copy of it"
        )),
        Some(ErrorCode::SystemIoFailure) => broken(format!(
            "the disk failed ({}); check the disk in the system log, then start again: everything confirmed before \
             is there, or is reported as missing",
            failure(&error)
        )),
        Some(ErrorCode::CannotOpen) => {
            broken(format!("the file cannot be opened ({error}); check the owner of the file and its folder"))
        }
        _ => broken(error.to_string()),
    }
}

/// The store cannot go on.
pub(crate) fn broken(what: impl Into<String>) -> StoreError {
    StoreError::Broken(what.into())
}

/// What an error of the system means that has come of making or opening something in the folder of a store.
pub(crate) fn folder_error(what: &str, path: &Path, failed: &str, error: &io::Error) -> StoreError {
    let shown = path.display();
    if is_full(error.kind()) {
        return StoreError::Full(format!("{what} {shown} {failed}: {error}"));
    }
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => "; check the owner of the folder, or give another one",
        ErrorKind::ReadOnlyFilesystem => "; the disk is mounted read-only: give a writable folder",
        _ => "",
    };
    broken(format!("{what} {shown} {failed}: {error}{advice}"))
}

/// The same error, with its place.
pub(crate) fn at(path: &Path, error: StoreError) -> StoreError {
    let say = |what: String| format!("{}: {what}", path.display());
    match error {
        StoreError::Conflict(what) => StoreError::Conflict(say(what)),
        StoreError::Full(what) if what.is_empty() => StoreError::Full(path.display().to_string()),
        StoreError::Full(what) => StoreError::Full(say(what)),
        StoreError::Away(what) => StoreError::Away(say(what)),
        StoreError::Damaged(what) => StoreError::Damaged(say(what)),
        StoreError::Broken(what) => StoreError::Broken(say(what)),
        StoreError::SessionEnded | StoreError::Closed => error,
    }
}

fn full() -> StoreError {
    StoreError::Full(String::new())
}

/// SQLite calls it a full disk only when the system says so when a file is written to; there are other ways of having
/// no room.
fn is_lack_of_room(error: &rusqlite::Error) -> bool {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_IOERR_SHMSIZE) => true,
        // A quota, or a limit of the size of files. The call that has just failed is the last one that did.
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE) => {
            is_full(io::Error::last_os_error().kind())
        }
        _ => false,
    }
}

fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Which call it was.
fn failure(error: &rusqlite::Error) -> String {
    let call = match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => "a sync",
        Some(ffi::SQLITE_IOERR_WRITE) => "a write",
        Some(ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ) => "a read",
        _ => return error.to_string(),
    };
    format!("{call}: {error}")
}
