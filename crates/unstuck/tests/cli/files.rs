//! The files of a store, from outside: who may use them, full and read-only disks, and one owner without a lock file.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use crate::support::under_way::UnderWay;
use crate::support::{Folder, REFUSED, Ran, Store};

const APPROVAL: &str = "flow: approval\nsteps:\n  - {id: approved, signal: approve}\n";
const ONE: &str = "flow: one\nsteps:\n  - {id: one, timeout: 1m, run: 'touch was-executed'}\n";

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("there is a process").uid() == 0
}

fn ok(ran: Ran) -> Ran {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran
}

/// Number 18: with the lock file removed there were two owners, and a third command hung.
#[test]
fn removing_the_lock_file_makes_no_second_owner() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waiting for signal `approve`");
    fs::remove_file(format!("{}/lock", store.path())).expect("removed");
    let file = store.write("other.yaml", ONE);
    let second = UnderWay::command(&store, &["run", &file]);
    second.until_stderr(&format!("Process {} has the store {} open", run.id(), store.path()));
    second.send(rustix::process::Signal::INT);
    assert_eq!(second.wait().code, 130);
    assert!(!fs::exists(format!("{}was-executed", store.folder())).expect("looked"));
    assert_eq!(ok(store.unstuck(&["runs", "-o", "json"])).json()["runs"][0]["flow"], "approval");
    // Without its socket, too, it has one owner, and whoever waits says so.
    fs::remove_file(format!("{}/socket", store.path())).expect("removed");
    let third = UnderWay::command(&store, &["run", &file]);
    third.until_stderr(&format!(
        "Another process has the store {} open. Waiting for it to finish.",
        store.path()
    ));
    third.send(rustix::process::Signal::INT);
    assert_eq!(third.wait().code, 130);
    assert!(!fs::exists(format!("{}was-executed", store.folder())).expect("looked"));
    run.send(rustix::process::Signal::INT);
    assert_eq!(run.wait().code, 130);
    ok(store.unstuck(&["run", &file]));
    ok(store.unstuck(&["store", "check"]));
}

/// Number 19: the store, its socket and its copies are nobody else's to read.
#[test]
fn everything_in_a_store_is_for_its_user_alone() {
    let store = Store::new();
    fs::create_dir(store.path()).expect("made");
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waiting for signal `approve`");
    let copy = format!("{}copy", store.folder());
    ok(store.unstuck(&["store", "copy", &copy]));
    for folder in [store.path(), copy] {
        let mode = |path: &str| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700, "{folder}");
        for entry in fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path().to_string_lossy().into_owned();
            assert_eq!(mode(&path), 0o600, "{path}");
        }
    }
    ok(store.unstuck(&["cancel", "@latest"]));
    run.wait();
}

/// Number 19: a planted socket received signals.
#[test]
fn a_planted_socket_is_asked_nothing() {
    let store = Store::new();
    ok(store.run_flow("flow: a\nsteps:\n  - {id: one, set: 1}\n", &[]));
    let planted = format!("{}planted", store.folder());
    let listener = UnixListener::bind(&planted).expect("it listens");
    let socket = format!("{}/socket", store.path());
    symlink(&planted, &socket).expect("linked");
    let ran = store.unstuck(&["signal", "@latest", "secret"]);
    assert!(ran.code == REFUSED && ran.stderr.contains("socket is a symbolic link"), "{}", ran.stderr);
    fs::remove_file(&socket).expect("removed");
    fs::rename(&planted, &socket).expect("moved");
    if is_root() {
        chown(&socket, Some(65_534), None).expect("given away");
        let ran = store.unstuck(&["signal", "@latest", "secret"]);
        assert!(ran.code == REFUSED && ran.stderr.contains("socket belongs to user 65534"), "{}", ran.stderr);
    } else {
        eprintln!("NOT TESTED with another user's socket: only root can give a file to another user.");
    }
    listener.set_nonblocking(true).expect("set");
    assert!(listener.accept().is_err(), "nobody has asked it anything");
}

