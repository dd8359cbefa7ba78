//! Reruns as people use them: what the next generation is told, another input, chosen steps, a handler by itself.

use serde_json::{Value, json};

use crate::support::{Ran, Store};

/// `b` wants the number 2, writes what it is told beside the flow, and leaves a job behind when it fails.
const JOB: &str = "flow: job
input: {type: object, required: [n], properties: {n: {type: integer}}}
steps:
  - {id: a, run: 'echo 1', timeout: 1m}
  - id: b
    timeout: 1m
    run: |
      cat > product.json
      test \"$INPUT_N\" = 2 && exit 0
      echo '{\"error\": {\"cause\": \"bad number\", \"details\": {\"jobId\": 17}}}' >> \"$UNSTUCK_REPORT\"
      exit 65
";

/// `s` fails, and so does its handler while there is no room.
const HANDLED: &str = "flow: top
steps:
  - {id: s, run: 'echo broken >&2; exit 1', exceptionHandler: clean, timeout: 1m}
---
flow: clean
steps:
  - {id: tidy, run: 'test -e room || { echo no room >&2; exit 1; }', timeout: 1m, RETRY}
";

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

/// A text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn document(store: &Store, run: &str) -> Value {
    store.unstuck(&["show", run, "-o", "json"]).json()
}

fn product(store: &Store) -> Value {
    serde_json::from_str(&store.read("product.json")).expect("a product is JSON")
}

