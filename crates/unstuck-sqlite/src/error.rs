//! What SQLite's errors mean for a store.

use rusqlite::ErrorCode;
use unstuck_store::contract::StoreError;

/// Whether it may pass, and what to say.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full("the disk is full".into()),
        Some(ErrorCode::ConstraintViolation) => StoreError::Conflict(error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Away(format!("another process uses the file ({error})"))
        }
        Some(ErrorCode::ReadOnly) => {
            StoreError::Broken("the file cannot be written to; check its permissions".into())
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Broken(format!(
            "the file is damaged or no store of Unstuck ({error}); go back to a copy of it"
        )),
        Some(ErrorCode::SystemIoFailure) => StoreError::Broken(format!("the disk failed ({error})")),
        Some(ErrorCode::CannotOpen) => StoreError::Broken(format!("the file cannot be opened ({error})")),
        _ => StoreError::Broken(error.to_string()),
    }
}

/// The store cannot go on.
pub(crate) fn broken(what: impl Into<String>) -> StoreError {
    StoreError::Broken(what.into())
}
