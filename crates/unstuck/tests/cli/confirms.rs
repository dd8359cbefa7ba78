//! What is asked before something is done to many runs.

use crate::support::{REFUSED, Store};

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
        let said = "would be cancelled for good; say so with --yes, or see which with --dry-run";
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
