//! Ctrl-C and its relatives: the run is interrupted, stays in the store, and nothing that it started is left.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::Store;
use crate::support::under_way::{UnderWay, wait_until_gone};

/// A step that starts a process of its own, tells both, and waits for it.
const LONG: &str = "flow: long
steps:
  - {id: before, set: done}
  - id: sleep
    timeout: 10m
    run: |
      PRELUDE sleep 600 &
      echo \"$$ $!\" > started.tmp
      mv started.tmp started
      wait
";

#[test]
fn a_signal_interrupts_the_run_and_ends_its_processes() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let store = Store::new();
        let run = UnderWay::start(&store, &LONG.replace("PRELUDE", ":;"), &["-o", "json"]);
        let processes = run.processes("started");
        run.send(signal);
        let ran = run.wait();
        assert_eq!(ran.code, code, "{signal:?}: {}", ran.stderr);
        let document = ran.json();
        assert_eq!(document["state"], "running", "{signal:?}");
        assert_eq!(document["steps"][1]["state"], "ready", "{signal:?} gives the attempt back: {document:#}");
        wait_until_gone(&processes);
        assert!(!std::fs::exists(format!("{}/socket", store.path())).expect("it can be looked for"));
    }
}

#[test]
fn the_last_lines_say_how_to_go_on_and_how_to_end_it() {
    let store = Store::new();
    let run = UnderWay::start(&store, &LONG.replace("PRELUDE", ":;"), &[]);
    run.processes("started");
    run.send(Signal::INT);
    let ran = run.wait();
    let id = store.latest();
    let end = format!(
        "\ninterrupted (Ctrl-C); the run is kept in the store\n  continue it:  unstuck run --continue {id}\n  \
         cancel it:    unstuck cancel {id}\n"
    );
    assert!(ran.stdout.ends_with(&end), "{}", ran.stdout);
    // Both work as they are written.
    let cancelled = store.unstuck(&["cancel", &id]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    let gone_on = store.unstuck(&["run", "--continue", &id, "-o", "json"]);
    assert_eq!((gone_on.code, &gone_on.json()["state"]), (1, &json!("cancelled")));
}

#[test]
fn a_second_one_kills_what_does_not_want_to_end() {
    let store = Store::new();
    let run = UnderWay::start(&store, &LONG.replace("PRELUDE", "trap '' TERM INT;"), &[]);
    let processes = run.processes("started");
    run.send(Signal::INT);
    run.until_stderr("waiting for processes to end; Ctrl-C again ends them at once");
    run.send(Signal::INT);
    assert_eq!(run.wait().code, 130);
    wait_until_gone(&processes);
    let document: Value = store.unstuck(&["show", "@latest", "-o", "json"]).json();
    assert_eq!(document["state"], "running");
}
