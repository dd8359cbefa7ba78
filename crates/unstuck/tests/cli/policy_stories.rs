//! Errors that are resumed by policies, from the first word to the last.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::Store;
use crate::support::under_way::{UnderWay, wait_until};

/// A flow with one step that does this, one attempt after the other.
fn flow(behaviours: &str) -> String {
    format!(
        "flow: nightly\nsteps:\n  - id: load\n    type: LOAD\n    timeout: 1m\n    minimumDelay: 0\n    \
         emulate: {{sequence: [{behaviours}], cause: connection reset by 10.0.0.7}}\n"
    )
}

/// A store with these policies.
fn store_with(policies: &str) -> Store {
    let store = Store::new();
    load(&store, policies);
    store
}

fn load(store: &Store, policies: &str) {
    let file = store.write("policies.yaml", policies);
    let loaded = store.unstuck(&["policy", "load", &file]);
    assert_eq!((loaded.code, loaded.stderr.as_str()), (0, ""), "{}", loaded.stdout);
}

/// How often each policy has taken an error, and how many runs it will resume.
fn hits(store: &Store) -> Vec<(String, u64, u64)> {
    let lines = store.unstuck(&["policy", "list", "-o", "json"]).json();
    let number = |line: &Value, name: &str| line[name].as_u64().expect("a number");
    let lines = lines["policies"].as_array().expect("a list").iter();
    lines
        .map(|line| {
            let name = line["name"].as_str().expect("a name").to_owned();
            (name, number(line, "hits"), number(line, "scheduled"))
        })
        .collect()
}

