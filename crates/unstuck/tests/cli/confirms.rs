//! What is asked before something is done to many runs.

use crate::support::{REFUSED, Store};
use crate::terminal::asked_on_terminal;

const STALLS: &str = "flow: upload\nsteps:\n  - {id: one, emulate: {sequence: [stall], cause: no room}}\n";

#[test]
fn cancelling_a_flow_needs_a_yes_where_nobody_can_be_asked() {
    let store = Store::new();
    for _ in 0..2 {
        store.run_flow(STALLS, &[]);
    }
    let states = || {
        let runs = store.unstuck(&["runs", "-o", "json"]).json();
        let runs = runs["runs"].as_array().expect("a list").clone();
        runs.iter().map(|run| run["state"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    for arguments in [&["cancel", "--flow", "upload"][..], &["cancel", "--state", "error"]] {
        let ran = store.unstuck(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{}", ran.stderr);
        let said = "would be cancelled. Confirm with --yes, or list them with --dry-run";
        assert!(ran.stderr.starts_with("error: 2 runs (") && ran.stderr.contains(said), "{}", ran.stderr);
        assert_eq!(states(), ["error", "error"]);
    }
    assert_eq!(
        store.unstuck(&["cancel", "--flow", "nobody", "-o", "json"]).code,
        0,
        "nothing is to be asked"
    );
    assert_eq!(store.unstuck(&["cancel", "--flow", "upload", "--dry-run"]).code, 0);
    let ran = store.unstuck(&["cancel", "--flow", "upload", "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(states(), ["cancelled", "cancelled"]);
}

#[test]
fn cancelling_a_flow_asks_on_a_terminal_and_does_what_is_answered() {
    let store = Store::new();
    for _ in 0..2 {
        store.run_flow(STALLS, &[]);
    }
    let cancelled = || {
        let runs = store.unstuck(&["runs", "--state", "cancelled", "-o", "json"]).json();
        runs["runs"].as_array().map_or(0, Vec::len)
    };
    let question = "2 runs (flow upload) will be cancelled. Continue? [y/N]";
    for no in ["n\n", "\n", "yep\n"] {
        let (code, shown) = asked_on_terminal(&store, &["cancel", "--flow", "upload"], no);
        assert_eq!((code, cancelled()), (REFUSED, 0), "{no:?}: {shown}");
        assert!(
            shown.contains(question) && shown.contains("error: nothing was cancelled"),
            "{no:?}: {shown}"
        );
    }
    let (code, shown) = asked_on_terminal(&store, &["cancel", "--flow", "upload"], "y\n");
    assert_eq!((code, cancelled()), (0, 2), "{shown}");
    assert!(shown.contains(question) && shown.contains("2  cancelled"), "{shown}");
}

#[test]
fn forgetting_many_asks_on_a_terminal_and_says_what_is_left_out() {
    let store = Store::new();
    store.run_flow("flow: upload\nversion: \"2\"\nsteps:\n  - {id: one, emulate: pass}\n", &[]);
    store.run_flow(STALLS, &[]);
    let (code, shown) = asked_on_terminal(&store, &["forget", "--flow", "upload"], "n\n");
    assert_eq!(code, REFUSED, "{shown}");
    let question =
        "1 run (flow upload) will be deleted, with their histories and keys. 1 run left out: not final.";
    assert!(shown.replace('\n', "").contains(question), "{shown}");
    assert_eq!(store.unstuck(&["runs", "-o", "json"]).json()["runs"].as_array().map(Vec::len), Some(2));
}
