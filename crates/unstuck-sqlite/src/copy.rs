//! A copy of a store, taken beside whoever owns it: what a backup is made of.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use rusqlite::Connection;
use unstuck_store::contract::StoreError;

use crate::access::{check_access, make_file, make_folder, restrict_permissions};
use crate::checksum;
use crate::error::{broken_store, folder_error, store_error};
use crate::open::{DATABASE, load_state};
use crate::schema::is_current;
use crate::table::meta;
use crate::verify;

/// The copy while it is made: what stands under this name when nobody makes it is half a copy.
const PART: &str = "copying";
/// Its name, and what SQLite may put beside it.
const PARTS: [&str; 4] = [PART, "copying-journal", "copying-wal", "copying-shm"];

/// Copies the store in `from` to the folder `to`, which must be empty or not there; what a copy that was killed has left
/// there is removed. The copy is what was durable at one moment, and whole, whatever an engine does meanwhile. It begins
/// an epoch of its own: tokens that were given out by the store that it was taken of fit nothing in it.
pub fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let connection = verify::open_for_reading(from)?;
    let part = to.join(PART);
    let _lock = create_locked_part(to, &part)?;
    let copied = copy_into(&connection, &part).and_then(|()| {
        fs::rename(&part, to.join(DATABASE))
            .and_then(|()| File::open(to)?.sync_all())
            .map_err(|error| folder_error("the copy in", to, "cannot be synced to disk", &error))
    });
    if copied.is_err() {
        // Half a copy is none.
        remove_parts(to);
    }
    copied
}

/// Creates the folder for its user alone, and the file that the copy is written to. The file is locked until the copy
/// is complete, so that two copies do not mix, and a leftover of a killed one is known by its free lock.
fn create_locked_part(to: &Path, part: &Path) -> Result<File, StoreError> {
    check_access(to)?;
    make_folder(to).map_err(|error| folder_error("the folder", to, "cannot be created", &error))?;
    restrict_permissions(to)?;
    let unreadable = |error| folder_error("the folder", to, "cannot be read", &error);
    for entry in to.read_dir().map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if !PARTS.iter().any(|part| name == *part) {
            let shown = to.display();
            return Err(broken_store(format!(
                "the folder {shown} is not empty; give an empty or a new folder"
            )));
        }
    }
    let unmade = |error| folder_error("the copy", part, "cannot be created", &error);
    if File::open(part).is_ok_and(|left| matches!(left.try_lock(), Err(TryLockError::WouldBlock))) {
        let shown = to.display();
        return Err(StoreError::Away(format!("another process is making a copy in {shown}")));
    }
    remove_parts(to);
    let file = make_file(part).map_err(unmade)?;
    let _ = file.try_lock();
    Ok(file)
}

/// Removes what a copy that failed or was killed has left. The caller knows that none is under way.
fn remove_parts(folder: &Path) {
    for name in PARTS {
        let _ = fs::remove_file(folder.join(name));
    }
}

/// Says that no copy was made if what was copied is damaged; other errors stay as they are.
fn copy_error(error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged(what) | StoreError::Broken(what) => {
            StoreError::Damaged(format!("no copy was made: {what}"))
        }
        StoreError::Conflict(_)
        | StoreError::Full(_)
        | StoreError::Away(_)
        | StoreError::SessionEnded
        | StoreError::Closed => error,
    }
}

/// Lets SQLite copy a consistent snapshot, checks it as opening a store would, and begins a new epoch.
fn copy_into(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let shown = path.to_str().ok_or_else(|| broken_store("the name of the folder is not UTF-8"))?;
    connection.execute("VACUUM INTO ?1", [shown]).map_err(store_error)?;
    let copy = Connection::open(path).map_err(store_error)?;
    if is_current(&copy)? {
        // A copy of what is damaged would be found when it is needed, and be of no use then.
        checksum::verify_all_sums(&copy).and_then(|()| load_state(&copy).map(|_| ())).map_err(copy_error)?;
    }
    if is_current(&copy)? {
        // What is only a cache is made again where it is needed, and whatever is wrong with it stays behind.
        copy.execute("DELETE FROM run_snapshot", []).map_err(store_error)?;
    }
    let epoch = meta::load_number(&copy, "epoch")?.unwrap_or(1) + 1;
    let sql = "INSERT INTO meta (name, value) VALUES ('epoch', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    copy.execute(sql, [epoch]).map_err(store_error)?;
    copy.close().map_err(|(_, error)| store_error(error))?;
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| folder_error("the copy", path, "cannot be synced to disk", &error))
}
