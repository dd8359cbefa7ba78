//! An owner that is stopped, folders that let nobody in, and a clock that was wrong.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{Folder, REFUSED, Ran, Store};

const UNAVAILABLE: i32 = 6;
const APPROVAL: &str = "flow: approval\nsteps:\n  - {id: approved, signal: approve}\n";

#[test]
#[cfg(target_os = "linux")]
fn a_stopped_owner_is_named_and_what_the_file_says_is_shown_at_once() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waiting for signal `approve`");
    run.send(Signal::STOP);
    let stat = format!("/proc/{}/stat", run.id());
    wait_until(|| fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")));
    let sentence = format!("process {} has the store open but is suspended", run.id());
    let reads: [&[&str]; 4] =
        [&["runs"], &["show", "@latest"], &["explain", "@latest"], &["history", "@latest"]];
    for command in reads {
        let begun = Instant::now();
        let read = store.unstuck(command);
        assert_eq!(read.code, 0, "{command:?}: {}", read.stderr);
        assert!(read.stderr.contains(&sentence), "{command:?}: {}", read.stderr);
        assert!(read.stdout.contains("approv"), "{command:?}: {}", read.stdout);
        // The owner is given ten seconds to do what changes something.
        assert!(begun.elapsed() < Duration::from_secs(9), "{command:?} took {:?}", begun.elapsed());
    }
    // Its owner lives: it is not idle, and what helps is to let the owner continue.
    let explained = store.unstuck(&["explain", "@latest"]).stdout;
    let words = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = format!("Process {} has the store open and is suspended", run.id());
    for part in [note.as_str(), &format!("kill -CONT {} ", run.id())] {
        assert!(words.contains(part), "{part} in\n{explained}");
    }
    assert!(!explained.contains("unstuck signal"), "it would be refused now:\n{explained}");
    for command in reads {
        let read = store.unstuck(command).stdout;
        assert!(!read.contains("idle") && !read.contains("--continue"), "{command:?}: {read}");
    }
    for (command, place) in [("show", "/idle"), ("explain", "/idle")] {
        let document = store.unstuck(&[command, "@latest", "-o", "json"]).json();
        assert_eq!(document.pointer(place), Some(&serde_json::json!(false)), "{command}: {document}");
    }
    let info = store.unstuck(&["store", "info", "-o", "json"]);
    assert_eq!((info.json()["owner"].as_u64(), info.code), (Some(run.id().into()), 0), "{}", info.stderr);
    assert!(info.stderr.contains(&sentence), "{}", info.stderr);

    let change = store.unstuck(&["signal", "@latest", "approve", "1"]);
    assert_eq!(change.code, UNAVAILABLE, "{}", change.stderr);
    for part in ["Nothing was changed", sentence.as_str(), &format!("kill -CONT {}", run.id())] {
        assert!(change.stderr.contains(part), "{part} in {}", change.stderr);
    }
    run.send(Signal::CONT);
    assert_eq!(store.unstuck(&["signal", "@latest", "approve", "1"]).code, 0);
    assert_eq!(run.wait().code, 0);
}