/// The binary as a user who owns nothing, from a folder where everybody may execute it.
fn as_nobody(folder: &Folder) -> Command {
    fs::copy(env!("CARGO_BIN_EXE_unstuck"), folder.path("unstuck")).expect("copied");
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).expect("set");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(folder.path("unstuck"));
    command.current_dir("/").env("USER", "nobody");
    command
}

/// Number 19: root's `run --continue` executed another user's command as root.
#[test]
fn another_users_store_executes_nothing() {
    // Nobody but root may use what is root's.
    let folder = Folder::new();
    let mut command = if is_root() { as_nobody(&folder) } else { Store::new().command() };
    let ran = Ran::of(command.args(["run", "--continue", "--store", "/"]).output().expect("it runs"));
    assert!(ran.code == REFUSED && ran.stderr.contains("/ belongs to user 0"), "{}{}", ran.code, ran.stderr);
    if !is_root() {
        eprintln!("NOT TESTED with a store of another user: only root can give a file to another user.");
        return;
    }
    let store = Store::new();
    let flow =
        "flow: a\nsteps:\n  - {id: go, signal: go}\n  - {id: one, timeout: 1m, run: 'touch was-executed'}\n";
    let run = UnderWay::start(&store, flow, &[]);
    run.until("waiting for signal `go`");
    ok(store.unstuck(&["signal", "@latest", "go", "--store", &store.path()]));
    run.wait();
    fs::remove_file(format!("{}was-executed", store.folder())).expect("it was executed once");
    let file = store.write("again.yaml", ONE);
    chown(store.path(), Some(65_534), None).expect("given away");
    for arguments in
        [&["run", "--continue"][..], &["run", &file], &["runs"], &["store", "info"], &["store", "check"]]
    {
        let ran = store.unstuck(arguments);
        let wanted = "belongs to user 65534, but this command runs as user 0";
        assert!(ran.code == REFUSED && ran.stderr.contains(wanted), "{arguments:?}: {}", ran.stderr);
    }
    assert!(!fs::exists(format!("{}was-executed", store.folder())).expect("looked"));
}