fn failed() -> (Store, String) {
    let store = Store::new();
    let ran = store.run_flow(JOB, &["--input", r#"{"n": 1}"#]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        (&product(&store)["previous"], product(&store)["history"].as_array().map(Vec::len)),
        (&Value::Null, Some(1))
    );
    let id = store.latest();
    (store, id)
}

#[test]
fn a_rerun_is_told_of_the_generation_before() {
    let (store, id) = failed();
    ok(store.unstuck(&["rerun", &id]));
    assert_eq!(store.unstuck(&["run", "--continue", &id]).code, 1);
    let product = product(&store);
    assert_eq!((&product["generation"], &product["resumedBy"]), (&json!(2), &json!("rerun")));
    let previous = &product["previous"];
    assert_eq!((&previous["generation"], &previous["state"]), (&json!(1), &json!("failed")));
    assert_eq!(previous["error"]["details"], json!({"jobId": 17}));
    let told: Vec<&Value> =
        product["history"].as_array().expect("a list").iter().map(|one| &one["step"]).collect();
    assert_eq!(told, [&json!("a"), &json!("b")]);
}

#[test]
fn bad_input_is_corrected_by_a_rerun_with_another_one() {
    let (store, id) = failed();
    let explained = words(&ok(store.unstuck(&["explain", &id])));
    assert!(explained.contains("The data is at fault: give a corrected input with --input"), "{explained}");
    let refused = store.unstuck(&["rerun", &id, "--input", r#"{"n": "x"}"#]);
    assert!(refused.code != 0 && refused.stdout.is_empty(), "{}", refused.stdout);
    assert!(refused.stderr.contains("the input does not match the flow: input.n"), "{}", refused.stderr);
    assert_eq!(document(&store, &id)["generation"], json!(1), "nothing was changed");

    ok(store.unstuck(&["rerun", &id, "--input", r#"{"n": 2}"#]));
    let ran = store.unstuck(&["run", "--continue", &id, "-o", "json"]);
    assert_eq!(
        (ran.code, &ran.json()["state"], &ran.json()["input"]),
        (0, &json!("completed"), &json!({"n": 2}))
    );
    let history = ok(store.unstuck(&["history", &id]));
    assert!(history.contains("the input of the run was changed by ada"), "{history}");

    let (store, id) = failed();
    ok(store.unstuck_reading(&["rerun", &id, "--step-input", "-"], r#"{"n": 2}"#));
    assert_eq!(store.unstuck(&["run", "--continue", &id]).code, 0);
    assert_eq!(document(&store, &id)["input"], json!({"n": 1}), "the run's own stays");
}

#[test]
fn a_rerun_of_a_chosen_step_runs_what_depends_on_it() {
    let store = Store::new();
    let flow = "flow: chain\nsteps:\n  - {id: a, run: 'echo a >> ran', timeout: 1m}\n  \
                - {id: b, run: 'echo b >> ran', timeout: 1m}\n  - {id: c, needs: [b], run: 'echo c >> ran; exit 1', \
                failOnError: false, timeout: 1m}\n  - {id: d, needs: [a], run: 'echo d >> ran', timeout: 1m}\n";
    assert_eq!(store.run_flow(flow, &[]).code, 0);
    let sorted = |store: &Store| {
        let text = store.read("ran");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.concat()
    };
    assert_eq!(sorted(&store), "abcd");
    ok(store.unstuck(&["rerun", "@latest", "--steps", "b"]));
    assert_eq!(store.unstuck(&["run", "--continue", "@latest"]).code, 0);
    assert_eq!(sorted(&store), "abbccd", "b, and c, which had failed; neither a nor d");
}

only_on_a_store! {
    "nothing has to be continued by hand on a server";
#[test]
fn a_handler_that_failed_is_rerun_by_itself_with_the_command_that_explain_offers() {
    let store = Store::new();
    let ran = store.run_flow(&HANDLED.replace(", RETRY", ""), &["--flow", "top"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let top = store.latest();
    let handler = document(&store, &top)["handler"].clone();
    assert_eq!((&handler["state"], &handler["error"]["cause"]), (&json!("failed"), &json!("no room")));
    let handler = handler["run"].as_str().expect("a run");
    let command = format!("unstuck rerun {handler}");
    for run in [&top, handler] {
        let explained = ok(store.unstuck(&["explain", run]));
        assert!(explained.contains(&command), "{command} in\n{explained}");
    }
    store.write("room", "");
    let answer = ok(store.unstuck(&["rerun", handler]));
    assert!(answer.contains(&format!("unstuck run --continue {handler}")), "{answer}");
    assert_eq!(store.unstuck(&["run", "--continue", handler]).code, 0);
    assert_eq!(document(&store, handler)["state"], json!("completed"));
    let document = document(&store, &top);
    assert_eq!(
        (&document["state"], &document["generation"]),
        (&json!("failed"), &json!(1)),
        "it stays as it was"
    );
}
}

#[test]
fn a_run_with_a_handler_at_work_shows_that_it_is_failing() {
    let store = Store::new();
    let flow = HANDLED.replace("RETRY", "retryStrategy: hold");
    assert_eq!(store.run_flow(&flow, &["--flow", "top"]).code, 3);
    let id = store.latest();
    let document = document(&store, &id);
    assert_eq!((&document["state"], &document["failing"]), (&json!("held"), &json!(true)));
    assert_eq!(document["error"]["cause"], json!("broken"));
    let handler = &document["handler"];
    assert_eq!((&handler["flow"], &handler["state"]), (&json!("clean"), &json!("held")));
    assert_eq!((&handler["error"]["step"], &handler["error"]["cause"]), (&json!("tidy"), &json!("no room")));
    let handler = handler["run"].as_str().expect("a run");
    let runs = ok(store.unstuck(&["runs"]));
    assert!(runs.contains(&format!("failing (handler {handler}): broken")), "{runs}");
    let line = store.unstuck(&["runs", "-o", "json"]).json()["runs"][0].clone();
    assert_eq!((&line["failing"], &line["handler"]), (&json!(true), &json!(handler)));
    let shown = words(&ok(store.unstuck(&["show", &id])));
    assert!(shown.contains(&format!("failing exception handler {handler} is held (no room)")), "{shown}");
    let explained = words(&ok(store.unstuck(&["explain", &id])));
    assert!(
        explained
            .contains(&format!("is failing: `s` ended with \"broken\"; exception handler {handler} is held")),
        "{explained}"
    );
}
