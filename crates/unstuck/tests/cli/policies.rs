//! The commands for policies: what is loaded, listed, changed and told, and every sentence of a refusal.

use serde_json::{Value, json};

use crate::support::{REFUSED, Ran, Store, unstuck};

const TWO: &str = "\
name: resets
errorSubstring: connection reset
maxAttempts: 5
backOff: {delay: 1m, maxDelay: 5m, multiplier: 1}
---
name: nightly
flow: nightly
maxAttempts: 3
backOff: {delay: 1h}
";

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

fn loaded() -> (Store, String) {
    let store = Store::new();
    let file = store.write("two.yaml", TWO);
    ok(store.unstuck(&["policy", "load", &file]));
    (store, file)
}

/// The names of the policies, in the order in which they match.
fn names(store: &Store) -> Vec<String> {
    let lines = store.unstuck(&["policy", "list", "-o", "json"]).json();
    let lines = lines["policies"].as_array().expect("a list").iter();
    lines.map(|line| line["name"].as_str().expect("a name").to_owned()).collect()
}

only_on_a_store! {
    "a server has made its store";
#[test]
fn policies_are_there_before_the_first_run() {
    let store = Store::new();
    let none = store.unstuck(&["policy", "list"]);
    assert!(
        none.code == REFUSED && none.stderr.starts_with("error: there is no store at "),
        "{}",
        none.stderr
    );
    let wrong = store.write("wrong.yaml", "name: a\n");
    assert_eq!(store.unstuck(&["policy", "load", &wrong]).code, REFUSED);
    assert!(!std::fs::exists(store.path()).expect("it can be looked for"), "a refused file makes no store");
    let file = store.write("two.yaml", TWO);
    let said = ok(store.unstuck(&["policy", "load", &file]));
    assert_eq!(
        said,
        "Added `resets`.\nAdded `nightly`.\nApply to new errors. To include existing ones: \
         unstuck policy apply\n"
    );
    assert_eq!(names(&store), ["resets", "nightly"]);
    assert_eq!(store.run_flow("flow: nightly\nsteps: [{id: a, set: 1}]\n", &[]).code, 0);
}
}

#[test]
fn the_examples_that_policies_come_from_load_as_they_are() {
    let store = Store::new();
    let passthrough = r#"{"id": "88bc7429-7adf-4bb1-b23f-3922993e0a1a", "name": "auto-resume-passthrough",
        "flow": "passthrough", "maxAttempts": 10, "priority": 50,
        "backOff": {"delay": 60, "maxDelay": 300, "multiplier": 1}}"#;
    let json_errors = r#"{"id": "a2b08968-866a-4080-bc28-1d7e7c81ada8", "name": "resume-json-errors",
        "errorSubstring": "JsonException", "actionType": "TRANSFORM", "maxAttempts": 4, "priority": 150,
        "backOff": {"delay": 60, "maxDelay": 120, "random": true}}"#;
    let (one, other) = (store.write("one.json", passthrough), store.write("other.json", json_errors));
    ok(store.unstuck(&["policy", "load", &one, &other]));
    assert_eq!(names(&store), ["resume-json-errors", "auto-resume-passthrough"], "by priority");
    let exported = store.unstuck(&["policy", "export", "-o", "json"]).json();
    let given: Vec<Value> =
        [json_errors, passthrough].iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    assert_eq!(exported, Value::from(given));
    let line = ok(store.unstuck(&["policy", "list"]));
    for cells in [
        "resume-json-errors       150       cause has \"JsonException\", type TRANSFORM  after 1m to 2m                 4 rounds",
        "auto-resume-passthrough  50        flow passthrough                           after 1m * rounds, at most 5m  10 rounds",
    ] {
        assert!(line.contains(cells), "{cells} in\n{line}");
    }
}

#[test]
fn what_is_exported_loads_to_the_same_elsewhere() {
    let (store, _) = loaded();
    let yaml = ok(store.unstuck(&["policy", "export"]));
    let other = Store::new();
    ok(other.unstuck_reading(&["policy", "load", "-"], &yaml));
    assert_eq!(ok(other.unstuck(&["policy", "export"])), yaml);
    let json = ok(store.unstuck(&["policy", "export", "nightly", "-o", "json"]));
    let again = ok(other.unstuck_reading(&["policy", "load", "-", "--replace"], &json));
    assert_eq!(again, "`nightly` is unchanged.\n");
    let none = store.unstuck(&["policy", "export", "nope"]);
    assert_eq!((none.code, none.stdout.as_str()), (REFUSED, ""));
    assert_eq!(
        none.stderr,
        "error: there is no policy `nope`; known: `resets`, `nightly`; `unstuck policy list` lists all\n"
    );
}

