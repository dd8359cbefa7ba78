//! What the errors of SQLite and of the system mean for a store.

use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::{ErrorCode, ffi};
use unstuck_store::contract::StoreError;

/// Converts an error of SQLite: whether the same may succeed later, and what the user can do.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => disk_full(),
        Some(ErrorCode::SystemIoFailure) if is_out_of_space(&error) => disk_full(),
        Some(ErrorCode::ConstraintViolation) => StoreError::Conflict(error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Away(format!("another process uses the file ({error})"))
        }
        Some(ErrorCode::ReadOnly) => broken_store(
            "the file is not writable; check the owner of the file and its folder, and whether the disk is mounted read-only",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => broken_store(format!(
            "the file is damaged or is not a store of Unstuck ({error}); restore a copy of it"
        )),
        Some(ErrorCode::SystemIoFailure) => broken_store(format!(
            "the disk failed ({}); check the disk in the system log, then start again: everything confirmed before \
             is there, or is reported as missing",
            describe_failed_call(&error)
        )),
        Some(ErrorCode::CannotOpen) => broken_store(format!(
            "the file cannot be opened ({error}); check the owner of the file and its folder"
        )),
        _ => broken_store(error.to_string()),
    }
}

/// Builds the error after which the store cannot continue until somebody acts.
pub(crate) fn broken_store(what: impl Into<String>) -> StoreError {
    StoreError::Broken(what.into())
}

/// Converts an error of the system from creating or opening something in the folder of a store.
pub(crate) fn folder_error(what: &str, path: &Path, failed: &str, error: &io::Error) -> StoreError {
    let shown = path.display();
    if is_disk_full(error.kind()) {
        return StoreError::Full(format!("{what} {shown} {failed}: {error}"));
    }
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => "; check the owner of the folder, or give another one",
        ErrorKind::ReadOnlyFilesystem => "; the disk is mounted read-only: give a writable folder",
        _ => "",
    };
    broken_store(format!("{what} {shown} {failed}: {error}{advice}"))
}

/// Adds the path of the database to an error.
pub(crate) fn add_path(path: &Path, error: StoreError) -> StoreError {
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

/// Builds the error of a full disk; the path is added by who knows it.
fn disk_full() -> StoreError {
    StoreError::Full(String::new())
}

/// Returns whether an IO error means that there is no room. SQLite says so itself only if the system calls the disk
/// full: shared memory, quotas and limits of the size of files come with other codes.
fn is_out_of_space(error: &rusqlite::Error) -> bool {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_IOERR_SHMSIZE) => true,
        // A quota, or a limit of the size of files. The call that has just failed is the last one that did.
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE) => {
            is_disk_full(io::Error::last_os_error().kind())
        }
        _ => false,
    }
}

/// A quota and a limit of the size of files count as a full disk: room must be made all the same.
fn is_disk_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Names the call that failed (read, write, sync), from SQLite's extended code.
fn describe_failed_call(error: &rusqlite::Error) -> String {
    let call = match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => "a sync",
        Some(ffi::SQLITE_IOERR_WRITE) => "a write",
        Some(ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ) => "a read",
        _ => return error.to_string(),
    };
    format!("{call}: {error}")
}
