//! Who may use a store: what belongs to another user, and what is a link, is refused; what is ours is ours alone.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use unstuck_sqlite::{SqliteReader, SqliteStore, check_access, copy, info, verify};
use unstuck_store::conformance::sessions::session;
use unstuck_store::contract::Store as _;

use crate::read_only::again;

const FILES: [&str; 4] = ["lock", "unstuck.db", "unstuck.db-wal", "unstuck.db-shm"];

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode is set");
}

/// The folder has 0700, and whatever is in it 0600.
fn assert_private(folder: &Path) {
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    let entries: Vec<PathBuf> =
        folder.read_dir().expect("readable").map(|entry| entry.expect("readable").path()).collect();
    assert!(!entries.is_empty());
    for path in entries {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

/// What every way of using a store says about this one.
fn refusals(store: &Path, folder: &Path) -> Vec<String> {
    let compile = &mut |_: &_| Err(String::new());
    vec![
        SqliteStore::open(store).expect_err("refused").to_string(),
        SqliteReader::open(store).expect_err("refused").to_string(),
        info(store).expect_err("refused").to_string(),
        verify::check(store, compile, &mut |_| ()).expect_err("refused").to_string(),
        copy(store, &folder.join("copy")).expect_err("refused").to_string(),
    ]
}

/// Number 19: a folder that was there with 0755 had a database of 0644, and a copy had 0755 and 0644.
#[test]
fn a_store_and_its_copies_are_for_their_user_alone_also_what_exists() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (folder.path().join("store"), folder.path().join("copies/monday"));
    for path in [&here, &there] {
        fs::create_dir_all(path).expect("made");
        set_mode(path, 0o755);
    }
    let mut store = SqliteStore::open(&here).expect("opens");
    store.open_session(session([7; 32])).expect("begins");
    assert_private(&here);
    copy(&here, &there).expect("copied");
    assert_private(&there);
    let new = folder.path().join("copies/tuesday");
    copy(&here, &new).expect("copied");
    assert_private(&new);
    drop(store);
    // What an older version has left.
    set_mode(&here, 0o755);
    for name in ["lock", "unstuck.db"] {
        set_mode(&here.join(name), 0o644);
    }
    let mut store = SqliteStore::open(&here).expect("opens");
    store.open_session(session([7; 32])).expect("begins");
    assert_private(&here);
    for name in FILES {
        assert!(here.join(name).exists(), "{name} was looked at");
    }
}

#[test]
fn a_symbolic_link_in_the_place_of_a_store_or_of_its_files_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().join("real");
    drop(SqliteStore::open(&real).expect("opens"));
    let link = folder.path().join("link");
    symlink(&real, &link).expect("linked");
    for path in [link.clone(), link.join("")] {
        for refused in refusals(&path, folder.path()) {
            assert!(refused.contains("link is a symbolic link"), "{refused}");
        }
    }
    for name in ["lock", "socket", "unstuck.db", "unstuck.db-wal", "unstuck.db-shm", "reserve"] {
        let store = folder.path().join(format!("with-{name}"));
        drop(SqliteStore::open(&store).expect("opens"));
        let elsewhere = folder.path().join(format!("of-{name}"));
        fs::write(&elsewhere, "precious").expect("written");
        let _ = fs::remove_file(store.join(name));
        symlink(&elsewhere, store.join(name)).expect("linked");
        for refused in refusals(&store, folder.path()) {
            assert!(refused.contains(&format!("{name} is a symbolic link")), "{refused}");
        }
        assert_eq!(fs::read_to_string(&elsewhere).expect("there"), "precious");
    }
    assert!(!folder.path().join("copy").exists(), "nothing was copied");
}

/// Number 19: root's `run --continue` executed another user's command as root.
#[test]
fn a_store_of_another_user_is_refused() {
    const TEST: &str = "users::a_store_of_another_user_is_refused";
    if fs::metadata("/proc/self").expect("there is a process").uid() != 0 {
        let refused = check_access(Path::new("/")).expect_err("refused").to_string();
        assert!(refused.contains("/ belongs to user 0, but this command runs as user"), "{refused}");
        eprintln!("NOT TESTED file by file: only root can give a file to another user.");
        return;
    }
    // The folder of root is tested by a process of somebody else, which runs this test too.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o755);
    again(command, TEST, folder.path());
    for name in ["", "lock", "socket", "unstuck.db", "unstuck.db-wal", "unstuck.db-shm", "reserve"] {
        let store = folder.path().join(format!("with-{name}"));
        drop(SqliteStore::open(&store).expect("opens"));
        let path = if name.is_empty() { store.clone() } else { store.join(name) };
        if !path.exists() {
            fs::write(&path, "").expect("written");
        }
        chown(&path, Some(65_534), None).expect("given away");
        for refused in refusals(&store, folder.path()) {
            let wanted = "belongs to user 65534, but this command runs as user 0";
            assert!(refused.contains(wanted) && refused.contains(name), "{name}: {refused}");
        }
    }
    assert!(!folder.path().join("copy").exists(), "nothing was copied");
}
