//! A store that cannot be written to, or that nobody should write to: it is read, and nothing changes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use unstuck_sqlite::{SqliteReader, SqliteStore, copy, info, is_writable, verify};
use unstuck_store::conformance::contents::contents;
use unstuck_store::conformance::driver::Driver;
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::conformance::sessions::session;
use unstuck_store::contract::{Reader as _, RunFilter, Store as _, StoreError};

/// Names the folder, for the process that is started by somebody else than root, or with mounts of its own.
const FOLDER: &str = "UNSTUCK_TEST_FOLDER";
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("there is a process").uid() == 0
}

/// Two stores with the same in it, of which one was closed and one was not.
fn make(folder: &Path) {
    let open = folder.join("open");
    let mut driver = Driver::new(SqliteStore::open(&open).expect("opens"));
    driver.store.open_session(session([7; 32])).expect("begins");
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let runs: Vec<_> = (0..50).map(|_| driver.start(&flow)).collect();
    driver.work(runs[0], 0);
    contents(&mut driver.store, driver.flows.values());
    let crashed = folder.join("crashed");
    fs::create_dir(&crashed).expect("made");
    // The shared memory is what a reader would have to make.
    for name in ["lock", "unstuck.db", "unstuck.db-wal"] {
        fs::copy(open.join(name), crashed.join(name)).expect("copied");
    }
    assert!(fs::metadata(crashed.join("unstuck.db-wal")).expect("there").len() > 0);
    drop(driver);
    fs::rename(open, folder.join("closed")).expect("renamed");
    assert!(!folder.join("closed/unstuck.db-wal").exists());
}

fn snapshot(store: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = store
        .read_dir()
        .expect("readable")
        .map(|entry| entry.expect("readable").path())
        .map(|path| (path.clone(), fs::read(path).expect("readable")))
        .collect();
    files.sort();
    files
}

/// Everything that only reads, on a store that cannot be written to.
fn read_all(folder: &Path, backup: &Path) {
    for name in ["closed", "crashed"] {
        let store = folder.join(name);
        assert!(!is_writable(&store), "{name}");
        assert!(SqliteStore::open(&store).is_err(), "{name} cannot be owned");
        let before = snapshot(&store);
        let opened = SqliteReader::open(&store).expect("opens");
        let runs = opened.list(&RunFilter::default(), None, 100).expect("listed");
        assert_eq!(runs.len(), 50, "{name}");
        let events = |run: usize| opened.history(runs[run].id, 0, 10).expect("read").len();
        assert!(events(0) == 1 && events(49) > 1, "{name}: the first one has gone on");
        drop(opened);
        assert_eq!(info(&store).expect("told").runs.values().sum::<u64>(), 50, "{name}");
        let compile = &mut |_: &_| Err("unknown".to_owned());
        let report = verify::check(&store, compile, &mut |_| ()).expect("checked");
        assert_eq!(report.runs, 50, "{name}");
        let copied = backup.join(name);
        copy(&store, &copied).expect("copied");
        let mut copied = SqliteStore::open(&copied).expect("opens");
        assert_eq!(copied.list(&RunFilter::default(), None, 100).expect("listed").len(), 50, "{name}");
        assert_eq!(snapshot(&store), before, "{name} is as it was");
    }
}

/// Number 17: a folder that may not be written to.
#[test]
fn a_store_that_may_not_be_written_to_is_listed_checked_and_copied() {
    const TEST: &str = "read_only::a_store_that_may_not_be_written_to_is_listed_checked_and_copied";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return read_all(Path::new(&folder), &Path::new(&folder).join("copies"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path());
    for name in ["closed", "crashed"] {
        let store = folder.path().join(name);
        for (path, _) in snapshot(&store) {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("set");
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("given away");
            }
        }
        fs::set_permissions(&store, fs::Permissions::from_mode(0o500)).expect("set");
        if is_root() {
            chown(&store, Some(NOBODY), Some(NOBODY)).expect("given away");
        }
    }
    if !is_root() {
        return read_all(folder.path(), &folder.path().join("copies"));
    }
    // To root no file is forbidden.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("set");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    again(command, TEST, folder.path());
}

/// Number 17: a disk that is mounted read-only.
#[test]
fn a_store_on_a_read_only_disk_is_listed_checked_and_copied() {
    const TEST: &str = "read_only::a_store_on_a_read_only_disk_is_listed_checked_and_copied";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return read_all(&Path::new(&folder).join("disk"), &Path::new(&folder).join("copies"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("made");
    make(&disk);
    let mount = r#"mount --bind "$UNSTUCK_TEST_FOLDER/disk" "$UNSTUCK_TEST_FOLDER/disk" &&
        mount -o remount,ro,bind "$UNSTUCK_TEST_FOLDER/disk""#;
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).env(FOLDER, folder.path());
        command
    };
    if !shell(mount).status().is_ok_and(|status| status.success()) {
        eprintln!("NOT TESTED on a disk: this machine lets nobody mount one in a namespace.");
        eprintln!("A folder that may not be written to is tested in place of it.");
        return a_store_that_may_not_be_written_to_is_listed_checked_and_copied();
    }
    again(shell(&format!(r#"{mount} && exec "$@""#)), TEST, folder.path());
}

/// Runs a test again with what `command` begins with; it finds the folder in its environment.
pub(crate) fn again(mut command: Command, test: &str, folder: &Path) {
    // Somebody else may not come to where the test is.
    let this = folder.join("test");
    fs::copy(std::env::current_exe().expect("the test is a file"), &this).expect("copied");
    fs::set_permissions(&this, fs::Permissions::from_mode(0o755)).expect("set");
    let output = command.arg(&this).args(["--exact", test, "--nocapture"]).env(FOLDER, folder).output();
    let output = output.expect("a process starts");
    let told =
        [&output.stdout[..], &output.stderr[..]].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success() && told[0].contains("1 passed"), "{}\n{}", told[0], told[1]);
}

#[test]
fn who_only_reads_waits_for_an_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let owner = SqliteStore::open(folder.path()).expect("opens");
    assert!(matches!(SqliteReader::open(folder.path()), Err(StoreError::Away(_))));
    drop(owner);
    SqliteReader::open(folder.path()).expect("opens");
}
