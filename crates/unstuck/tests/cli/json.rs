//! What programs read: objects, times of one form, ids as texts, and problems of a closed list.

use serde_json::{Value, json};

use crate::support::{REFUSED, Store, unstuck};

const FLOW: &str = "flow: shapes
labels: {team: media}
steps:
  - {id: first, run: 'echo one; echo two >&2', timeout: 5s}
  - {id: each, forEach: [a, b], set: 1}
  - {id: again, needs: [], emulate: {sequence: [stall, pass]}, retryStrategy: retry, maxAttempts: 2, backOff: 1s, timeout: 5s}
  - {id: rest, needs: [again], emulate: stall, timeout: 5s}
  - {id: hold, needs: [again], emulate: stall, retryStrategy: hold, timeout: 5s}
";

const PLAN: &str = "{steps: {rest: {sequence: [stall, pass]}}}";

const POLICIES: &str = "- {name: later, errorSubstring: emulated, maxAttempts: 9, backOff: 1d}\n\
                        - {name: never, errorSubstring: emulated stall, maxAttempts: 3, backOff: 90s}\n";

/// Documents of every kind, by the name of their schema.
pub(crate) fn documents() -> Vec<(&'static str, String, Value)> {
    let store = Store::new();
    let (flow, plan) = (store.write("flow.yaml", FLOW), store.write("plan.yaml", PLAN));
    let policies = store.write("policies.yaml", POLICIES);
    let copy = format!("{}copy", store.folder());
    let mut found = Vec::new();
    let mut tell = |name: &'static str, codes: &[i32], command: &[&str]| -> Value {
        let ran = store.unstuck(&[command, &["-o", "json"]].concat());
        assert!(codes.contains(&ran.code), "{command:?}: {} {}{}", ran.code, ran.stdout, ran.stderr);
        found.push((name, command.join(" "), ran.json()));
        ran.json()
    };
    let run = tell("run", &[3], &["run", &flow, "--key", "k-1"])["id"].as_str().expect("an id").to_owned();
    tell("run", &[3], &["run", &flow]);
    tell("runs", &[0], &["runs"]);
    tell("runs", &[0], &["runs", "--limit", "1"]);
    drop(["state", "flow", "group", "action"].map(|by| tell("counts", &[0], &["runs", "--count-by", by])));
    tell("run", &[0], &["show", &run]);
    tell("explanation", &[0], &["explain", &run]);
    tell("history", &[0], &["history", &run]);
    tell("history", &[0], &["history", &run, "--limit", "2"]);
    for (name, command) in policy_commands(&policies) {
        tell(name, &[0], &command);
    }
    tell("policyPause", &[0], &["policy", "pause", "--reason", "look first"]);
    tell("run", &[0], &["show", &run]);
    tell("policyPause", &[0], &["policy", "unpause"]);
    tell("policyChanges", &[0], &["policy", "disable", "never"]);
    let groups = tell("errorGroups", &[0], &["errors"]);
    let next =
        tell("errorGroups", &[0], &["errors", "--limit", "1"])["next"].as_str().expect("more").to_owned();
    let rest = tell("errorGroups", &[0], &["errors", "--after", &next]);
    assert_eq!(
        rest["groups"].as_array().map(Vec::as_slice),
        groups["groups"].as_array().map(|all| &all[1..])
    );
    let group = groups["groups"][0]["group"].as_str().expect("a name").to_owned();
    tell("errorGroup", &[0], &["errors", "show", &group]);
    tell("openErrors", &[0], &["errors", "open", &group]);
    tell("errorRecords", &[0], &["errors", "records", &group, "--since", "1h"]);
    tell("suggestion", &[0], &["policy", "suggest", &group]);
    tell("bulkBegun", &[0], &["resume", "--flow", "shapes", "--dry-run"]);
    tell("bulk", &[0, 1], &["ack", "--flow", "shapes", "--reason", "known"]);
    tell("bulkBegun", &[0], &["cancel", "--flow", "nothing", "--yes"]);
    tell("bulks", &[0], &["bulk", "list"]);
    tell("bulk", &[0], &["bulk", "show", "@latest"]);
    tell("items", &[0], &["items", &run, "each", "--state", "completed"]);
    for (command, more) in
        [("pause", &[][..]), ("unpause", &[]), ("signal", &["go"]), ("amend", &["--priority", "3"])]
    {
        tell("changed", &[0], &[&[command, &run], more].concat());
    }
    tell("changed", &[0], &["skip", &run, "rest", "--reason", "not needed"]);
    tell("changed", &[0], &["choose", &run, "hold", "none"]);
    tell("changed", &[0], &["cancel", "@latest"]);
    tell("rerunPreview", &[0], &["rerun", "@latest", "--dry-run"]);
    tell("changed", &[0], &["rerun", "@latest", "--all"]);
    tell("changed", &[0], &["cancel", "@latest"]);
    tell("forgotten", &[0], &["forget", "@latest", "--yes"]);
    tell("storeCopy", &[0], &["store", "copy", &copy]);
    tell("check", &[1], &["check", &plan, &flow]);
    tell("rehearsal", &[0], &["rehearse", &flow, "--plan", &plan, "--runs", "2"]);
    tell("weakPoints", &[0], &["rehearse", &flow, "--plan", "auto", "--max-pairs", "3"]);
    found.extend(token_and_flow_documents(&store, &flow));
    found
}

