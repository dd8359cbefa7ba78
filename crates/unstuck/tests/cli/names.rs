//! How runs are named: by id, by the beginning of one, by key, or as the latest.

use serde_json::json;

use crate::support::{REFUSED, Store};

const DONE: &str = "flow: a\nsteps:\n  - {id: one, set: 1}\n";
const WITH_CHILD: &str =
    "flow: p\nsteps:\n  - {id: ask, flow: c}\n---\nflow: c\nsteps:\n  - {id: two, wait: 5ms}\n";

#[test]
fn a_run_has_many_names() {
    let store = Store::new();
    store.run_flow(DONE, &[]);
    let first = store.latest();
    // Ids begin with the time, so that the next second has another beginning.
    let digits = first.trim_start_matches("run_").to_owned();
    store.run_flow(DONE, &[]);
    let second = store.latest();
    assert_ne!(first, second);
    let common = common(&first, &second);
    let (longer, upper) = (&first[..=common], first.to_uppercase());
    for name in [&*first, &*digits, longer, longer.trim_start_matches("run_"), &upper] {
        let shown = store.unstuck(&["show", name, "-o", "json"]);
        assert_eq!(shown.code, 0, "{name}: {}", shown.stderr);
        assert_eq!(shown.json()["id"], *first, "{name}");
    }
    let ambiguous = store.unstuck(&["cancel", &first[..common]]);
    assert_eq!(ambiguous.code, REFUSED);
    let start = format!("error: `{}` is the start of several ids; give more of the id:\n", &first[..common]);
    assert!(ambiguous.stderr.starts_with(&start), "{}", ambiguous.stderr);
    for line in
        [format!("  {first}  completed, of flow `a`\n"), format!("  {second}  completed, of flow `a`\n")]
    {
        assert!(ambiguous.stderr.contains(&line), "{line} in {}", ambiguous.stderr);
    }
}

#[test]
fn the_latest_is_the_one_that_somebody_started_last() {
    let store = Store::new();
    store.run_flow(WITH_CHILD, &[]);
    let runs = store.unstuck(&["runs", "--all", "-o", "json"]).json();
    assert_eq!((&runs["runs"][0]["flow"], &runs["runs"][1]["id"]), (&json!("c"), &json!(store.latest())));
}

fn common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

only_on_a_store! {
    "a server has made its store";
#[test]
fn what_names_no_run_is_refused() {
    let store = Store::new();
    let nothing = store.unstuck(&["show", "@latest"]);
    assert_eq!(nothing.code, REFUSED);
    assert!(nothing.stderr.starts_with("error: there is no store at "), "{}", nothing.stderr);
    assert!(!std::fs::exists(store.path()).expect("it can be looked for"), "asking makes no store");

    store.run_flow(DONE, &[]);
    let id = store.latest();
    store.unstuck(&["forget", &id, "--yes"]);
    let unknown = |name: &str| {
        format!(
            "there is no run `{name}`: no id starts with it, and no key equals it. `unstuck runs` lists all runs"
        )
    };
    let none = "this store has no runs yet; start one with `unstuck run FILE`".to_owned();
    let mut cases = vec![("@latest", none)];
    cases.extend([&id, "zzz", "7", "@last", "", "r-1", "a:"].map(|name| (name, unknown(name))));
    for (name, wanted) in cases {
        for command in ["show", "explain", "history", "cancel"] {
            let ran = store.unstuck(&[command, name]);
            assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{command} {name}");
            assert_eq!(ran.stderr, format!("error: {wanted}\n"), "{command} {name}");
        }
        let ran = store.unstuck(&["show", name, "-o", "json"]);
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("it is JSON");
        assert_eq!(error["detail"], wanted);
    }
}
}

const KEYED: &str = "flow: a\nsteps:\n  - {id: one, set: 1}\n---\nflow: b\nsteps:\n  - {id: one, set: 1}\n";

#[test]
fn a_run_is_found_by_its_key_wherever_one_is_named() {
    let store = Store::new();
    store.run_flow(KEYED, &["--key", "talk 17/a"]);
    let id = store.latest();
    store.run_flow(KEYED, &[]);
    for name in ["talk 17/a", "a:talk 17/a"] {
        assert_eq!(store.unstuck(&["show", name, "-o", "json"]).json()["id"], *id, "{name}");
        for command in [["explain", name], ["history", name]] {
            let ran = store.unstuck(&command);
            assert_eq!(ran.code, 0, "{command:?}: {}", ran.stderr);
            assert!(ran.stdout.contains(&id), "{command:?}: {}", ran.stdout);
        }
    }
    let page = store.unstuck(&["runs", "--after", "talk 17/a", "-o", "json"]).json();
    assert_eq!(page["runs"], json!([]));
    let forgotten = store.unstuck(&["forget", "talk 17/a", "--yes", "-o", "json"]);
    assert_eq!(forgotten.json()["forgotten"], json!([id]));
}

#[test]
fn a_key_of_several_flows_is_named_with_its_flow() {
    let store = Store::new();
    store.run_flow(KEYED, &["--key", "k-1"]);
    let first = store.latest();
    store.run_flow(KEYED, &["--key", "k-1", "--flow", "b"]);
    let second = store.latest();
    let ambiguous = store.unstuck(&["cancel", "k-1"]);
    let wanted = format!(
        "error: `k-1` is a key in several flows; use FLOW:KEY or the id:\n  a:k-1  is {first}, completed\n  b:k-1  is {second}, completed\n"
    );
    assert_eq!((ambiguous.code, ambiguous.stderr), (REFUSED, wanted));
    for (name, id) in [("a:k-1", &first), ("b:k-1", &second)] {
        assert_eq!(store.unstuck(&["show", name, "-o", "json"]).json()["id"], **id, "{name}");
    }
    // A key that is the beginning of an id too.
    store.run_flow(KEYED, &["--key", "0"]);
    let third = store.latest();
    let ambiguous = store.unstuck(&["show", "0"]);
    let wanted = format!(
        "error: `0` is a key and also the start of an id; use FLOW:KEY or the id:\n  a:0  is {third}, completed\n"
    );
    assert!(ambiguous.stderr.starts_with(&wanted), "{}", ambiguous.stderr);
    assert_eq!(store.unstuck(&["show", "a:0", "-o", "json"]).json()["id"], *third);
}