/// Runs a script with a small disk at `$DISK`, or says that there is none.
fn on_a_small_disk(store: &Store, size: &str, script: &str) -> Option<Vec<String>> {
    let disk = format!("{}disk", store.folder());
    fs::create_dir(&disk).expect("made");
    let mount = format!(r#"mount -t tmpfs -o size={size} tmpfs "$DISK""#);
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).env("DISK", &disk);
        command.env("UNSTUCK", env!("CARGO_BIN_EXE_unstuck")).env("UNSTUCK_STORE", format!("{disk}/store"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    if !shell(&mount).status().is_ok_and(|status| status.success()) {
        eprintln!("NOT TESTED on a full disk: this machine lets nobody mount a small one in a namespace.");
        return None;
    }
    let output = shell(&format!("{mount} && {script}")).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{errors}");
    Some(text.lines().map(str::to_owned).collect())
}

/// Number 17: on a full disk without an owner, reading and `forget` were refused.
#[test]
fn a_full_disk_without_an_owner_can_be_read_and_runs_can_be_forgotten() {
    let store = Store::new();
    let flow = store.write("one.yaml", "flow: one\nsteps:\n  - {id: one, set: '${input.text}'}\n");
    let input = store.write("input.json", format!("{{\"text\": \"{}\"}}", "long ".repeat(10_000)));
    let script = format!(
        r#"
        set -e
        for i in 1 2 3 4 5; do "$UNSTUCK" run '{flow}' --input '@{input}' > "$DISK/log" 2>&1; done
        rm "$DISK/log"
        (cat /dev/zero > "$DISK/ballast") 2> "$DISK/../said" || true
        test "$(df --output=avail "$DISK" | tail -1)" -eq 0
        "$UNSTUCK" runs -o json | grep -c '"id"'
        "$UNSTUCK" show @latest -o json | grep '"state": "completed"' | head -1
        "$UNSTUCK" store info | grep runs
        "$UNSTUCK" store check
        "$UNSTUCK" store copy "$DISK/../copy" > "$DISK/../said"
        "$UNSTUCK" forget @latest --yes -o json | grep -c run_
        "$UNSTUCK" forget @latest --yes -o json | grep -c run_
        "$UNSTUCK" runs -o json | grep -c '"id"'
        "$UNSTUCK" run '{flow}' --input '@{input}' > "$DISK/../said" 2>&1 && echo ran
        "$UNSTUCK" store check > "$DISK/../said" && echo checked
        "#
    );
    let Some(lines) = on_a_small_disk(&store, "16m", &script) else { return };
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    assert_eq!((lines[0], lines[1]), ("5", "\"state\": \"completed\","), "{lines:#?}");
    assert!(lines[2].ends_with("5 completed"), "{lines:#?}");
    assert_eq!(lines[4..], ["1", "1", "3", "ran", "checked"], "{lines:#?}");
    let copy = format!("{}copy", store.folder());
    assert_eq!(
        ok(store.unstuck(&["runs", "-o", "json", "--store", &copy])).json()["runs"].as_array().map(Vec::len),
        Some(5)
    );
}

/// Number 9: a run on a full disk could not be interrupted.
#[test]
fn interrupting_a_run_on_a_full_disk_ends_it_and_says_what_was_not_recorded() {
    let store = Store::new();
    let flow = "flow: sleeps\nsteps:\n  - {id: one, timeout: 10m, run: 'test -e up || { touch up; exec sleep 600; }'}\n";
    let flow = store.write("sleeps.yaml", flow);
    let script = format!(
        r#"
        cd "$DISK/.."
        "$UNSTUCK" run '{flow}' > out 2> err &
        run=$!
        until test -e up; do sleep 0.05; done
        (cat /dev/zero > "$DISK/ballast") 2> said
        kill -TERM $run
        wait $run
        echo "ended with $?"
        grep 'not recorded' err
        rm "$DISK/ballast"
        "$UNSTUCK" run --continue > said 2>&1 && echo continued
        "#
    );
    let Some(lines) = on_a_small_disk(&store, "4m", &script) else { return };
    assert_eq!(lines[0], "ended with 143", "{lines:#?}");
    assert!(lines[1].starts_with("warning: the end of 1 attempt was not recorded: "), "{lines:#?}");
    assert_eq!(lines[2..], ["continued"]);
}

/// Number 17, beside an owner: what is new is refused, and `forget` is not.
#[test]
fn a_run_is_forgotten_on_a_full_disk_beside_an_owner() {
    let store = Store::new();
    let one = store.write("one.yaml", "flow: one\nsteps:\n  - {id: one, set: 1}\n");
    let waits = store.write("waits.yaml", APPROVAL);
    let text = format!("\"{}\"", "long ".repeat(10_000));
    let text = store.write("text.json", text);
    let script = format!(
        r#"
        cd "$DISK/.."
        "$UNSTUCK" run '{one}' > said 2>&1
        old=$("$UNSTUCK" runs -o json | grep -o 'run_[0-9a-z]*' | head -1)
        "$UNSTUCK" run '{waits}' > out 2> err &
        run=$!
        until "$UNSTUCK" runs -o json | grep -q waiting; do sleep 0.05; done
        (cat /dev/zero > "$DISK/ballast") 2> said
        "$UNSTUCK" signal @latest other "$(cat '{text}')" 2>&1 | grep -c 'Disk full. Nothing was changed. Free some space and repeat the command.'
        "$UNSTUCK" forget "$old" --yes
        kill -TERM $run
        wait $run
        echo "ended with $?"
        "$UNSTUCK" store check > said && echo checked
        "#
    );
    let Some(lines) = on_a_small_disk(&store, "16m", &script) else { return };
    assert!(lines.len() == 4 && lines[1].starts_with("Deleted run_"), "{lines:#?}");
    assert_eq!([&lines[0], &lines[2], &lines[3]], ["1", "ended with 143", "checked"], "{lines:#?}");
}
