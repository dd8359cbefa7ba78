//! A disk that is full for real: a small file system, and a limit of the size of files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use unstuck_sqlite::{Options, WriteMode};
use unstuck_store::contract::StoreError;

use crate::support::fixture::Fixture;
use crate::support::ledger::Ledger;

/// Names the folder on the small disk, for the process that is started there.
const FOLDER: &str = "UNSTUCK_TEST_FOLDER";

/// The shell, for a script about this folder; with mounts of its own where it needs them.
fn shell(own_mounts: bool, script: &str, folder: &Path) -> Command {
    let mut command = if own_mounts { Command::new("unshare") } else { Command::new("env") };
    if own_mounts {
        command.args(["--map-root-user", "--mount"]);
    }
    command.args(["sh", "-c", script, "sh"]).env(FOLDER, folder);
    command
}

/// The test again, in the process that a script becomes.
fn again(mut shell: Command, test: &str) -> Output {
    let this = std::env::current_exe().expect("the test is a file");
    shell.arg(this).args(["--exact", test, "--nocapture"]).output().expect("a process starts")
}

fn assert_passed(output: &Output) {
    let told =
        [&output.stdout[..], &output.stderr[..]].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success() && told[0].contains("1 passed"), "{}\n{}", told[0], told[1]);
}

fn inner_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

#[test]
fn a_small_disk_fills_up() {
    if let Some(folder) = inner_folder() {
        return fill_up(&folder, |folder| fs::remove_file(folder.join("ballast")).expect("room is made"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mount = r#"mount -t tmpfs -o size=2m tmpfs "$UNSTUCK_TEST_FOLDER""#;
    let tried = shell(true, mount, folder.path()).status();
    if !tried.is_ok_and(|status| status.success()) {
        eprintln!("NOT TESTED on a small disk: this machine lets nobody mount one in a namespace.");
        eprintln!("The limit of the size of files, which every machine has, is tested in place of it.");
        return a_limit_of_the_size_of_files_is_a_full_disk();
    }
    let ballast = r#"head -c 1000000 /dev/zero > "$UNSTUCK_TEST_FOLDER/ballast""#;
    let script = format!(r#"{mount} && {ballast} && exec "$@""#);
    assert_passed(&again(shell(true, &script, folder.path()), "full_for_real::a_small_disk_fills_up"));
}

#[test]
fn a_limit_of_the_size_of_files_is_a_full_disk() {
    if let Some(folder) = inner_folder() {
        return fill_up(&folder, |_| {
            let process = std::process::id().to_string();
            let lifted = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &process]).status();
            assert!(lifted.is_ok_and(|status| status.success()), "the limit is lifted");
        });
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = r#"trap "" XFSZ; ulimit -S -f 1600; exec "$@""#;
    let test = "full_for_real::a_limit_of_the_size_of_files_is_a_full_disk";
    assert_passed(&again(shell(false, script, folder.path()), test));
}

/// Fills the disk up, makes room, and goes on; then the same with a store that is opened when there is no room.
fn fill_up(folder: &Path, make_room: impl FnOnce(&Path)) {
    let options = Options { hand: WriteMode::Thread, checkpoint_pages: 30, ..Options::default() };
    let mut ledger = Ledger::new(Fixture::in_this_folder(&folder.join("store"), options));
    ledger.start_all(10);
    for _ in 0..3 {
        let error = ledger.start_until_it_fails();
        assert!(matches!(error, StoreError::Full(_)), "{error}");
        assert!(matches!(ledger.driver.begin(), Err(StoreError::Full(_))));
        ledger.read_everything();
    }
    let durable = ledger.durable.len();
    // It may be opened on a full disk, or refuse; whatever it does, nothing is lost.
    ledger.fixture().close();
    if let Err(error) = ledger.fixture().restart() {
        assert!(matches!(error, StoreError::Full(_)), "{error}");
    }
    make_room(folder);
    ledger.restart().expect("there is room");
    ledger.start_all(50);
    ledger.read_everything();
    ledger.restart().expect("opens");
    ledger.check();
    assert_eq!(ledger.durable.len(), durable + 50);
    println!("{durable} runs fitted");
}
