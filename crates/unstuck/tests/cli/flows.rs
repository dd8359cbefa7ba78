//! Flows in the store: versions, and children that are there already.

use serde_json::json;

use crate::support::under_way::UnderWay;
use crate::support::{REFUSED, Store};

fn flow(name: &str, version: &str, value: u32) -> String {
    format!("flow: {name}\n{version}steps:\n  - {{id: one, set: {value}}}\n")
}

#[test]
fn the_same_version_keeps_its_content_and_what_has_none_is_numbered() {
    let store = Store::new();
    let cases = [
        (flow("a", "version: 7\n", 1), Some("7")),
        (flow("a", "version: 7\n", 1), Some("7")),
        (flow("a", "version: 7\n", 2), None),
        (flow("a", "version: 8\n", 2), Some("8")),
        (flow("b", "", 1), Some("1")),
        (flow("b", "", 1), Some("1")),
        (flow("b", "", 2), Some("2")),
    ];
    for (text, wanted) in cases {
        let ran = store.run_flow(&text, &["-o", "json"]);
        if let Some(version) = wanted {
            assert_eq!((ran.code, &ran.json()["version"]), (0, &json!(version)), "{}", ran.stderr);
            continue;
        }
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("it is JSON");
        let sentence = error["detail"].as_str().expect("it is a text");
        let wanted = "flow.yaml: version 7 of flow `a` already exists with different content; give the change a new version";
        assert!(ran.code == REFUSED && sentence.ends_with(wanted), "{sentence}");
        let about = (&error["type"], &error["flow"], &error["version"]);
        assert_eq!(about, (&json!("/problems/version-taken"), &json!("a"), &json!("7")));
    }
    let info = store.unstuck(&["store", "info", "-o", "json"]).json();
    let wanted = json!([{"flow": "a", "versions": ["7", "8"]}, {"flow": "b", "versions": ["1", "2"]}]);
    assert_eq!(info["flows"], wanted);
}

#[test]
fn the_flows_of_a_file_are_kept_all_together_or_not_at_all() {
    let store = Store::new();
    assert_eq!(store.run_flow(&flow("second", "version: 7\n", 1), &[]).code, 0);
    let both = format!("{}---\n{}", flow("first", "", 1), flow("second", "version: 7\n", 2));
    let refused = store.run_flow(&both, &[]);
    assert!(
        refused.code == REFUSED && refused.stderr.contains("version 7 of flow `second`"),
        "{}",
        refused.stderr
    );
    let info = store.unstuck(&["store", "info", "-o", "json"]).json();
    assert_eq!(info["flows"], json!([{"flow": "second", "versions": ["7"]}]));
}

#[test]
fn a_child_or_handler_may_be_in_the_store_already() {
    let store = Store::new();
    let parent = "flow: parent\nsteps:\n  - {id: ask, flow: child}\n  - {id: bad, emulate: fail, exceptionHandler: child, timeout: 5s}\n";
    let refused = store.run_flow(parent, &[]);
    assert!(refused.code == REFUSED && refused.stderr.contains("child"), "{}", refused.stderr);
    assert!(
        crate::ON_SERVER || !std::fs::exists(store.path()).expect("it can be looked for"),
        "a file that is refused makes no store"
    );

    assert_eq!(store.run_flow(&flow("child", "", 1), &[]).code, 0);
    let ran = store.run_flow(parent, &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    for part in ["ask > run_", "ask > one: completed", "exception handler run_", "child > one: completed"] {
        assert!(ran.stdout.contains(part), "{part} in\n{}", ran.stdout);
    }
}

only_on_a_store! {
    "a server executes what an operator chose at once";
#[test]
fn a_key_has_one_run() {
    let store = Store::new();
    let held = "flow: a\nsteps:\n  - {id: one, emulate: {sequence: [stall, pass]}, retryStrategy: hold, timeout: 5s}\n";
    assert_eq!(store.run_flow(held, &["--key", "k"]).code, 3);
    let id = store.latest();
    let again = store.run_flow(held, &["--key", "k"]);
    assert_eq!(again.code, 3, "{}", again.stderr);
    let note = "\nkey `k` already has this run (held); continuing it\n";
    assert!(again.stdout.starts_with(&id) && again.stdout.contains(note), "{}", again.stdout);

    store.unstuck(&["choose", &id, "one", "retry"]);
    let completed = store.run_flow(held, &["--key", "k"]);
    assert_eq!(completed.code, 0, "{}{}", completed.stdout, completed.stderr);
    assert!(completed.stdout.contains("one: attempt 2 completed"), "{}", completed.stdout);
    let shown = store.run_flow(held, &["--key", "k"]);
    let note = "\nkey `k` already has this run (completed); nothing was started\n";
    assert!(shown.code == 0 && shown.stdout.contains(note), "{}", shown.stdout);
    let other = store.run_flow(held, &["--key", "k", "--input", "{\"n\": 1}"]);
    let start = format!("error: key `k` already belongs to {id}, which has a different input");
    assert!(other.code == REFUSED && other.stderr.starts_with(&start), "{}", other.stderr);
    assert_eq!(store.unstuck(&["runs", "-o", "json"]).json()["runs"].as_array().map(Vec::len), Some(1));
}
}

#[test]
fn a_second_start_of_a_key_may_be_refused_or_start_a_final_run_again() {
    let store = Store::new();
    let flow = "flow: a\nsteps:\n  - {id: one, emulate: pass}\n";
    let start = |on_duplicate: &str| {
        store.run_flow(flow, &["--key", "k", "--on-duplicate", on_duplicate, "-o", "json"])
    };
    let first = start("refuse");
    assert_eq!((first.code, &first.json()["generation"]), (0, &json!(1)), "{}", first.stderr);
    let refused = start("refuse");
    assert_eq!((refused.code, refused.stdout.as_str()), (REFUSED, ""));
    assert!(refused.stderr.contains("and onDuplicate is `refuse`"), "{}", refused.stderr);
    assert_eq!(start("return").json()["generation"], 1);
    let again = start("restartIfFinal");
    assert_eq!((again.code, &again.json()["generation"]), (0, &json!(2)), "{}", again.stderr);
    assert_eq!(again.json()["id"], first.json()["id"]);
    assert_eq!(store.unstuck(&["run", "a.yaml", "--on-duplicate", "refuse"]).code, 2, "it is about a key");
}

only_on_a_store! {
    "the run of a key on a server is shown, not executed by another process";
#[test]
fn a_second_start_of_a_key_is_refused_by_whoever_has_the_store_open_too() {
    let store = Store::new();
    let run = UnderWay::start(&store, "flow: a\nsteps:\n  - {id: one, signal: go}\n", &["--key", "k"]);
    run.until("waiting for signal `go`");
    let file = format!("{}flow.yaml", store.folder());
    let start = |what: &str| store.unstuck(&["run", &file, "--key", "k", "--on-duplicate", what]);
    assert_eq!(start("refuse").code, REFUSED);
    assert_eq!(start("restartIfFinal").code, 4, "it is not final");
    assert_eq!(store.unstuck(&["cancel", "@latest"]).code, 0);
    run.wait();
}
}
