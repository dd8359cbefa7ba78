//! What a run waits for, and what can be done about it: a slot, a retry, a deadline.

use rustix::process::Signal;
use serde_json::json;

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{Ran, Store};

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

/// A text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const SLOT: &str = "flow: outer
steps:
  - {id: c, flow: inner}
---
flow: inner
concurrency: {limit: 1, strict: true}
steps:
  - {id: x, run: 'echo look at me >&2; exit 1', retryStrategy: hold, timeout: 1m}
";

#[test]
fn a_parent_whose_child_waits_for_a_slot_that_a_person_must_free_is_queued_and_says_who_has_it() {
    let store = Store::new();
    assert_eq!(store.run_flow(SLOT, &["--flow", "inner"]).code, 3);
    let holder = store.latest();
    let run = UnderWay::start(&store, SLOT, &["--flow", "outer"]);
    let state = || store.unstuck(&["show", "@latest", "-o", "json"]).json()["state"].clone();
    wait_until(|| state() == json!("queued"));
    let explained = words(&ok(store.unstuck(&["explain", "@latest"])));
    let wanted = format!(
        "waits for a slot; no free slot of limit `inner` (at most 1 run at once); {holder} (held) has it"
    );
    assert!(explained.contains(&wanted), "{wanted} in {explained}");
    assert!(explained.contains(&format!("unstuck explain {holder}")), "{explained}");
    ok(store.unstuck(&["cancel", &holder]));
    wait_until(|| state() == json!("held"));
    run.send(Signal::INT);
    run.wait();
}

#[test]
fn a_back_off_is_cut_short_by_a_resume_which_explain_offers() {
    let store = Store::new();
    let flow = "flow: retry\nsteps:\n  - {id: r, run: 'test -e back || { echo not yet >&2; exit 1; }', \
                retryStrategy: retry, backOff: 1h, timeout: 1m}\n";
    let run = UnderWay::start(&store, flow, &[]);
    run.until("retrying in 1h");
    let id = store.latest();
    let command = format!("unstuck resume {id} r");
    let explained = ok(store.unstuck(&["explain", &id]));
    assert!(explained.contains(&command), "{command} in\n{explained}");
    store.write("back", "");
    let resumed = ok(store.unstuck(&["resume", &id, "r", "--reason", "it is back"]));
    assert!(resumed.starts_with("Retrying `r` in a new round.\n"), "{resumed}");
    assert_eq!(run.wait().code, 0);
    let history = ok(store.unstuck(&["history", &id]));
    assert!(history.contains("ada         r: resumed by ada (it is back): round 2 starts"), "{history}");
}

#[test]
fn a_missed_deadline_is_an_error_of_the_step_that_was_waited_for() {
    let store = Store::new();
    let flow = "flow: late\ndeadline: 1s\nsteps:\n  - {id: ask, signal: approve}\n";
    assert_eq!(store.run_flow(flow, &[]).code, 1);
    let document = store.unstuck(&["show", "@latest", "-o", "json"]).json();
    let error = &document["error"];
    assert_eq!(
        (&error["step"], &error["action"], &error["foundBy"], &error["reason"]),
        (&json!("ask"), &json!("late.ask"), &json!("DeadlineAction"), &json!("time"))
    );
    let cause = error["cause"].as_str().expect("a text");
    assert!(cause.ends_with(" while `ask` was waiting for signal `approve`"), "{cause}");
    // It is found by either name.
    for action in ["late.ask", "DeadlineAction"] {
        let groups = store.unstuck(&["errors", "--action", action, "-o", "json"]).json();
        let found = groups.to_string();
        assert!(
            found.contains("waiting for signal") && found.contains("\"foundBy\":\"DeadlineAction\""),
            "{found}"
        );
    }
    let none = ok(store.unstuck(&["errors", "--action", "AwaitAction"]));
    assert!(!none.contains("deadline"), "{none}");
    let check = store.unstuck(&["store", "check"]);
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
}
