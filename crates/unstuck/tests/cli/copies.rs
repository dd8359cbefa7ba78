//! Copies of a store: beside its owner, whole, and never over anything.

use crate::support::under_way::UnderWay;
use crate::support::{REFUSED, Store};

const WAITS: &str = "flow: waits\nsteps:\n  - {id: one, set: 1}\n  - {id: go, signal: go}\n";

#[test]
fn a_copy_is_taken_beside_an_owner_and_is_a_store_like_any_other() {
    let store = Store::new();
    let run = UnderWay::start(&store, WAITS, &[]);
    while store.unstuck(&["explain", "@latest"]).code != 0 {
        std::thread::yield_now();
    }
    let copy = format!("{}copies/monday", store.folder());
    let ran = store.unstuck(&["store", "copy", &copy]);
    assert_eq!(
        (ran.code, ran.stdout),
        (0, format!("{copy} is a copy of {}\n", store.path())),
        "{}",
        ran.stderr
    );
    let id = store.latest();
    assert_eq!(store.unstuck(&["signal", &id, "go"]).code, 0);
    assert_eq!(run.wait().code, 0);
    let shown = store.unstuck(&["show", "@latest", "-o", "json", "--store", &copy]).json();
    assert_eq!((&shown["id"], &shown["state"]), (&id.into(), &"waiting".into()), "as it was then");
    assert_eq!(store.unstuck(&["store", "check", "--store", &copy]).code, 0);
    let again = store.unstuck(&["store", "copy", &copy]);
    let wanted = format!("the folder {copy} is not empty; give an empty or a new folder");
    assert!(again.code == REFUSED && again.stderr.contains(&wanted), "{}", again.stderr);
}

#[test]
fn without_a_store_there_is_nothing_to_copy() {
    let store = Store::new();
    let ran = store.unstuck(&["store", "copy", &format!("{}copy", store.folder())]);
    assert!(ran.code == REFUSED && ran.stderr.contains("there is no store at"), "{}", ran.stderr);
    assert!(!std::fs::exists(format!("{}copy", store.folder())).expect("it can be looked for"));
}
