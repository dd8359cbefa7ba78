//! Homes: what nobody executes is idle, never running, and a resume that is due waits for the command of its run.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{Ran, Store};

/// A process that hangs until there is a file `again`.
const HANGS: &str = "flow: hangs
steps:
  - id: hang
    timeout: 10m
    run: 'if ! test -e again; then echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600; fi; echo 2'
";
/// It fails once, and then waits for a signal.
const FLAKY: &str = "flow: flaky
steps:
  - {id: load, timeout: 1m, minimumDelay: 0, emulate: {sequence: [stall, pass], cause: connection reset}}
";
const WAITS: &str = "flow: waits\nsteps:\n  - {id: go, signal: go}\n";

fn ok(ran: Ran) -> Ran {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran
}

fn json_of(store: &Store, arguments: &[&str]) -> Value {
    ok(store.unstuck(&[arguments, &["-o", "json"]].concat())).json()
}

/// That a run is idle, wherever it is shown, and how it goes on.
fn assert_idle(store: &Store, run: &str, state: &str) {
    let go_on = format!("unstuck run --continue {run}");
    let runs = json_of(store, &["runs"]);
    let line = runs["runs"].as_array().expect("a list").iter().find(|line| line["id"] == run);
    let line = line.expect("it is listed");
    for document in [line, &json_of(store, &["show", run]), &json_of(store, &["explain", run])] {
        assert_eq!(document["state"], state, "the word of the state machine stays: {document:#}");
        assert_eq!((&document["idle"], &document["goOn"]), (&json!(true), &json!(go_on)), "{document:#}");
    }
    for command in ["show", "explain"] {
        let text = ok(store.unstuck(&[command, run])).stdout;
        assert!(text.contains(&format!("To continue the run:\n  {go_on}\n")), "{text}");
        assert!(!text.contains("is running"), "{text}");
        assert_eq!(text.contains("is idle"), state != "error", "{text}");
    }
    let listed = ok(store.unstuck(&["runs"])).stdout;
    let line = listed.lines().find(|line| line.starts_with(run)).expect("it is listed");
    let word = if state == "error" { "error" } else { "idle" };
    assert_eq!(line.split_whitespace().nth(1), Some(word), "{line}");
    assert!(line.contains(&go_on), "{line}");
}

#[test]
fn a_run_whose_engine_was_killed_or_interrupted_is_idle_and_not_running() {
    for signal in [Signal::KILL, Signal::INT] {
        let store = Store::new();
        let run = UnderWay::start(&store, HANGS, &[]);
        run.processes("pid");
        let id = store.latest();
        let driven = json_of(&store, &["show", &id]);
        assert_eq!((&driven["idle"], &driven["goOn"]), (&json!(false), &json!(null)), "{driven:#}");
        run.send(signal);
        run.wait();
        assert_idle(&store, &id, "running");
        let explained = ok(store.unstuck(&["explain", &id])).stdout.replace('\n', " ");
        assert!(
            explained.contains("is idle: step `hang` is ready, but no process is executing this run."),
            "{explained}"
        );
        store.write("again", "");
        assert_eq!(store.unstuck(&["run", "--continue", &id]).code, 0);
        assert_eq!(json_of(&store, &["show", &id])["idle"], false);
    }
}

#[test]
fn a_resume_that_comes_due_while_another_run_has_the_store_waits_for_the_home_of_its_own() {
    let store = Store::new();
    let file = store.write("policies.yaml", "{name: soon, flow: flaky, maxAttempts: 9, backOff: 500ms}");
    ok(store.unstuck(&["policy", "load", &file]));
    let run = UnderWay::start(&store, FLAKY, &[]);
    run.until("policy `soon` resumes it");
    run.send(Signal::KILL);
    run.wait();
    let id = store.latest();
    // Another run has the store when it comes due.
    let other = UnderWay::start(&store, WAITS, &[]);
    other.until("waiting for signal `go`");
    wait_until(|| ok(store.unstuck(&["runs"])).stdout.contains("(policy `soon` was due "));
    // Whatever the engine does until the signal has come, it has looked at what is due.
    ok(store.unstuck(&["signal", "@latest", "other"]));
    assert_idle(&store, &id, "error");
    let explained = ok(store.unstuck(&["explain", &id])).stdout.replace("\n    ", " ");
    for part in ["resumes `load`", "when the run is continued (due since ", " UTC)"] {
        assert!(explained.contains(part), "{part} in\n{explained}");
    }
    let shown = ok(store.unstuck(&["show", &id])).stdout;
    assert!(shown.contains("by policy `soon`; due, but no process is executing the run\n"), "{shown}");
    assert_eq!(json_of(&store, &["errors"])["groups"][0]["open"], 1, "it is an open error still");
    ok(store.unstuck(&["signal", "@latest", "go"]));
    assert_eq!(other.wait().code, 0);
    assert_idle(&store, &id, "error");
    // Its command goes on, and what was due is done.
    let continued = store.unstuck(&["run", "--continue", &id]);
    assert_eq!(continued.code, 0, "{}{}", continued.stdout, continued.stderr);
    assert!(continued.stdout.contains("resumed by policy `soon`: round 2 starts"), "{}", continued.stdout);
    ok(store.unstuck(&["store", "check"]));
}

#[test]
fn a_bulk_resume_says_that_nobody_executes_what_it_has_resumed() {
    let store = Store::new();
    let mut runs = Vec::new();
    for _ in 0..2 {
        assert_eq!(store.run_flow(FLAKY, &[]).code, 1);
        runs.push(store.latest());
    }
    let resumed = ok(store.unstuck(&["resume", "--flow", "flaky"])).stdout;
    assert!(resumed.contains("are idle: no process is executing them."), "{resumed}");
    for run in &runs {
        assert!(resumed.contains(&format!("  unstuck run --continue {run}\n")), "{resumed}");
        assert_idle(&store, run, "running");
    }
    let changed = json_of(&store, &["pause", &runs[0]]);
    assert_eq!((&changed["state"], &changed["idle"]), (&json!("paused"), &json!(false)));
    let changed = json_of(&store, &["unpause", &runs[0]]);
    assert_eq!((&changed["state"], &changed["idle"]), (&json!("running"), &json!(true)));
    for run in &runs {
        assert_eq!(store.unstuck(&["run", "--continue", run]).code, 0);
    }
}