/// Commands about policies that are not paused, in order, by the name of what they print.
fn policy_commands(policies: &str) -> Vec<(&'static str, Vec<&str>)> {
    vec![
        ("policyChanges", vec!["policy", "load", policies, "--dry-run"]),
        ("policyChanges", vec!["policy", "load", policies]),
        ("policyChanges", vec!["policy", "order", "never", "later"]),
        ("policies", vec!["policy", "list"]),
        ("policy", vec!["policy", "show", "later"]),
        ("policyAudit", vec!["policy", "audit"]),
        ("trials", vec!["policy", "preview", policies]),
        ("trials", vec!["policy", "backtest", "later", "--since", "1h"]),
        ("policyApplied", vec!["policy", "apply", "--dry-run"]),
        ("policyApplied", vec!["policy", "apply"]),
        ("policyChanges", vec!["policy", "load", policies, "--replace-all", "--dry-run"]),
        ("policyApplied", vec!["policy", "apply", "never"]),
    ]
}

fn token_and_flow_documents(store: &Store, flow: &str) -> Vec<(&'static str, String, Value)> {
    let nightly =
        store.write("nightly.yaml", "flow: nightly\nschedule: 0 3 * * *\nsteps: [{id: a, set: 1}]\n");
    let commands: [(&str, &[&str]); 24] = [
        ("storeInfo", &["store", "info"]),
        ("storeCheck", &["store", "check"]),
        ("check", &["check", flow]),
        ("status", &["status"]),
        ("watch", &["watch"]),
        ("logs", &["logs", "@latest"]),
        ("tokenChanged", &["token", "create", "ops", "--role", "operator", "--expires-in", "90d"]),
        ("tokenChanged", &["token", "rotate", "ops"]),
        ("tokens", &["token", "list"]),
        ("tokenChanged", &["token", "revoke", "ops"]),
        ("flowsApplied", &["flow", "apply", flow, "--dry-run"]),
        ("flowsApplied", &["flow", "apply", flow]),
        ("flows", &["flow", "list"]),
        ("flow", &["flow", "show", "shapes"]),
        ("changed", &["start", "shapes"]),
        ("doctor", &["doctor"]),
        ("configuration", &["serve", "--print-config"]),
        ("migration", &["flow", "migrate", "shapes", "--dry-run"]),
        ("flowsApplied", &["flow", "apply", &nightly]),
        ("schedules", &["schedule", "list"]),
        ("changedSchedule", &["schedule", "pause", "nightly", "--reason", "moving"]),
        ("changed", &["schedule", "fire", "nightly"]),
        ("schedule", &["schedule", "show", "nightly"]),
        ("flow", &["flow", "show", "nightly"]),
    ];
    let tell = |(name, command): (&'static str, &[&str])| {
        let ran = store.unstuck(&[command, &["-o", "json"]].concat());
        assert_eq!(ran.code, 0, "{command:?}: {}", ran.stderr);
        (name, command.join(" "), ran.json())
    };
    commands.into_iter().map(tell).collect()
}

