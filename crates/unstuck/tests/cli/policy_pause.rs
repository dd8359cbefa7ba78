//! All automatic resumes are paused and unpaused, and whoever looks at a next resume sees it.

use serde_json::{Value, json};

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{REFUSED, Ran, Store};

const FLOW: &str = "flow: nightly\nsteps:\n  - {id: load, timeout: 1m, minimumDelay: 0, \
                    emulate: {sequence: [stall, pass], cause: connection reset}}\n";

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

fn json_of(store: &Store, arguments: &[&str]) -> Value {
    let ran = store.unstuck(&[arguments, &["-o", "json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.json()
}

/// A store with a policy for what this flow says, and paused automatic resumes.
fn paused() -> Store {
    let store = Store::new();
    let file = store.write("p.yaml", "{name: resets, errorSubstring: reset, maxAttempts: 5, backOff: 100ms}");
    ok(store.unstuck(&["policy", "load", &file]));
    let said = ok(store.unstuck(&["policy", "pause", "--reason", "the provider is down"]));
    assert!(said.starts_with("Automatic resumes are paused. Steps that come due wait in error.\n"), "{said}");
    store
}

/// Whether a document says why nothing resumes automatically.
fn assert_says(document: &Value) {
    let paused = &document["policiesPaused"];
    assert_eq!(paused["reason"], "the provider is down", "{document:#}");
    assert!(
        paused["by"].is_string() && paused["since"].as_str().is_some_and(|at| at.ends_with('Z')),
        "{paused}"
    );
}

#[test]
fn what_comes_due_waits_is_shown_as_due_and_resumes_after_the_unpause() {
    let store = paused();
    let run = UnderWay::start(&store, FLOW, &[]);
    run.until("policy `resets` resumes it in 100ms (round 1 of 5)");
    let id = store.latest();
    wait_until(|| {
        let explained = ok(store.unstuck(&["explain", &id])).replace('\n', " ");
        explained.contains("when automatic resumes are unpaused (due since ")
    });
    assert_says(&json_of(&store, &["runs"])["runs"][0]);
    assert_says(&json_of(&store, &["show", &id]));
    assert_says(&json_of(&store, &["explain", &id]));
    assert_says(&json_of(&store, &["errors"])["groups"][0]);
    assert_says(&json_of(&store, &["status"]));
    assert_says(&json_of(&store, &["policy", "list"])["policies"][0]);
    assert_says(&json_of(&store, &["policy", "show", "resets"]));
    assert_says(&json_of(&store, &["policy", "preview", "resets"])["trials"][0]);
    let group = json_of(&store, &["errors"])["groups"][0]["group"].as_str().expect("a name").to_owned();
    assert_says(&json_of(&store, &["errors", "show", &group]));
    assert!(json_of(&store, &["show", &id])["nextAutoResume"].is_string(), "it is scheduled all the same");
    for command in [
        vec!["runs"],
        vec!["show", &id],
        vec!["explain", &id],
        vec!["errors"],
        vec!["errors", "show", &group],
        vec!["status"],
        vec!["policy", "list"],
        vec!["policy", "show", "resets"],
        vec!["policy", "preview", "resets"],
        vec!["policy", "apply"],
    ] {
        let text = ok(store.unstuck(&command)).replace('\n', " ");
        assert!(text.contains("paused") && text.contains("the provider is down"), "{command:?}: {text}");
    }
    assert_eq!(json_of(&store, &["show", &id])["state"], "error", "nothing has resumed it meanwhile");
    let unpaused = json_of(&store, &["policy", "unpause", "--rate", "5"]);
    assert_eq!((&unpaused["already"], &unpaused["due"]), (&json!(false), &json!(1)), "{unpaused:#}");
    assert_eq!(unpaused["was"]["reason"], "the provider is down");
    assert_eq!(unpaused.get("policiesPaused"), None);
    let ran = run.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let decisions = json_of(&store, &["show", &id])["decisions"].to_string();
    assert!(decisions.contains(" late because automatic resumes were paused: round 2 starts"), "{decisions}");
    assert_eq!(json_of(&store, &["policy", "list"])["policies"][0].get("policiesPaused"), None);
}

only_on_a_store! {
    "a server executes what is resumed at once";
#[test]
fn it_survives_the_process_and_a_manual_resume_works_all_the_time() {
    let store = paused();
    let run = UnderWay::start(&store, FLOW, &[]);
    run.until("policy `resets` resumes it");
    run.send(rustix::process::Signal::KILL);
    run.wait();
    let id = store.latest();
    assert_says(&json_of(&store, &["show", &id]));
    let resumed = store.unstuck(&["resume", &id, "load"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let ran = store.unstuck(&["run", "--continue", &id]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("automatic resumes are paused by "), "{}", ran.stdout);
    assert_says(&json_of(&store, &["status"]));
}
}

#[test]
fn what_is_so_already_is_said_and_every_change_is_in_the_audit() {
    let store = paused();
    let again = ok(store.unstuck(&["policy", "pause", "--reason", "another one"]));
    assert!(again.starts_with("Automatic resumes are paused already by "), "{again}");
    assert!(again.ends_with(" UTC: the provider is down.\n"), "{again}");
    let again = json_of(&store, &["policy", "pause", "--reason", "another one"]);
    assert_eq!(again["already"], true);
    assert_says(&again);
    let said = ok(store.unstuck(&["policy", "unpause"]));
    assert!(said.starts_with("Automatic resumes are on again. "), "{said}");
    assert_eq!(ok(store.unstuck(&["policy", "unpause"])), "Automatic resumes are not paused.\n");
    let audit = json_of(&store, &["policy", "audit"]);
    let told: Vec<(&Value, &Value, Option<&str>)> = audit["changes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| (&change["what"], &change["policy"], change["reason"].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("unpaused"), &Value::Null, None),
            (&json!("paused"), &Value::Null, Some("the provider is down")),
            (&json!("added"), &json!("resets"), None),
        ]
    );
    let text = ok(store.unstuck(&["policy", "audit"]));
    assert!(text.lines().any(|line| line.ends_with("paused    (all)   the provider is down")), "{text}");
    let refused = store.unstuck(&["policy", "pause", "--reason", " "]);
    assert_eq!((refused.code, refused.stdout.as_str()), (REFUSED, ""));
    assert!(refused.stderr.contains("a pause needs a reason"), "{}", refused.stderr);
}

#[test]
fn a_rehearsal_by_the_policies_of_a_paused_store_says_that_there_they_resume() {
    let store = paused();
    let file = store.write("nightly.yaml", FLOW);
    let ran = store.unstuck(&["rehearse", &file, "--store", &store.path()]);
    assert!(ran.stderr.contains("note: automatic resumes are paused in this store by "), "{}", ran.stderr);
    assert!(ran.stdout.contains("resets"), "{}", ran.stdout);
}
