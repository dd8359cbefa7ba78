//! Who may use the files of a store: its user alone, and never by way of a link.
//!
//! A store names commands to execute and holds payloads and the key of tokens. Whoever can put a file in its place can
//! make its reader execute something, or listen to what is asked; whoever can read it can read all of that.

use std::fs::{self, DirBuilder, File, FileType, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::io::Errno;
use unstuck_store::contract::StoreError;

use crate::error::{broken_store, folder_error};
use crate::open::DATABASE;
use crate::reserve::RESERVE;

/// The file that the owner locks.
pub(crate) const LOCK: &str = "lock";
const SOCKET: &str = "socket";
/// What everybody but the user of a store may do with its files: nothing.
const OTHERS: u32 = 0o077;

/// Refuses a store of which anything belongs to another user, or is a symbolic link, or is no plain file. What is not
/// there is no reason to refuse.
pub fn check_access(directory: &Path) -> Result<(), StoreError> {
    // A slash at the end would lead through a link.
    let directory: PathBuf = directory.components().collect();
    check_owner_and_type(&directory, "the folder", FileType::is_dir)?;
    check_owner_and_type(&directory.join(SOCKET), "the socket", FileTypeExt::is_socket)?;
    for path in list_store_files(&directory) {
        check_owner_and_type(&path, "the file", FileType::is_file)?;
    }
    let database = directory.join(DATABASE);
    match rustix::fs::access(&database, Access::READ_OK) {
        Err(Errno::ACCESS) => Err(broken_store(format!(
            "no permission to read {}, so it is unknown whether it is a store; restore the permission \
             (`chmod u+rw {}`), or name another store with --store",
            database.display(),
            database.display()
        ))),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Says which folder above `path` this user may not enter, and what to do: nobody can tell then whether `path`
/// exists.
fn permission_error(path: &Path) -> StoreError {
    let closed = path.ancestors().skip(1).find(|folder| fs::symlink_metadata(folder).is_ok());
    let folder = closed.unwrap_or(path).display();
    let user = rustix::process::geteuid().as_raw();
    broken_store(format!(
        "no permission to read the folder {folder}, so it is unknown whether {} exists; run the command as another user \
         (this is user {user}), give this user permission (`chmod u+rwx {folder}` if it owns the folder), or name another store \
         with --store",
        path.display()
    ))
}

/// Whether the folder of a store and its database can be written to.
pub fn is_writable(directory: &Path) -> bool {
    let database = directory.join(DATABASE);
    let can_write = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    can_write(directory) && (!database.exists() || can_write(&database))
}

/// Removes the access of group and others to the folder and files of a store: payloads may hold secrets.
pub(crate) fn restrict_permissions(directory: &Path) -> Result<(), StoreError> {
    restrict_file(directory)?;
    // Nobody else can put anything there any more.
    check_access(directory)?;
    list_store_files(directory).iter().try_for_each(|path| restrict_file(path))
}

/// Makes a folder for its user alone, with those above it that are not there.
pub(crate) fn make_folder(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Makes a file for its user alone, unless it is there.
pub(crate) fn make_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Lists the paths that a store may have in its folder, whether they exist or not.
fn list_store_files(directory: &Path) -> Vec<PathBuf> {
    let database =
        [String::new(), "-wal".to_owned(), "-shm".to_owned()].map(|end| format!("{DATABASE}{end}"));
    let names = database.into_iter().chain([LOCK, RESERVE].map(str::to_owned));
    names.map(|name| directory.join(name)).collect()
}

/// Refuses a path that another user owns or that is of another type than expected; a missing one is fine.
fn check_owner_and_type(
    path: &Path,
    what: &str,
    is_right: impl Fn(&FileType) -> bool,
) -> Result<(), StoreError> {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(permission_error(path)),
        Err(error) => return Err(folder_error(what, path, "cannot be inspected", &error)),
    };
    let (shown, user) = (path.display(), rustix::process::geteuid().as_raw());
    if about.is_symlink() {
        return Err(broken_store(format!(
            "{shown} is a symbolic link, which could point to files of another user; give the folder that it points \
             to, or put {what} itself in its place"
        )));
    }
    if about.uid() != user {
        return Err(broken_store(format!(
            "{shown} belongs to user {}, but this command runs as user {user}. Only its owner may use a store, because a \
             store defines which commands are executed; run the command as user {}, or give another store",
            about.uid(),
            about.uid()
        )));
    }
    if !is_right(&about.file_type()) {
        let kind = what.trim_start_matches("the ");
        return Err(broken_store(format!("{shown} is not a {kind}; move it away, or give another store")));
    }
    Ok(())
}

fn restrict_file(path: &Path) -> Result<(), StoreError> {
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
    let mode = about.permissions().mode();
    if mode & OTHERS == 0 || about.is_symlink() {
        return Ok(());
    }
    let changed = fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS));
    changed.map_err(|error| {
        let failed = "is open to other users, and closing it failed";
        folder_error("what is in", path, failed, &error)
    })
}
