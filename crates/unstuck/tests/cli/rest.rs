//! When a run is over: exit codes, and what counts as at rest.

use crate::support::run_flow;

/// A step that comes to rest in error at once.
const BROKEN: &str = "emulate: stall, timeout: 5s";

#[test]
fn the_exit_code_tells_how_the_run_ended() {
    let one = |step: &str| format!("flow: a\nsteps:\n  - {{id: one, {step}}}\n");
    let cases = [
        ("completed", 0, one("set: 1")),
        ("failed", 1, one("emulate: fail, timeout: 5s")),
        ("error", 1, one(BROKEN)),
        ("held", 3, one("emulate: fail, retryStrategy: hold, timeout: 5s")),
        ("completed", 0, one("emulate: fail, failOnError: false, timeout: 5s")),
        ("failed", 1, format!("deadline: 50ms\n{}", one("wait: 1h"))),
    ];
    for (state, code, flow) in cases {
        let ran = run_flow(&flow, &["-o", "json"]);
        assert_eq!((ran.json()["state"].as_str(), ran.code), (Some(state), code), "{flow}");
    }
}

#[test]
fn a_run_is_over_only_when_nothing_moves_any_more() {
    // What rests, what goes on beside it, and the state that the whole comes to.
    let cases = [
        ("a timer goes on", BROKEN, "wait: 300ms", "completed", "error", 1),
        ("an attempt goes on", BROKEN, "emulate: {wait: 300ms}, timeout: 5s", "completed", "error", 1),
        (
            "a retry goes on",
            BROKEN,
            "emulate: {sequence: [stall, pass]}, retryStrategy: retry, minimumDelay: 300ms, timeout: 5s",
            "completed",
            "error",
            1,
        ),
        (
            "a signal is waited for",
            BROKEN,
            "signal: s, timeout: 300ms, failOnError: false",
            "failed",
            "error",
            1,
        ),
        ("a child goes on", BROKEN, "flow: slow", "completed", "error", 1),
        ("a child rests in error", BROKEN, "flow: broken", "active", "error", 1),
        ("a child is held", BROKEN, "flow: holding", "active", "held", 3),
        (
            "both are held",
            "emulate: stall, retryStrategy: hold, timeout: 5s",
            "flow: holding",
            "active",
            "held",
            3,
        ),
    ];
    let children = format!(
        "---\nflow: slow\nsteps:\n  - {{id: wait, wait: 300ms}}\n\
         ---\nflow: broken\nsteps:\n  - {{id: rest, {BROKEN}}}\n\
         ---\nflow: holding\nsteps:\n  - {{id: hold, emulate: stall, retryStrategy: hold, timeout: 5s}}\n"
    );
    for (name, rests, beside, beside_state, state, code) in cases {
        let flow = format!(
            "flow: a\nsteps:\n  - {{id: rests, {rests}}}\n  - {{id: beside, needs: [], {beside}}}\n{children}"
        );
        let ran = run_flow(&flow, &["-o", "json"]);
        let document = ran.json();
        assert_eq!((document["state"].as_str(), ran.code), (Some(state), code), "{name}: {}", ran.stderr);
        let beside = &document["steps"][1];
        assert_eq!(
            (beside["id"].as_str(), beside["state"].as_str()),
            (Some("beside"), Some(beside_state)),
            "{name}"
        );
    }
}

#[test]
fn a_child_that_rests_is_explained_with_its_parent() {
    let flow = format!(
        "flow: a\nsteps:\n  - {{id: ask, flow: b}}\n---\nflow: b\nsteps:\n  - {{id: inner, {BROKEN}}}\n"
    );
    let ran = run_flow(&flow, &[]);
    assert_eq!(ran.code, 1);
    for part in [
        "ask > inner: attempt 1 stalled",
        "of flow `a` is",
        "of flow `b` is",
        " inner\n      retry in a new round",
    ] {
        assert!(ran.stdout.contains(part), "{part} in\n{}", ran.stdout);
    }
}

#[test]
fn a_held_handler_holds_the_run() {
    let flow = "flow: a\nsteps:\n  - {id: one, emulate: fail, exceptionHandler: b, timeout: 5s}\n---\n\
                flow: b\nsteps:\n  - {id: inner, emulate: stall, retryStrategy: hold, timeout: 5s}\n";
    let ran = run_flow(flow, &["-o", "json"]);
    assert_eq!((ran.json()["state"].as_str(), ran.code), (Some("held"), 3), "{}", ran.stderr);
}

only_on_a_store! {
    "a server executes the run that has the slot when it is resumed, and the command waits for that";
#[test]
fn a_run_that_waits_for_a_slot_that_a_resting_one_keeps_is_at_rest() {
    let flow = format!(
        "flow: a\nsteps:\n  - {{id: each, forEach: [1, 2], flow: b}}\n---\n\
         flow: b\nconcurrency: {{limit: 1, strict: true}}\nsteps:\n  - {{id: inner, {BROKEN}}}\n"
    );
    let ran = run_flow(&flow, &[]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
}
}

only_on_a_store! {
    "a worker may come to a server at any time";
#[test]
fn a_step_for_a_worker_does_not_wait_for_ever() {
    let ran = run_flow("flow: a\nsteps:\n  - {id: one, action: Resize}\n", &[]);
    assert_eq!(ran.code, 1);
    let wanted = "No worker offers `one` (action `Resize`), and no queueTimeout ends the wait.\n";
    assert!(ran.stdout.contains(wanted), "{}", ran.stdout);

    // With something that ends the wait, it is waited for.
    for (limit, state) in [("deadline: 200ms\n", "failed"), ("", "error")] {
        let timeout = if limit.is_empty() { ", queueTimeout: 200ms" } else { "" };
        let flow = format!("{limit}flow: a\nsteps:\n  - {{id: one, action: Resize{timeout}}}\n");
        let ran = run_flow(&flow, &["-o", "json"]);
        assert_eq!((ran.json()["state"].as_str(), ran.code), (Some(state), 1), "{flow}");
    }
}
}

#[test]
fn odds_with_a_seed_come_out_the_same_in_every_run() {
    let flow = |seed: &str| {
        format!(
            "flow: a
defaults: {{minimumDelay: 1ms}}
steps:
  - id: one
    forEach: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    emulate: {{odds: {{stall: 1, pass: 1}}{seed}}}
    failOnError: false
"
        )
    };
    let states = |seed: &str| -> String {
        let ran = run_flow(&flow(seed), &["-o", "json"]);
        ran.json()["output"].to_string()
            + &ran.json()["steps"].to_string().matches("emulated stall").count().to_string()
    };
    assert_eq!(states(", seed: 7"), states(", seed: 7"));
    assert_ne!(states(", seed: 7"), states(", seed: 8"));
}
