//! Folders and files that may not be written to: a sentence that says which, and nothing is changed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use unstuck_sqlite::SqliteStore;

/// Names the folder, for the process that is started by somebody else than root, or with mounts of its own.
const FOLDER: &str = "UNSTUCK_TEST_FOLDER";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode is set");
}

/// Runs a test again with what `command` begins with; it finds the folder in its environment.
fn again(mut command: Command, test: &str, folder: &Path) {
    // Somebody else may not come to where the test is.
    let this = folder.join("test");
    fs::copy(std::env::current_exe().expect("the test is a file"), &this).expect("copied");
    set_mode(&this, 0o755);
    let output = command.arg(&this).args(["--exact", test, "--nocapture"]).env(FOLDER, folder).output();
    let output = output.expect("a process starts");
    let told =
        [&output.stdout[..], &output.stderr[..]].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success() && told[0].contains("1 passed"), "{}\n{}", told[0], told[1]);
}

fn refusal(folder: &Path) -> String {
    SqliteStore::open(folder).expect_err("refused").to_string()
}

/// Which file has which mode, what is said, and what to do.
const MODES: [(&str, u32, &str, &str); 4] = [
    ("", 0o555, "lock cannot be opened: Permission denied", "check the owner"),
    ("lock", 0o444, "lock cannot be opened: Permission denied", "check the owner"),
    ("unstuck.db", 0o444, "unstuck.db cannot be opened: Permission denied", "check the owner"),
    ("unstuck.db", 0o000, "no permission to read", "chmod u+rw"),
];

#[test]
fn what_may_not_be_written_to_is_told() {
    let own = tempfile::tempdir().expect("a folder");
    let given = std::env::var_os(FOLDER).map(PathBuf::from);
    let folder = given.as_deref().unwrap_or(own.path());
    if given.is_none() && fs::metadata("/proc/self").expect("there is a process").uid() == 0 {
        // To root no file is forbidden.
        set_mode(folder, 0o777);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        return again(command, "permissions::what_may_not_be_written_to_is_told", folder);
    }
    for (place, (name, mode, says, hint)) in MODES.into_iter().enumerate() {
        let store = folder.join(place.to_string());
        drop(SqliteStore::open(&store).expect("opens"));
        if name.is_empty() {
            fs::remove_file(store.join("lock")).expect("removed");
        }
        let before = fs::read(store.join("unstuck.db")).expect("readable");
        let path = store.join(name);
        set_mode(&path, mode);
        let refused = refusal(&store);
        assert!(refused.contains(says) && refused.contains(hint), "{name} {mode:o}: {refused}");
        set_mode(&path, 0o755);
        assert_eq!(fs::read(store.join("unstuck.db")).expect("readable"), before);
    }
    let forbidden = folder.join("forbidden");
    fs::create_dir(&forbidden).expect("made");
    set_mode(&forbidden, 0o555);
    let refused = refusal(&forbidden.join("store"));
    assert!(refused.contains("forbidden/store cannot be created: Permission denied"), "{refused}");
}

#[test]
fn a_disk_that_is_mounted_read_only_is_told() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let store = Path::new(&folder).join("disk");
        let refused = refusal(&store);
        assert!(refused.contains("lock cannot be opened: Read-only file system"), "{refused}");
        assert!(refused.contains("mounted read-only: give a writable folder"), "{refused}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    drop(SqliteStore::open(&disk).expect("opens"));
    let mount = r#"mount --bind "$UNSTUCK_TEST_FOLDER/disk" "$UNSTUCK_TEST_FOLDER/disk" &&
        mount -o remount,ro,bind "$UNSTUCK_TEST_FOLDER/disk""#;
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).env(FOLDER, folder.path());
        command
    };
    if !shell(mount).status().is_ok_and(|status| status.success()) {
        eprintln!("NOT TESTED: this machine lets nobody mount a disk in a namespace.");
        return;
    }
    let script = format!(r#"{mount} && exec "$@""#);
    again(shell(&script), "permissions::a_disk_that_is_mounted_read_only_is_told", folder.path());
}
