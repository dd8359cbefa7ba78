//! A run that is killed in the middle goes on from its last completed step.

use rustix::process::{Signal, test_kill_process};
use serde_json::json;

use crate::support::under_way::{UnderWay, wait_until_gone};
use crate::support::{REFUSED, Store};

/// Each step writes to a ledger. The second one hangs until there is a file `again`.
const LEDGER: &str = "flow: ledger
defaults: {timeout: 10m}
steps:
  - {id: one, run: 'echo one >> ledger; echo 1'}
  - id: two
    run: |
      echo two >> ledger
      if ! test -e again; then echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600; fi
      echo 2
  - {id: three, run: 'echo three >> ledger; echo 3'}
output: [\"${steps.one.output}\", \"${steps.two.output}\", \"${steps.three.output}\"]
";

#[test]
fn what_is_completed_is_not_executed_again() {
    let store = Store::new();
    let run = UnderWay::start(&store, LEDGER, &[]);
    let left = run.processes("pid");
    run.send(Signal::KILL);
    assert_eq!(run.wait().code, -1);
    assert!(test_kill_process(left[0]).is_ok(), "its process is still there");

    // Reading changes nothing.
    for arguments in [&["runs"][..], &["show", "@latest"], &["explain", "@latest"], &["history", "@latest"]] {
        let ran = store.unstuck(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
    }
    assert!(test_kill_process(left[0]).is_ok(), "nobody has ended it");

    store.write("again", "");
    let ran = store.unstuck(&["run", "--continue"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    wait_until_gone(&left);
    assert_eq!(store.read("ledger"), "one\ntwo\ntwo\nthree\n");
    let parts = ["continuing from the last completed step\n", "two: attempt 2 started", "the run completed"];
    for part in parts {
        assert!(ran.stdout.contains(part), "{part} in\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("one: attempt"), "it tells only what happens now:\n{}", ran.stdout);
    let document = store.unstuck(&["show", "@latest", "-o", "json"]).json();
    assert_eq!((&document["state"], &document["output"]), (&json!("completed"), &json!([1, 2, 3])));
}

#[test]
fn a_command_ends_what_was_left_running() {
    let store = Store::new();
    let run = UnderWay::start(&store, LEDGER, &[]);
    let left = run.processes("pid");
    run.send(Signal::KILL);
    run.wait();
    let ran = store.unstuck(&["cancel", "@latest"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    wait_until_gone(&left);
}

#[test]
fn children_go_on_with_their_parent() {
    let flow = "flow: parent
steps:
  - {id: ask, flow: child}
output: ${steps.ask.output}
---
flow: child
defaults: {timeout: 10m}
steps:
  - {id: first, run: 'echo first >> ledger'}
  - id: second
    run: 'if ! test -e again; then echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600; fi; echo 2'
output: ${steps.second.output}
";
    let store = Store::new();
    let run = UnderWay::start(&store, flow, &[]);
    let left = run.processes("pid");
    run.send(Signal::KILL);
    run.wait();
    store.write("again", "");
    // A child is named, and its parent goes on.
    let runs = store.unstuck(&["runs", "--all", "-o", "json"]).json();
    let child = runs["runs"][0]["id"].as_str().expect("it is a text");
    assert_eq!(runs["runs"][0]["flow"], "child");
    let ran = store.unstuck(&["run", "--continue", child]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("ask > second: attempt 2 started"), "{}", ran.stdout);
    assert_eq!(store.read("ledger"), "first\n");
    wait_until_gone(&left);
}

#[test]
fn there_must_be_something_to_go_on_with() {
    let store = Store::new();
    let ran = store.unstuck(&["run", "--continue"]);
    assert_eq!(ran.code, REFUSED);
    assert!(ran.stderr.starts_with("error: there is no store at "), "{}", ran.stderr);
    store.run_flow("flow: a\nsteps:\n  - {id: one, set: 1}\n", &[]);
    let ran = store.unstuck(&["run", "--continue"]);
    let wanted =
        format!("error: there is no interrupted run in {}; `unstuck runs` lists all runs\n", store.path());
    assert_eq!((ran.code, ran.stderr), (REFUSED, wanted));
    // One that is over is shown, and nothing is executed.
    let ran = store.unstuck(&["run", "--continue", "@latest"]);
    assert!(ran.code == 0 && ran.stdout.contains("completed after"), "{}", ran.stdout);
}

#[test]
fn the_newest_run_that_is_not_over_is_gone_on_with() {
    let store = Store::new();
    let held = "flow: a\nsteps:\n  - {id: one, emulate: stall, retryStrategy: hold, timeout: 5s}\n";
    let waits = "flow: b\nsteps:\n  - {id: one, emulate: stall, timeout: 5s}\n";
    let mut older = Vec::new();
    for (flow, code) in [(held, 3), (waits, 1), ("flow: c\nsteps:\n  - {id: one, set: 1}\n", 0)] {
        assert_eq!(store.run_flow(flow, &[]).code, code);
        older.push(store.latest());
    }
    for (id, code) in [(&older[1], 1), (&older[0], 3)] {
        let ran = store.unstuck(&["run", "--continue"]);
        assert!(ran.code == code && ran.stdout.starts_with(id.as_str()), "{id}: {}", ran.stdout);
        assert_eq!(store.unstuck(&["cancel", id]).code, 0);
    }
    assert_eq!(store.unstuck(&["run", "--continue"]).code, REFUSED);
}