#[test]
fn an_error_that_passes_on_the_third_try() {
    let store =
        store_with("{name: resets, errorSubstring: connection reset, maxAttempts: 5, backOff: 200ms}");
    let ran = store.run_flow(&flow("stall, stall, pass"), &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for line in [
        "policy `resets` resumes it in 200ms (round 1 of 5)",
        "resumed by policy `resets`: round 2 starts",
        "policy `resets` resumes it in 200ms (round 2 of 5)",
        "resumed by policy `resets`: round 3 starts",
        "load: attempt 3 completed",
    ] {
        assert!(ran.stdout.contains(line), "{line} in\n{}", ran.stdout);
    }
    assert_eq!(hits(&store), [("resets".to_owned(), 2, 0)]);
    let document = store.unstuck(&["show", "@latest", "-o", "json"]).json();
    let step = &document["steps"][0];
    assert_eq!((&step["state"], &step["rounds"]), (&json!("completed"), &json!(3)), "{document:#}");
}

#[test]
fn two_policies_of_which_the_first_is_spent() {
    let store = store_with(
        "- {name: first, errorSubstring: connection reset, maxAttempts: 2, backOff: 50ms}\n\
         - {name: second, actionType: LOAD, maxAttempts: 4, backOff: {delay: 50ms, multiplier: 1}}\n",
    );
    let ran = store.run_flow(&flow("stall"), &[]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let taken: Vec<&str> = ran
        .stdout
        .lines()
        .filter_map(|line| line.split_once(" load: policy ").map(|(_, rest)| rest))
        .collect();
    assert_eq!(
        taken,
        [
            "`first` resumes it in 50ms (round 1 of 2): no retry strategy",
            "`second` resumes it in 100ms (round 2 of 4): no retry strategy; policy `first` is used up (2 of 2 rounds)",
            "`second` resumes it in 150ms (round 3 of 4): no retry strategy; policy `first` is used up (2 of 2 rounds)",
        ]
    );
    let both = "load: needs an operator: policy `first` is used up (2 of 2 rounds); policy `second` is used up (4 of 4 \
                rounds); no retry, other policy or exception handler applies; a manual resume resets the rounds of the \
                policies";
    assert!(ran.stdout.contains(both), "both are spent: {}", ran.stdout);
    assert_eq!(hits(&store), [("first".to_owned(), 1, 0), ("second".to_owned(), 2, 0)]);
    // Somebody resumes it, and every policy has its budget back.
    assert_eq!(store.unstuck(&["resume", "@latest"]).code, 0);
    assert_eq!(store.unstuck(&["run", "--continue"]).code, 1);
    assert_eq!(hits(&store), [("first".to_owned(), 2, 0), ("second".to_owned(), 4, 0)]);
}

#[test]
fn a_fatal_error_is_for_those_who_ask_for_it() {
    let store = store_with("{name: all, flow: nightly, maxAttempts: 3, backOff: 50ms}");
    let ran = store.run_flow(&flow("fail, pass"), &["-o", "json"]);
    assert_eq!((ran.code, &ran.json()["state"]), (1, &json!("failed")), "{}", ran.stderr);
    load(&store, "{name: fatal too, flow: nightly, maxAttempts: 2, backOff: 50ms, includeFatal: true}");
    let ran = store.run_flow(&flow("fail, pass"), &["-o", "json"]);
    assert_eq!((ran.code, &ran.json()["state"]), (0, &json!("completed")), "{}", ran.stderr);
    assert_eq!(hits(&store), [("all".to_owned(), 0, 0), ("fatal too".to_owned(), 1, 0)]);
}

only_on_a_store! {
    "a server executes what is resumed at once";
#[test]
fn a_run_that_is_acknowledged_while_it_is_scheduled() {
    let store = store_with("{name: patient, flow: nightly, maxAttempts: 9, backOff: 1h}");
    let run = UnderWay::start(&store, &flow("stall, pass"), &[]);
    run.until("policy `patient` resumes it in 1h (round 1 of 9)");
    // It waits for the resume; others may look, and change their mind.
    assert_eq!(hits(&store), [("patient".to_owned(), 1, 1)]);
    let acknowledged = store.unstuck(&["ack", "@latest", "load", "--reason", "the database moves today"]);
    assert_eq!(acknowledged.code, 0, "{}", acknowledged.stderr);
    let ran = run.wait();
    assert_eq!(ran.code, 1, "nothing moves it any more: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("is acknowledged"), "{}", ran.stdout);
    assert_eq!(hits(&store), [("patient".to_owned(), 1, 0)]);
    let applied = store.unstuck(&["policy", "apply", "-o", "json"]).json();
    assert_eq!(applied["moved"], 0, "it is left out: {applied}");
    // Resumed by hand, it counts again.
    assert_eq!(store.unstuck(&["resume", "@latest"]).code, 0);
    assert_eq!(store.unstuck(&["run", "--continue"]).code, 0);
}
}

only_on_a_store! {
    "nothing has to be continued by hand on a server";
#[test]
fn a_scheduled_run_that_was_interrupted_or_killed_goes_on_when_it_is_continued() {
    for (signal, code) in [(Signal::INT, 130), (Signal::KILL, -1)] {
        let store = store_with("{name: soon, flow: nightly, maxAttempts: 9, backOff: 1s}");
        let run = UnderWay::start(&store, &flow("stall, pass"), &[]);
        run.until("policy `soon` resumes it");
        run.send(signal);
        assert_eq!(run.wait().code, code);
        let listed = store.unstuck(&["runs"]).stdout;
        assert!(listed.contains("connection reset by 10.0.0.7 (policy `soon` resumes it in "), "{listed}");
        let shown = store.unstuck(&["show", "@latest"]).stdout;
        assert!(shown.contains("\n  resumes    2") && shown.contains(", by policy `soon`\n"), "{shown}");
        let explained = store.unstuck(&["explain", "@latest"]).stdout;
        assert!(explained.contains("To continue the run:"), "{explained}");
        let continued = store.unstuck(&["run", "--continue"]);
        assert_eq!(continued.code, 0, "{}{}", continued.stdout, continued.stderr);
        assert!(
            continued.stdout.contains("resumed by policy `soon`: round 2 starts"),
            "{}",
            continued.stdout
        );
    }
}
}

#[test]
fn policies_are_changed_while_a_run_is_in_progress() {
    let store = Store::new();
    let flow = flow("stall, stall, pass").replace("steps:\n", "steps:\n  - {id: go, signal: go}\n");
    let run = UnderWay::start(&store, &flow, &[]);
    wait_until(|| store.unstuck(&["runs", "--state", "waiting", "-o", "json"]).stdout.contains("run_"));
    load(&store, "{name: resets, errorSubstring: connection reset, maxAttempts: 5, backOff: 1h}");
    assert_eq!(store.unstuck(&["signal", "@latest", "go"]).code, 0);
    run.until("policy `resets` resumes it in 1h (round 1 of 5)");
    // The schedule stays until it is applied again.
    let file = store.write(
        "sooner.yaml",
        "{name: resets, errorSubstring: connection reset, maxAttempts: 5, backOff: 50ms}",
    );
    let preview = store.unstuck(&["policy", "preview", &file, "-o", "json"]).json();
    let preview = &preview["trials"][0];
    assert_eq!((&preview["matched"], &preview["runs"][0]["step"]), (&json!(1), &json!("load")), "{preview}");
    assert_eq!(store.unstuck(&["policy", "load", &file, "--replace"]).code, 0);
    assert_eq!(hits(&store), [("resets".to_owned(), 1, 1)]);
    let mut applied = store.unstuck(&["policy", "apply", "resets", "-o", "json"]).json();
    assert!(applied["bulk"].take().as_str().is_some_and(|bulk| bulk.starts_with("bulk_")), "{applied}");
    assert_eq!(applied, json!({"bulk": null, "moved": 1, "unscheduled": 0, "unchanged": 0}));
    let ran = run.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains(": ada applied the policies"), "{}", ran.stdout);
}

only_on_a_store! {
    "a server resumes what is due, whatever command runs";
#[test]
fn a_due_resume_whose_policy_is_gone_is_matched_anew() {
    let store = store_with("{name: gone soon, flow: nightly, maxAttempts: 9, backOff: 2s}");
    let run = UnderWay::start(&store, &flow("stall, pass"), &[]);
    run.until("policy `gone soon` resumes it");
    assert_eq!(store.unstuck(&["policy", "delete", "gone soon"]).code, 0);
    let ran = run.wait();
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("the policy that was to resume it is disabled, deleted or changed"),
        "{}",
        ran.stdout
    );
    wait_until(|| !std::fs::exists(format!("{}/socket", store.path())).is_ok_and(|there| there));
    let audit = store.unstuck(&["policy", "audit"]).stdout;
    assert!(audit.contains("deleted") && audit.contains("ada"), "{audit}");
}
}
