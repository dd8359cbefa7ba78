//! Bulk actions as operators use them, from the first word to the last.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{REFUSED, Ran, Store};

/// A step that passes once there is a file `room` beside it.
const UPLOAD: &str = "flow: upload\nsteps:\n  - id: upload\n    run: >-\n      \
    test -e room || { echo 'the archive is full' >&2; exit 1; }\n";
const WAIT: &str = "flow: wait\nsteps:\n  - {id: go, signal: go}\n";

/// A store with so many runs whose upload has failed, and their ids, oldest first.
fn with_failed(count: usize) -> (Store, Vec<String>) {
    let store = Store::new();
    let mut runs = Vec::new();
    for _ in 0..count {
        assert_eq!(store.run_flow(UPLOAD, &[]).code, 1);
        runs.push(store.latest());
    }
    (store, runs)
}

fn done(ran: &Ran) -> &str {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    &ran.stdout
}

/// The latest bulk action: its state, and what became of each target.
fn latest(store: &Store) -> (String, Vec<Value>) {
    let document = store.unstuck(&["bulk", "show", "@latest", "-o", "json"]).json();
    let targets = document["targets"].as_array().expect("a list").iter();
    let state = document["state"].as_str().expect("a word").to_owned();
    (state, targets.map(|target| target["result"].clone()).collect())
}

fn go_on_with(store: &Store, run: &str) -> i32 {
    store.unstuck(&["run", "--continue", run]).code
}

only_on_a_store! {
    "a server executes what is resumed: the wave has results at once";
#[test]
fn a_bulk_resume_whose_canary_fails() {
    let (store, runs) = with_failed(4);
    let plan = store.unstuck(&["resume", "--flow", "upload", "--dry-run"]);
    assert!(done(&plan).ends_with("Dry run: 4 targets selected. Nothing was changed.\n"));
    assert_eq!(store.unstuck(&["bulk", "list"]).stdout, "No bulk actions.\n");

    let begun = store.unstuck(&["resume", "--flow", "upload", "--canary", "1", "--reason", "it has room"]);
    assert!(done(&begun).contains("started with 4 targets"), "{}", begun.stdout);
    assert!(begun.stdout.contains("waiting for the results of its wave"), "{}", begun.stdout);
    assert!(begun.stdout.contains(&format!("  unstuck run --continue {}\n", runs[0])), "{}", begun.stdout);
    assert_eq!(latest(&store), ("running".into(), results(["resumed", "pending", "pending", "pending"])));

    // Resumed is not passed: whoever goes on with the run finds that it fails again.
    assert_eq!(go_on_with(&store, &runs[0]), 1);
    assert_eq!(latest(&store), ("stopped".into(), results(["failedAgain", "pending", "pending", "pending"])));
    let shown = store.unstuck(&["bulk", "show", "@latest"]);
    for line in [
        "1  failed again\n            the archive is full (run_",
        "3  pending\n",
        "Stopped: 1 step of wave 1 failed again; the remaining 3 were not changed.",
        "  unstuck bulk unpause bulk_",
    ] {
        assert!(done(&shown).contains(line), "{line} in\n{}", shown.stdout);
    }

    // Somebody has made room, and lets it go on.
    store.write("room", "");
    done(&store.unstuck(&["bulk", "unpause", "@latest"]));
    done(&store.unstuck(&["bulk", "watch", "@latest"]));
    assert_eq!(latest(&store).1, results(["failedAgain", "resumed", "resumed", "pending"]));
    for run in &runs[1..3] {
        assert_eq!(go_on_with(&store, run), 0);
    }
    done(&store.unstuck(&["bulk", "watch", "@latest"]));
    assert_eq!(go_on_with(&store, &runs[3]), 0);
    assert_eq!(latest(&store), ("done".into(), results(["failedAgain", "passed", "passed", "passed"])));
    done(&store.unstuck(&["store", "check"]));
}
}