#[test]
fn missing_permission_is_told_with_the_folder_and_what_to_do() {
    let store = Store::new();
    assert_eq!(store.run_flow("flow: a\nsteps:\n  - {id: b, set: 1}\n", &[]).code, 0);
    let is_root = rustix::process::geteuid().is_root();
    let nobody = |arguments: &[&str]| {
        let binary = env!("CARGO_BIN_EXE_unstuck");
        let mut command = if is_root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", binary]);
            command
        } else {
            Command::new(binary)
        };
        command.args(arguments).output().map(Ran::of)
    };
    if !nobody(&["--version"]).is_ok_and(|ran| ran.code == 0) {
        eprintln!("NOT TESTED: nobody but root can execute the command here.");
        return;
    }
    let database = format!("{}/unstuck.db", store.path());
    if is_root {
        for entry in fs::read_dir(store.path()).expect("readable") {
            chown(entry.expect("readable").path(), Some(65_534), None).expect("given away");
        }
        chown(store.path(), Some(65_534), None).expect("given away");
        // The folder above it is root's, and lets everybody pass.
        fs::set_permissions(store.folder(), Permissions::from_mode(0o755)).expect("changed");
    }
    let set =
        |path: &str, mode: u32| fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
    let path = store.path();
    let cases = [
        (path.as_str(), 0o000, format!("no permission to read the folder {path}")),
        (database.as_str(), 0o000, format!("no permission to read {database}")),
    ];
    for (place, mode, said) in cases {
        set(place, mode);
        for command in [&["runs"][..], &["store", "info"], &["store", "check"], &["cancel", "@latest"]] {
            let ran = nobody(&[command, &["--store", &path]].concat()).expect("it runs");
            assert_eq!(ran.code, REFUSED, "{command:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(&said) && ran.stderr.contains("chmod u+rw"), "{}", ran.stderr);
        }
        set(place, 0o700);
    }
    assert_eq!(nobody(&["runs", "--store", &path]).expect("it runs").code, 0);
}

#[test]
fn times_in_the_future_and_a_clock_that_was_set_are_told() {
    let faketime = |offset: &str, arguments: &[&str]| {
        let mut command = Command::new("faketime");
        command.args(["-f", offset, env!("CARGO_BIN_EXE_unstuck")]).args(arguments);
        command.output().map(Ran::of)
    };
    if !faketime("+1y", &["--version"]).is_ok_and(|ran| ran.code == 0) {
        eprintln!("NOT TESTED: there is no faketime here.");
        return;
    }
    let store = Store::new();
    let path = store.path();
    let (_folder, flow) = Folder::with("a.yaml", "flow: a\nsteps:\n  - {id: b, set: 1}\n");
    let ahead = faketime("+400d", &["run", &flow, "--store", &path]).expect("it runs");
    assert_eq!(ahead.code, 0, "{}", ahead.stderr);
    for command in [["store", "check"], ["store", "info"]] {
        let said = store.unstuck(&command);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        assert!(
            said.stdout.contains("in the future") && said.stdout.contains("nothing is delayed"),
            "{}",
            said.stdout
        );
        let json = store.unstuck(&[&command[..], &["-o", "json"]].concat()).json();
        assert!(json["clock"]["aheadBy"].as_f64().is_some_and(|ahead| ahead > 86_400.0), "{json}");
    }
    // So it is of a run whose times lie there.
    let explained = store.unstuck(&["explain", "@latest"]).stdout;
    let words = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("in the future") && words.contains("nothing is delayed"), "{explained}");
    let notes = store.unstuck(&["explain", "@latest", "-o", "json"]).json()["notes"].to_string();
    assert!(notes.contains("in the future"), "{notes}");
    // Whoever changes something sets it right.
    assert_eq!(store.unstuck(&["run", &flow]).code, 0);
    for command in [["store", "check"], ["store", "info"]] {
        let said = store.unstuck(&command).stdout;
        assert!(said.contains("The clock was set back by") && said.contains("Nothing is delayed"), "{said}");
    }

    // What a run does after the clock was set back happened when the clock says, not years ago.
    let store = Store::new();
    let path = store.path();
    let (_folder, flow) = Folder::with(
        "b.yaml",
        "flow: b\nsteps:\n  - {id: c, run: exit 1, retryStrategy: hold, timeout: 1m}\n",
    );
    let held = faketime("+400d", &["run", &flow, "--store", &path]).expect("it runs");
    assert_eq!(held.code, 3, "{}", held.stderr);
    assert_eq!(store.unstuck(&["choose", "@latest", "c", "none"]).code, 0);
    let headline = store.unstuck(&["explain", "@latest", "-o", "json"]).json()["headline"].to_string();
    assert!(headline.contains("failed") && !headline.contains("399d"), "{headline}");
}
