//! Exit codes: a script can tell how a command ended.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::thread;

use rustix::process::Signal;

use crate::support::under_way::UnderWay;
use crate::support::{REFUSED, Store, repository, run_flow, unstuck};

const APPROVAL: &str = "flow: approval\nsteps:\n  - {id: approved, signal: approve}\n";

only_on_a_store! {
    "a server has made its store";
#[test]
fn a_failed_run_a_refusal_and_wrong_usage_have_codes_of_their_own() {
    let fails = "flow: a\nsteps:\n  - {id: one, emulate: fail}\n";
    let rests = "flow: a\nsteps:\n  - {id: one, emulate: stall}\n";
    let holds = "flow: a\nsteps:\n  - {id: one, retryStrategy: hold, emulate: stall}\n";
    let passes = "flow: a\nsteps:\n  - {id: one, emulate: pass}\n";
    for (flow, code) in [(passes, 0), (fails, 1), (rests, 1), (holds, 3), ("flow: a\nsteps: []\n", REFUSED)] {
        assert_eq!(run_flow(flow, &[]).code, code, "{flow}");
    }
    assert_eq!(unstuck(&["run", "no-such-file.yaml"]).code, REFUSED);
    assert_eq!(unstuck(&["runs"]).code, REFUSED, "there is no store");
    assert_eq!(unstuck(&["run", "--no-such-option"]).code, 2);

    let store = Store::new();
    assert_eq!(store.run_flow(passes, &[]).code, 0);
    for command in [["cancel", "@latest"], ["resume", "@latest"], ["show", "run_nope"]] {
        let ran = store.unstuck(&command);
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{command:?}");
        assert!(ran.stderr.starts_with("error: "), "{command:?}: {}", ran.stderr);
    }
}
}

only_on_a_store! {
    "the run of a key on a server is shown, not executed by another process";
#[test]
fn a_run_that_is_executed_elsewhere_and_one_that_is_interrupted_have_codes_of_their_own() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &["--key", "k"]);
    run.until("waiting for signal `approve`");
    assert_eq!(store.run_flow(APPROVAL, &["--key", "k"]).code, 4);
    run.send(Signal::INT);
    assert_eq!(run.wait().code, 130);
}
}

only_on_a_store! {
    "a server waits for no store";
#[test]
fn a_busy_store_has_a_code_of_its_own_and_changes_nothing() {
    let store = Store::new();
    assert_eq!(store.run_flow("flow: a\nsteps:\n  - {id: one, emulate: stall}\n", &[]).code, 1);
    let lock = File::options().write(true).open(format!("{}/lock", store.path())).expect("it is there");
    lock.try_lock().expect("nobody has the store");
    let busy = store.unstuck(&["cancel", "@latest", "-o", "json"]);
    assert_eq!((busy.code, busy.stdout.as_str()), (6, ""), "{}", busy.stderr);
    assert!(busy.stderr.contains("another process has the store"), "{}", busy.stderr);
    drop(lock);
    assert_eq!(store.unstuck(&["cancel", "@latest"]).code, 0);
}
}

only_on_a_store! {
    "a process that has the store open is stopped";
#[test]
fn an_answer_that_does_not_come_has_a_code_of_its_own() {
    let store = Store::new();
    assert_eq!(store.run_flow("flow: a\nsteps:\n  - {id: b, set: 1}\n", &[]).code, 0);
    let id = store.latest();
    // An owner that hears what it is asked, and says nothing.
    let listener = UnixListener::bind(format!("{}/socket", store.path())).expect("it listens");
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody asks");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("it reads until they give up");
        all
    });
    let silent = store.unstuck(&["signal", &id, "approve"]);
    assert_eq!((silent.code, silent.stdout.as_str()), (7, ""), "{}", silent.stderr);
    assert!(silent.stderr.contains("has not answered for 10 seconds"), "{}", silent.stderr);
    assert!(asked.join().expect("it ends").contains("approve"));
}
}

#[test]
fn the_help_and_the_docs_have_the_same_table() {
    let help = unstuck(&["--help"]).stdout;
    let table = help.split("Exit codes:\n").nth(1).expect("it is there");
    let rows: Vec<(&str, &str)> =
        table.lines().filter_map(|line| line.trim().split_once("  ")).map(|(a, b)| (a, b.trim())).collect();
    assert_eq!(rows.len(), 9, "{table}");
    let docs = std::fs::read_to_string(repository().join("docs/commands.md")).expect("it is there");
    for (code, meaning) in rows {
        assert!(docs.contains(&format!("| {code} | {meaning} |")), "{code}: {meaning}");
    }
}