only_on_a_store! {
    "another process than a server has the store open";
#[test]
fn whoever_has_the_store_goes_on_with_it() {
    let (store, runs) = with_failed(3);
    // It goes away with the test.
    let _owner = UnderWay::start(&store, WAIT, &[]);
    wait_until(|| std::fs::exists(format!("{}/socket", store.path())).is_ok_and(|there| there));
    let begun = store.unstuck(&[&["ack", "--reason", "known"], &ids(&runs)[..]].concat());
    assert!(done(&begun).contains("The process that has the store open continues it."), "{}", begun.stdout);
    assert!(begun.stdout.contains("To watch it: unstuck bulk watch bulk_"), "{}", begun.stdout);
    let watched = store.unstuck(&["bulk", "watch", "@latest"]);
    assert!(done(&watched).contains("3  acknowledged"), "{}", watched.stdout);
    assert_eq!(latest(&store), ("done".into(), results(["acknowledged"; 3])));
    // Those are left out of what errors have in common, and named ones are not.
    let nothing = store.unstuck(&["resume", "--flow", "upload"]);
    assert_eq!(done(&nothing), "Nothing to do: nothing matches flow upload.\n");
    done(&store.unstuck(&[&["resume", "--canary", "1"], &ids(&runs)[..]].concat()));
    wait_until(|| latest(&store).1 == results(["resumed", "pending", "pending"]));
    done(&store.unstuck(&["bulk", "pause", "@latest"]));
    assert_eq!(latest(&store).0, "paused");
    let again = store.unstuck(&["bulk", "pause", "@latest"]);
    assert!(done(&again).starts_with("The bulk action was already paused.\n"), "{}", again.stdout);
    done(&store.unstuck(&["bulk", "cancel", "@latest"]));
    assert_eq!(latest(&store), ("cancelled".into(), results(["resumed", "pending", "pending"])));
    let refused = store.unstuck(&["bulk", "unpause", "@latest"]);
    assert_eq!(refused.stderr, "error: the bulk action is cancelled, so it cannot continue\n");
}
}

