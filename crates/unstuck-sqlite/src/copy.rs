//! A copy of a store, taken beside whoever owns it: what a backup is made of.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;
use unstuck_store::contract::StoreError;

use crate::check;
use crate::error::{broken, folder_error, store_error};
use crate::open::DATABASE;
use crate::rows;

/// Copies the store in `from` to the folder `to`, which must be empty or not there. The copy is what was durable at one
/// moment, and whole, whatever an engine does meanwhile. It begins an epoch of its own: tokens that were given out by the
/// store that it was taken of fit nothing in it.
pub fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let connection = check::open_for_reading(from)?;
    make_empty_folder(to)?;
    let part = to.join("copying");
    let copied = copy_into(&connection, &part).and_then(|()| {
        fs::rename(&part, to.join(DATABASE))
            .and_then(|()| File::open(to)?.sync_all())
            .map_err(|error| folder_error("the copy in", to, "cannot be made durable", &error))
    });
    if copied.is_err() {
        // Half a copy is none.
        let _ = fs::remove_file(&part);
    }
    copied
}

fn make_empty_folder(to: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(to).map_err(|error| folder_error("the folder", to, "cannot be made", &error))?;
    let mut entries =
        to.read_dir().map_err(|error| folder_error("the folder", to, "cannot be read", &error))?;
    if entries.next().is_some() {
        let shown = to.display();
        return Err(broken(format!(
            "the folder {shown} is not empty; give one that is, or is not there yet"
        )));
    }
    Ok(())
}

fn copy_into(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let shown = path.to_str().ok_or_else(|| broken("the name of the folder is not UTF-8"))?;
    connection.execute("VACUUM INTO ?1", [shown]).map_err(store_error)?;
    let copy = Connection::open(path).map_err(store_error)?;
    let epoch = rows::meta(&copy, "epoch")?.unwrap_or(1) + 1;
    let sql = "INSERT INTO meta (name, value) VALUES ('epoch', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    copy.execute(sql, [epoch]).map_err(store_error)?;
    copy.close().map_err(|(_, error)| store_error(error))?;
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| folder_error("the copy", path, "cannot be made durable", &error))
}