/// Forbids every field that a schema does not name.
fn close(schema: &mut Value) {
    let definitions = schema["$defs"].as_object_mut().expect("definitions");
    for definition in definitions.values_mut() {
        definition["additionalProperties"] = json!(false);
    }
}

only_on_a_store! {
    "the first token closes the server to commands without one";
#[test]
fn what_the_commands_print_is_what_their_schemas_say() {
    for (name, command, document) in documents() {
        let ran = unstuck(&["schema", "--documents", name]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
        let mut schema = ran.json();
        close(&mut schema);
        let schema = jsonschema::validator_for(&schema).expect("it is a schema");
        let wrong: Vec<String> = schema
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{name} of {command}: {wrong:#?}\n{document:#}");
    }
    let problem = unstuck(&["show", "nope", "-o", "json"]).stderr;
    let schema = unstuck(&["schema", "--documents", "problem"]).json();
    let problem: Value = serde_json::from_str(&problem).expect("it is JSON");
    assert!(jsonschema::validator_for(&schema).expect("it is a schema").is_valid(&problem), "{problem}");
    assert_eq!(unstuck(&["schema", "--documents"]).json()["anyOf"].as_array().map(Vec::len), Some(46));
}
}

only_on_a_store! {
    "the first token closes the server to commands without one";
#[test]
fn every_document_is_an_object_with_times_of_one_form_and_numbers_that_fit() {
    for (_, command, document) in documents() {
        assert!(document.is_object(), "{command}: {document:#}");
        let (mut times, mut wrong) = (0, Vec::new());
        walk("", &document, &mut |path, value| match value {
            Value::String(text) if looks_like_time(text) => {
                times += 1;
                if !is_time(text) {
                    wrong.push(format!("{path}: {text}"));
                }
            }
            Value::Number(number) if number.as_f64().is_some_and(|n| n.abs() >= 9_007_199_254_740_992.0) => {
                wrong.push(format!("{path}: {number}"));
            }
            Value::Array(_) if path.ends_with("Ms") || path.ends_with("Milliseconds") => {
                wrong.push(path.to_owned());
            }
            _ => {}
        });
        assert!(wrong.is_empty(), "{command}: {wrong:#?}");
        assert!(times > 0 || !command.starts_with("show"), "{command}");
    }
}
}

/// Every value but payloads, with its path.
fn walk(path: &str, value: &Value, each: &mut impl FnMut(&str, &Value)) {
    each(path, value);
    match value {
        Value::Array(values) => values.iter().for_each(|value| walk(path, value, each)),
        Value::Object(fields) => {
            for (name, value) in
                fields.iter().filter(|(name, _)| !["input", "output", "progress"].contains(&name.as_str()))
            {
                assert!(!name.contains('_'), "{path}.{name}");
                walk(&format!("{path}.{name}"), value, each);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn looks_like_time(text: &str) -> bool {
    text.len() < 40 && text.parse::<jiff::Timestamp>().is_ok()
}

/// `2026-11-16T02:51:21.698Z`.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}

#[test]
fn a_refusal_is_a_problem_with_its_type_and_what_it_is_about() {
    let store = Store::new();
    let flow = store.write("flow.yaml", FLOW);
    assert_eq!(store.unstuck(&["run", &flow, "--key", "k-1"]).code, 3);
    assert_eq!(store.unstuck(&["run", &flow, "--key", "k-2"]).code, 3);
    let runs = store.unstuck(&["runs", "-o", "json"]).json();
    let [last, first] = [0, 1].map(|place| runs["runs"][place]["id"].as_str().expect("an id").to_owned());
    assert_eq!(store.unstuck(&["cancel", &last]).code, 0);
    let cases: [(&[&str], &str, Value); 12] = [
        (&["show", "nope"], "not-found", json!({"what": "run", "name": "nope"})),
        (&["show", "run_0"], "ambiguous", json!({"candidates": [last, first]})),
        (&["choose", &first, "nope", "retry"], "not-found", json!({"what": "step", "name": "nope"})),
        (
            &["choose", &first, "rest", "retry"],
            "wrong-state",
            json!({"run": first, "step": "rest", "state": "error", "wanted": "held"}),
        ),
        (&["pause", &last], "final", json!({"run": last, "state": "cancelled"})),
        (&["forget", &first, "--yes"], "wrong-state", json!({"state": "held"})),
        (&["run", &flow, "--key", "k-1", "--input", "1"], "key-taken", json!({"key": "k-1", "run": first})),
        (&["signal", &first, "go", "{"], "bad-request", json!({})),
        (&["errors", "--after", "x"], "bad-cursor", json!({})),
        (&["errors", "show", "err_ffff"], "not-found", json!({"what": "group", "name": "err_ffff"})),
        (&["policy", "show", "nope"], "not-found", json!({"what": "policy", "name": "nope"})),
        (&["bulk", "show", "nope"], "not-found", json!({"what": "bulk", "name": "nope"})),
    ];
    for (command, kind, about) in cases {
        let ran = store.unstuck(&[command, &["-o", "json"]].concat());
        let problem: Value = serde_json::from_str(&ran.stderr).expect("stderr is JSON");
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{command:?}: {problem}");
        assert_eq!(problem["type"], format!("/problems/{kind}"), "{command:?}: {problem}");
        for (name, wanted) in about.as_object().expect("an object") {
            assert_eq!(&problem[name], wanted, "{command:?}: {problem}");
        }
    }
}

#[test]
fn a_history_has_typed_facts_beside_its_sentences() {
    let store = Store::new();
    assert_eq!(store.run_flow(FLOW, &["--key", "k-1"]).code, 3);
    assert_eq!(store.unstuck(&["skip", "@latest", "rest", "--reason", "not needed"]).code, 0);
    let history = store.unstuck(&["history", "@latest", "-o", "json"]).json();
    let events = history["events"].as_array().expect("a list");
    let facts: Vec<&Value> =
        events.iter().flat_map(|event| event["facts"].as_array().expect("a list")).collect();
    let of = |kind: &str, step: &str| {
        let found = facts
            .iter()
            .find(|fact| fact["type"] == kind && fact["step"].as_str().unwrap_or_default() == step);
        found.unwrap_or_else(|| panic!("{kind} of {step}: {history:#}"))
    };
    assert_eq!(**of("run.started", ""), json!({"type": "run.started", "flow": "shapes", "key": "k-1"}));
    let stalled = of("attempt.stalled", "again");
    assert_eq!((&stalled["attempt"], stalled["cause"].is_string()), (&json!(1), true), "{stalled}");
    let retried = of("step.retried", "again");
    assert_eq!((&retried["attempt"], &retried["delay"], &retried["max"]), (&json!(1), &json!(1), &json!(2)));
    assert!(retried["due"].as_str().is_some_and(is_time), "{retried}");
    let queued = facts.iter().filter(|fact| fact["type"] == "step.queued" && fact["step"] == "again");
    let queued: Vec<(&Value, &Value)> = queued.map(|fact| (&fact["attempt"], &fact["because"])).collect();
    assert_eq!(queued, [(&json!(1), &Value::Null), (&json!(2), &json!("retry"))]);
    assert_eq!(of("attempt.completed", "again")["attempt"], 2);
    assert_eq!(of("step.itemsKnown", "each")["count"], 2);
    assert_eq!(of("step.completed", "each[1]")["step"], "each[1]");
    assert_eq!(of("step.held", "hold")["attempt"], 1);
    assert_eq!(of("step.error", "rest")["attempt"], 1);
    let skipped = of("step.skipped", "rest");
    assert_eq!((&skipped["because"], &skipped["reason"]), (&json!("operator"), &json!("not needed")));
    // A page that begins later knows the numbers of attempts all the same.
    let last = store.unstuck(&["history", "@latest", "--after", "1", "-o", "json"]).json();
    assert_eq!(last["events"].as_array().map(Vec::as_slice), Some(&events[1..]));
}