#[test]
fn runs_are_cancelled_by_what_they_have_in_common() {
    let (store, runs) = with_failed(3);
    let cancelled = store.unstuck(&["cancel", "--state", "error", "--rate", "1000", "--yes", "-o", "json"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    let document = cancelled.json();
    assert_eq!(document["results"], json!([{ "result": "cancelled", "count": 3 }]), "{document:#}");
    let again = store.unstuck(&[&["cancel"], &ids(&runs)[..]].concat());
    assert!(
        done(&again).contains("3  refused\n            it was already cancelled (3, such as run_"),
        "{}",
        again.stdout
    );
    let listed = store.unstuck(&["bulk", "list"]);
    assert_eq!(done(&listed).lines().count(), 3, "{}", listed.stdout);
    assert_eq!(store.unstuck(&["bulk", "list", "--open"]).stdout, "No bulk actions in progress.\n");
}

only_on_a_store! {
    "a server executes what a policy has scheduled";
#[test]
fn errors_are_selected_by_what_they_have_in_common() {
    let (store, runs) = with_failed(3);
    let group = store.unstuck(&["errors", "-o", "json"]).json()["groups"][0]["group"]
        .as_str()
        .expect("a name")
        .to_owned();
    let policy = store.write("policy.yaml", "{name: later, flow: upload, maxAttempts: 9, backOff: 1d}");
    done(&store.unstuck(&["policy", "load", &policy]));
    done(&store.unstuck(&["ack", &runs[2], "--reason", "known"]));
    done(&store.unstuck(&["policy", "apply"]));
    done(&store.unstuck(&["resume", &runs[1]]));
    let digits = group.trim_start_matches("err_");
    let cases: [(&[&str], u64); 10] = [
        (&["--state", "error"], 1),
        (&["--group", &group, "--state", "held"], 0),
        (&["--group", &group], 1),
        (&["--group", digits], 1),
        (&["--policy", "later"], 1),
        (&["--group", &group, "--flow", "upload", "--policy", "later"], 1),
        (&["--flow", "other"], 0),
        (&["--group", &group, "--flow", "other"], 0),
        (&[&runs[0], &runs[2]], 2),
        (&[&runs[0], &runs[0], &runs[1]], 2),
    ];
    for (selected, total) in cases {
        let plan = store.unstuck(&[&["resume", "--dry-run", "-o", "json"], selected].concat());
        assert_eq!(plan.json()["total"], json!(total), "{selected:?}: {}", plan.stdout);
    }
}
}

only_on_a_store! {
    "the server goes on with it, whoever watches";
#[test]
fn it_goes_on_with_somebody_else_after_ctrl_c() {
    let (store, runs) = with_failed(20);
    let begun =
        UnderWay::command(&store, &[&["ack", "--rate", "1", "--reason", "known"], &ids(&runs)[..]].concat());
    begun.until("started with 20 targets");
    begun.send(Signal::INT);
    let ran = begun.wait();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(ran.stdout.contains("It continues as soon as a process opens the store"), "{}", ran.stdout);
    let (state, found) = latest(&store);
    assert_eq!((state.as_str(), found.last()), ("running", Some(&json!("pending"))));
    // It is killed in the middle, which is no matter.
    let watching = UnderWay::command(&store, &["bulk", "watch", "@latest"]);
    let acted = |found: &[Value]| found.iter().filter(|result| **result == json!("acknowledged")).count();
    wait_until(|| acted(&latest(&store).1) > acted(&found));
    watching.send(Signal::KILL);
    watching.wait();
    done(&store.unstuck(&["store", "check"]));
    done(&store.unstuck(&["bulk", "cancel", "@latest"]));
    let (_, found) = latest(&store);
    let errors = store.unstuck(&["errors", "-o", "json"]).json();
    assert_eq!(errors["groups"][0]["acknowledged"], json!(acted(&found)), "what is counted is what was done");
}
}

#[test]
fn runs_are_cancelled_by_their_error_group_up_to_a_maximum() {
    let (store, runs) = with_failed(3);
    let parent = "flow: parent\nsteps:\n  - {id: part, flow: upload}\n---\n".to_owned() + UPLOAD;
    assert_eq!(store.run_flow(&parent, &[]).code, 1);
    assert_eq!(store.run_flow("flow: other\nsteps:\n  - {id: a, emulate: stall}\n", &[]).code, 1);
    let groups = store.unstuck(&["errors", "--action", "upload.upload", "-o", "json"]).json();
    let group = groups["groups"][0]["group"].as_str().expect("a name");
    let one = store.unstuck(&["cancel", "--group", group, "--max", "1", "--yes"]);
    assert!(done(&one).contains("started with 1 target"), "{}", one.stdout);
    assert!(one.stdout.contains(&format!("cancel of group {group}, at most 1")), "{}", one.stdout);
    let cancelled = || {
        let list = store.unstuck(&["runs", "--state", "cancelled", "-o", "json"]).json();
        let runs = list["runs"].as_array().expect("a list").iter();
        runs.map(|run| (run["flow"].clone(), run["id"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(cancelled(), [(json!("upload"), json!(runs[0]))], "the oldest");
    done(&store.unstuck(&["cancel", "--group", group, "--yes"]));
    let flows: Vec<Value> = cancelled().into_iter().map(|(flow, _)| flow).collect();
    assert_eq!(
        flows,
        ["parent", "upload", "upload", "upload"],
        "the run that somebody started, and no other"
    );
}

#[test]
fn acknowledged_errors_and_those_that_a_policy_resumes_are_selected_as_asked() {
    let (store, runs) = with_failed(2);
    let policy = store.write("policy.yaml", "name: later\nflow: other\nmaxAttempts: 5\nbackOff: 1h\n");
    assert_eq!(store.run_flow("flow: other\nsteps:\n  - {id: a, emulate: stall}\n", &[]).code, 1);
    done(&store.unstuck(&["policy", "load", &policy]));
    done(&store.unstuck(&["policy", "apply"]));
    done(&store.unstuck(&["ack", &runs[0], "--reason", "known"]));
    let selected = |options: &[&str]| {
        let ran = store.unstuck(&[&["resume", "--dry-run", "-o", "json"], options].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.json()["total"].clone()
    };
    assert_eq!(selected(&["--state", "error"]), 2);
    assert_eq!(selected(&["--state", "error", "--include-acknowledged"]), 3);
    assert_eq!(selected(&["--needs-person"]), 1);
    assert_eq!(selected(&["--state", "error", "--max", "1"]), 1);
}

#[test]
fn what_cannot_be_done_is_refused_in_a_sentence() {
    let (store, runs) = with_failed(1);
    let run = runs[0].as_str();
    let cases: [(&[&str], &str); 7] = [
        (&["resume", "--group", "nope"], "there is no group of errors `nope`"),
        (&["resume", "--policy", "nope"], "there is no policy `nope`; `unstuck policy list` lists them"),
        (&["resume", run, "upload", "--dry-run"], "A bulk action takes runs: name each by its id"),
        (&["ack", run, "run_7zzzzzzzzzzzz", "--reason", "x"], "there is no run `run_7zzzzzzzzzzzz`"),
        (&["bulk", "show", "bulk_0"], "there is no bulk action `bulk_0`; `unstuck bulk list` lists them"),
        (&["bulk", "pause", "@latest"], "there is no bulk action `@latest`"),
        (&["cancel", "--flow", "upload", "--state", "completed"], ""),
    ];
    for (arguments, said) in cases {
        let ran = store.unstuck(arguments);
        assert_eq!(
            ran.code,
            if said.is_empty() { 0 } else { REFUSED },
            "{arguments:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
    }
    // What clap refuses has another exit code.
    for arguments in [
        &["resume"][..],
        &["cancel"],
        &["resume", run, "--flow", "upload"],
        &["resume", "--flow", "upload", "--rate", "0"],
        &["resume", "--flow", "upload", "--canary", "0"],
    ] {
        assert_eq!(store.unstuck(arguments).code, 2, "{arguments:?}");
    }
    assert_eq!(store.unstuck(&["bulk", "list"]).stdout, "No bulk actions.\n", "nothing was begun");
}

fn results<const N: usize>(words: [&str; N]) -> Vec<Value> {
    words.iter().map(|word| json!(word)).collect()
}

fn ids(runs: &[String]) -> Vec<&str> {
    runs.iter().map(String::as_str).collect()
}
