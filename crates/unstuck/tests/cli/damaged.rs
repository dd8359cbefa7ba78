//! Payloads that the disk has damaged: what needs one fails or is set aside with a sentence, and everything else continues.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::support::under_way::UnderWay;
use crate::support::{REFUSED, Ran, Store};

/// It stands in the input of a run, and nowhere else.
const MARK: &str = "precious";

fn input() -> String {
    format!("{{\"text\":\"{}\"}}", MARK.repeat(50))
}

/// A run that is interrupted while it waits, and whose input is damaged then.
fn damaged(flow: &str) -> Store {
    let store = Store::new();
    let run = UnderWay::start(&store, flow, &["--input", &input()]);
    run.until("gate");
    run.send(Signal::INT);
    assert_eq!(run.wait().code, 130);
    let path = format!("{}/unstuck.db", store.path());
    let mut bytes = fs::read(&path).expect("the file of the store");
    let places: Vec<usize> =
        (0..bytes.len()).filter(|place| bytes[*place..].starts_with(MARK.as_bytes())).collect();
    assert!(!places.is_empty(), "the payload is in the file");
    for place in places {
        bytes[place] = b'P';
    }
    fs::write(&path, bytes).expect("written");
    store
}

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    ran
}

#[test]
fn a_step_whose_input_is_damaged_fails_with_reason_data_and_other_steps_and_runs_continue() {
    let store = damaged(
        "flow: heavy
steps:
  - {id: gate, signal: go}
  - {id: uses, needs: [gate], run: [cat], failOnError: false}
  - {id: other, needs: [gate], run: ['true'], with: {}}
",
    );
    ok(store.unstuck(&["signal", "@latest", "go", "1"]));
    let run = store.latest();
    let document = ok(store.unstuck(&["run", "--continue", &run, "-o", "json"])).json();
    assert_eq!(document["state"], "completed", "{document:#}");
    let step = |id: &str| {
        let steps = document["steps"].as_array().expect("steps");
        steps.iter().find(|step| step["id"] == id).expect("it is there").clone()
    };
    let (uses, other) = (step("uses"), step("other"));
    assert_eq!((&uses["state"], &uses["error"]["reason"]), (&json!("failed"), &json!("data")), "{uses:#}");
    let cause = uses["error"]["cause"].as_str().expect("a cause");
    assert!(cause.contains("is damaged, the input of run_"), "{cause}");
    assert_eq!(other["state"], "completed");
    // People read the same sentence, and other runs know nothing of it.
    let explained = ok(store.unstuck(&["explain", &run])).stdout;
    assert!(explained.contains("is damaged"), "{explained}");
    ok(store.run_flow("flow: next\nsteps:\n  - {id: a, run: ['true']}\n", &[]));
}

#[test]
fn a_run_that_cannot_be_decided_without_a_damaged_payload_is_set_aside_with_a_sentence() {
    let store = damaged(
        "flow: heavy
steps:
  - {id: gate, wait: 3s}
  - {id: uses, run: [cat], with: '${input.text}'}
",
    );
    let run = store.latest();
    let ended = store.unstuck(&["run", "--continue", &run]);
    assert_eq!(ended.code, REFUSED, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains(&format!("{run} is set aside: payload ")), "{}", ended.stderr);
    assert!(ended.stderr.contains("is damaged, the input of run_"), "{}", ended.stderr);
    ok(store.run_flow("flow: next\nsteps:\n  - {id: a, run: ['true']}\n", &[]));
    // It is shown with the damage in its place, and can be ended.
    let shown = ok(store.unstuck(&["show", &run, "-o", "json"])).json();
    assert!(shown["input"]["damaged"].is_string(), "{shown:#}");
    ok(store.unstuck(&["cancel", &run]));
    ok(store.unstuck(&["forget", &run, "--yes"]));
}
