//! How runs are named: by id, by the beginning of one, or as the latest.

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
    let start = format!("error: `{}` is the beginning of several ids; give more of it:\n", &first[..common]);
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
    let cases = [
        ("@latest", "there is no run in this store yet; `unstuck run FILE` starts one".to_owned()),
        (&id, format!("there is no run `{id}` in this store; `unstuck runs` lists them")),
        ("zzz", "`zzz` does not name a run: give its id, the beginning of its id, or @latest".to_owned()),
        ("7", "there is no run `7` in this store; `unstuck runs` lists them".to_owned()),
        ("@last", "`@last` does not name a run: give its id, the beginning of its id, or @latest".to_owned()),
        ("", "`` does not name a run: give its id, the beginning of its id, or @latest".to_owned()),
        ("r-1", "`r-1` does not name a run: give its id, the beginning of its id, or @latest".to_owned()),
    ];
    for (name, wanted) in cases {
        for command in ["show", "explain", "history", "cancel"] {
            let ran = store.unstuck(&[command, name]);
            assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{command} {name}");
            assert_eq!(ran.stderr, format!("error: {wanted}\n"), "{command} {name}");
        }
        let ran = store.unstuck(&["show", name, "-o", "json"]);
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("it is JSON");
        assert_eq!(error["error"], wanted);
    }
}
