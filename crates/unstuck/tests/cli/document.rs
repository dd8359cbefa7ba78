//! The run document that `-o json` prints.

use serde_json::{Value, json};

use crate::support::{run_flow, unstuck};

const FLAKY: &str = "
flow: flaky
version: 7
steps:
  - id: try
    type: LOAD
    emulate: {sequence: [stall, pass], cause: no route to host, output: {rows: 3}}
    retryStrategy: retry
    backOff: 50ms
    minimumDelay: 50ms
    timeout: 5s
";

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("it is an object").keys().map(String::as_str).collect()
}

#[test]
fn the_document_has_every_field() {
    let ran = run_flow(FLAKY, &["--input", "{\"a\": 1}", "--key", "k-1", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let run = ran.json();
    let mut wanted = vec![
        "id",
        "generation",
        "flow",
        "version",
        "key",
        "priority",
        "by",
        "state",
        "input",
        "output",
        "createdAt",
        "updatedAt",
        "error",
        "nextAutoResume",
        "nextAutoResumeReason",
        "idle",
        "goOn",
        "steps",
        "decisions",
    ];
    wanted.sort_unstable();
    assert_eq!(keys(&run), wanted);
    assert!(run["id"].as_str().is_some_and(|id| id.starts_with("run_")), "{run}");
    let fields = ["generation", "flow", "version", "key", "state", "input", "output", "error"];
    let values: Vec<&Value> = fields.iter().map(|field| &run[field]).collect();
    let rows = json!({"rows": 3});
    assert_eq!(json!(values), json!([1, "flaky", "7", "k-1", "completed", {"a": 1}, rows, null]));

    let step = &run["steps"][0];
    let mut wanted = vec![
        "id",
        "action",
        "actionType",
        "state",
        "output",
        "error",
        "nextAutoResume",
        "nextAutoResumeReason",
        "rounds",
        "attempts",
    ];
    wanted.sort_unstable();
    assert_eq!(keys(step), wanted);
    assert_eq!((&step["output"], &step["rounds"]), (&rows, &json!(1)));

    let attempt = &step["attempts"][0];
    let mut wanted =
        vec!["attempt", "round", "state", "worker", "queuedAt", "startedAt", "endedAt", "error", "progress"];
    wanted.sort_unstable();
    assert_eq!(keys(attempt), wanted);
    assert_eq!(attempt["state"], "stalled");
    assert_eq!(
        (&attempt["error"]["cause"], &attempt["error"]["reason"]),
        (&json!("no route to host"), &json!("processing"))
    );

    let decision = &run["decisions"][0];
    assert_eq!(keys(decision), ["at", "attempt", "reason", "rule", "rung", "step"]);
    assert_eq!((&decision["step"], &decision["rung"]), (&json!("try"), &json!("retryStrategy")));
}

#[test]
fn the_first_open_error_is_the_error_of_the_run() {
    let flow = FLAKY.replace("[stall, pass]", "[stall]");
    let ran = run_flow(&flow, &["-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let run = ran.json();
    assert_eq!(run["state"], "error");
    let wanted = json!({
        "step": "try", "action": "flaky.try", "actionType": "LOAD",
        "cause": "no route to host", "reason": "processing", "attempts": 2,
    });
    assert_eq!(run["error"], wanted);
}

#[test]
fn progress_goes_to_stderr_and_nothing_but_the_document_to_stdout() {
    let ran = unstuck(&["run", "examples/hold.yaml", "-o", "json"]);
    assert!(ran.stderr.contains("transfer: attempt 1 started"), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("{\n  \"id\": \"run_") && ran.stdout.ends_with("\n}\n"), "{}", ran.stdout);
    assert_eq!(ran.json()["state"], "held");
}