#[test]
fn a_change_is_a_version_and_is_told_with_who_and_from_what_to_what() {
    let (store, _) = loaded();
    let changed = TWO.replace("maxAttempts: 5", "maxAttempts: 7").replace("delay: 1h", "delay: 2h");
    let file = store.write("changed.yaml", changed);
    let said = ok(store.unstuck(&["policy", "load", &file, "--replace"]));
    assert!(said.starts_with("Changed `resets` (version 2).\nChanged `nightly` (version 2).\n"), "{said}");
    assert_eq!(ok(store.unstuck(&["policy", "disable", "nightly"])), "Disabled `nightly` (version 3).\n");
    assert_eq!(ok(store.unstuck(&["policy", "disable", "nightly"])), "`nightly` is unchanged.\n");
    let shown = ok(store.unstuck(&["policy", "show", "nightly"]));
    let wanted = [
        "`nightly` is disabled; if enabled, it is checked last (2 of 2)\n",
        "  version   3\n",
        "  matches   flow nightly\n",
        "  resumes   after 2h; up to 3 rounds\n",
    ];
    for line in wanted {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert_eq!(
        ok(store.unstuck(&["policy", "enable", "nightly", "resets"])),
        "Enabled `nightly` (version 4).\n`resets` is unchanged.\n"
    );
    assert_eq!(ok(store.unstuck(&["policy", "delete", "resets"])), "Deleted `resets`.\n");
    assert_eq!(names(&store), ["nightly"]);

    let audit = ok(store.unstuck(&["policy", "audit"]));
    let lines: Vec<Vec<&str>> =
        audit.lines().skip(1).map(|line| line.split_whitespace().skip(2).collect()).collect();
    assert_eq!(
        lines.iter().map(|words| words.join(" ")).collect::<Vec<_>>(),
        [
            "ada deleted resets",
            "ada enabled nightly",
            "ada disabled nightly",
            "ada changed nightly backOff {delay: 1h} -> {delay: 2h}",
            "ada changed resets maxAttempts 5 -> 7",
            "ada added nightly",
            "ada added resets",
        ]
    );
    let of_one = store.unstuck(&["policy", "audit", "resets", "--limit", "1", "-o", "json"]).json();
    assert_eq!(
        (&of_one["changes"][0]["what"], of_one["changes"][0]["after"].is_null()),
        (&json!("deleted"), true)
    );
    let next = of_one["next"].as_u64().expect("there is more").to_string();
    let more = store.unstuck(&["policy", "audit", "resets", "--before", &next, "-o", "json"]).json();
    assert_eq!((&more["changes"][0]["what"], &more["next"]), (&json!("changed"), &Value::Null));
    let page = ok(store.unstuck(&["policy", "audit", "--limit", "2"]));
    assert!(page.contains("\nMore: unstuck policy audit --before "), "{page}");
}

#[test]
fn a_file_is_loaded_whole_or_not_at_all_with_every_problem_in_its_place() {
    let (store, file) = loaded();
    let before = ok(store.unstuck(&["policy", "export"]));
    let mixed = store.write(
        "mixed.yaml",
        "name: new\nflow: other\nmaxAttempts: 3\nbackOff: 1h\n---\nname: resets\nerrorSubstring: reset\nmaxAttempts: 3\nbackOff: 1h\n---\nname: like\nflow: nightly\nmaxAttempts: 3\nbackOff: 9h\n",
    );
    let refused = store.unstuck(&["policy", "load", &mixed]);
    assert_eq!((refused.code, refused.stdout.as_str()), (REFUSED, ""));
    for part in [
        "error: the name `resets` is taken by policy pol_",
        "mixed.yaml:6:7\n",
        "6 | name: resets\n  |       ^^^^^^\n",
        "  = hint: give it another name, or load it with `--replace`\n",
        "error: it matches the same errors as policy `nightly`, with the same `maxAttempts`\n",
        "mixed.yaml:11:1\n",
        "mixed.yaml is refused: 2 errors\n",
    ] {
        assert!(refused.stderr.contains(part), "{part} in\n{}", refused.stderr);
    }
    // Over two files, each with its own.
    let wrong = store.write("wrong.yaml", "name: a\nflow: f\nmaxAttempts: 1\nbackOff: -5s\n");
    let other = store.write("other.yaml", "name: b\nflw: f\nmaxAttempts: 2\nbackOff: 1\n");
    let refused = store.unstuck(&["policy", "load", &wrong, &other, "-o", "json"]);
    let error: Value = serde_json::from_str(&refused.stderr).expect("it is JSON");
    let problems: Vec<(&Value, &Value)> = error["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|problem| (&problem["line"], &problem["field"]))
        .collect();
    assert_eq!(
        problems,
        [
            (&json!(3), &json!("maxAttempts")),
            (&json!(4), &json!("backOff.delay")),
            (&json!(2), &json!("flw"))
        ]
    );
    let twice = store.unstuck(&["policy", "load", &file, &file, "--replace"]);
    assert_eq!(twice.code, REFUSED, "{}", twice.stdout);
    assert_eq!(ok(store.unstuck(&["policy", "export"])), before, "nothing was changed");
}

#[test]
fn a_policy_that_can_never_match_is_told() {
    let (store, _) = loaded();
    let file = store.write(
        "never.yaml",
        "- {name: never, errorSubstring: connection reset by peer, maxAttempts: 5, priority: 1, backOff: 1}\n\
         - {name: later, errorSubstring: connection reset by peer, maxAttempts: 6, priority: 1, backOff: 1}\n",
    );
    let said = ok(store.unstuck(&["policy", "load", &file]));
    assert!(
        said.contains("warning: `never` can never match: `resets` matches the same errors first\n"),
        "{said}"
    );
    assert!(!said.contains("`later` can never"), "it has its turn when the first is spent: {said}");
    let listed = ok(store.unstuck(&["policy", "list"]));
    let note = |name: &str| listed.lines().find(|line| line.contains(name)).expect("it is listed").to_owned();
    assert!(note("never ").ends_with("never matches: `resets` matches the same errors first"), "{listed}");
    let shown = ok(store.unstuck(&["policy", "show", "never"]));
    assert!(
        shown.contains("  warning   it can never match: `resets` matches the same errors first\n"),
        "{shown}"
    );
    ok(store.unstuck(&["policy", "disable", "resets"]));
    assert!(note("resets ").contains("connection reset"));
    let lines = store.unstuck(&["policy", "list", "-o", "json"]).json();
    let never = lines["policies"].as_array().expect("a list").iter().find(|line| line["name"] == "never");
    let never = never.expect("there");
    assert_eq!(never["shadowedBy"], Value::Null, "nobody comes before it any more");
}

#[test]
fn what_names_no_policy_is_refused_and_nothing_is_changed() {
    let (store, _) = loaded();
    let before = ok(store.unstuck(&["policy", "export"]));
    let unknown = "there is no policy `nope`; `unstuck policy list` lists them";
    let cases: [(&[&str], &str); 6] = [
        (&["policy", "disable", "resets", "nope"], unknown),
        (&["policy", "enable", "nope"], unknown),
        (&["policy", "delete", "nope"], unknown),
        (&["policy", "apply", "nope"], unknown),
        (
            &["policy", "show", "nope"],
            "there is no policy `nope`; known: `resets`, `nightly`; `unstuck policy list` lists all",
        ),
        (&["policy", "load", "-", "-"], "stdin can be read only once; name `-` once"),
    ];
    for (command, wanted) in cases {
        let ran = store.unstuck(command);
        assert_eq!(
            (ran.code, ran.stdout, ran.stderr),
            (REFUSED, String::new(), format!("error: {wanted}\n")),
            "{command:?}"
        );
    }
    assert_eq!(ok(store.unstuck(&["policy", "export"])), before);
}

#[test]
fn the_schema_of_policy_files_is_printed() {
    let schema = unstuck(&["schema", "--policies"]).json();
    assert_eq!(schema["$id"], "urn:unstuck:policy");
    assert_eq!(
        schema["$defs"]["policy"]["properties"]["max-attempts"]["$ref"],
        "#/$defs/policy/properties/maxAttempts"
    );
}

#[test]
fn every_command_that_names_a_policy_takes_its_id_too() {
    let (store, _) = loaded();
    let id = store.unstuck(&["policy", "show", "resets", "-o", "json"]).json()["id"].clone();
    let id = id.as_str().expect("a text");
    let commands: [&[&str]; 8] = [
        &["policy", "show"],
        &["policy", "export"],
        &["policy", "audit"],
        &["policy", "preview"],
        &["policy", "backtest", "--since", "1d"],
        &["policy", "apply"],
        &["policy", "disable"],
        &["policy", "enable"],
    ];
    // What is tried needs a store with a run in it.
    assert_eq!(store.run_flow("flow: nightly\nsteps: [{id: a, set: 1}]\n", &[]).code, 0);
    for command in commands {
        let ran = store.unstuck(&[command, &[id]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command:?}");
        if !command.contains(&"apply") {
            assert!(ran.stdout.contains("resets"), "{command:?}: {}", ran.stdout);
        }
    }
    let bulk = store.unstuck(&["resume", "--policy", id, "--dry-run"]);
    assert_eq!((bulk.code, bulk.stderr.as_str()), (0, ""));
    ok(store.unstuck(&["policy", "delete", id]));
    assert_eq!(store.unstuck(&["policy", "show", "resets"]).code, REFUSED);
}
