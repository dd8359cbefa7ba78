//! Bulk actions besides resume, ack and cancel: what each selects, asks, does and tells.

use serde_json::{Value, json};

use crate::support::{REFUSED, Ran, Store};

/// Fails for good until there is a file `room` beside it.
const WORK: &str = "flow: work\nlabels: {team: billing}\nsteps:\n  - id: work\n    run: >-\n      \
    test -e room || exit 3\n    retryStrategy: none\n    exceptionHandler: sorry\n---\n\
    flow: sorry\nsteps:\n  - {id: note, emulate: pass}\n";
/// Is held until there is a file `room` beside it; then one more step.
const HOLD: &str = "flow: hold\nsteps:\n  - id: move\n    run: >-\n      \
    test -e room || { echo 'no room' >&2; exit 1; }\n    retryStrategy: hold\n  - {id: tell, emulate: pass}\n";
/// In error until there is a file `room` beside it; then one more step.
const ERROR: &str = "flow: upload\nsteps:\n  - id: upload\n    run: >-\n      \
    test -e room || { echo 'the archive is full' >&2; exit 1; }\n  - {id: tell, emulate: pass}\n";
const PASS: &str = "flow: pass\nsteps:\n  - {id: one, emulate: pass}\n";

/// So many runs of a flow, by key: `k1`, `k2` and so on. Gives their ids.
fn keyed(store: &Store, flow: &str, count: usize) -> Vec<String> {
    let start = |number: usize| {
        store.run_flow(flow, &["--key", &format!("k{number}")]);
        store.latest()
    };
    (1..=count).map(start).collect()
}

fn done(ran: &Ran) -> &str {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    &ran.stdout
}

/// The latest bulk action: its state, and what became of each target.
fn latest(store: &Store) -> (String, Vec<String>) {
    let document = store.unstuck(&["bulk", "show", "@latest", "-o", "json"]).json();
    let targets = document["targets"].as_array().expect("a list").iter();
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    (word(&document["state"]), targets.map(|target| word(&target["result"])).collect())
}

fn states(store: &Store) -> Vec<String> {
    let runs = store.unstuck(&["runs", "-o", "json"]).json();
    let runs = runs["runs"].as_array().expect("a list").clone();
    runs.iter().rev().map(|run| run["state"].as_str().unwrap_or_default().to_owned()).collect()
}

fn plan(store: &Store, arguments: &[&str]) -> Value {
    let ran = store.unstuck(&[arguments, &["--dry-run", "-o", "json"]].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
    ran.json()
}

fn go_on_with(store: &Store, runs: &[String]) {
    for run in runs {
        store.unstuck(&["run", "--continue", run]);
    }
}

only_on_a_store! {
    "a server executes what is rerun: there are results at once";
#[test]
fn failed_runs_are_rerun_in_waves_and_each_has_passed_or_failed_again() {
    let store = Store::new();
    let runs = keyed(&store, WORK, 3);
    assert_eq!(states(&store), ["failed"; 3]);
    let begun = store.unstuck(&["rerun", "--flow", "work", "--canary", "1", "--yes"]);
    assert!(done(&begun).contains("  unstuck run --continue run_"), "{}", begun.stdout);
    assert_eq!(latest(&store), ("running".into(), vec!["rerun".into(), "pending".into(), "pending".into()]));
    go_on_with(&store, &runs[..1]);
    let shown = store.unstuck(&["bulk", "show", "@latest"]);
    assert!(done(&shown).contains("Stopped: 1 run of wave 1 failed again"), "{}", shown.stdout);
    store.write("room", "");
    done(&store.unstuck(&["bulk", "unpause", "@latest"]));
    done(&store.unstuck(&["bulk", "watch", "@latest"]));
    go_on_with(&store, &runs[1..]);
    let results = ["failedAgain", "passed", "passed"].map(str::to_owned).to_vec();
    assert_eq!(latest(&store), ("done".into(), results));
    let shown = store.unstuck(&["bulk", "show", "@latest"]);
    assert!(done(&shown).contains("2  completed\n"), "of a run, and not of a step: {}", shown.stdout);
    done(&store.unstuck(&["store", "check"]));
}
}

only_on_a_store! {
    "a server executes what is rerun: there are results at once";
#[test]
fn a_rerun_of_many_means_those_that_have_failed_unless_a_state_is_given() {
    let store = Store::new();
    keyed(&store, WORK, 2);
    store.write("room", "");
    store.run_flow(WORK, &["--key", "k3"]);
    let by_hand = store.run_flow(PASS, &[]);
    assert_eq!(by_hand.code, 0);
    for (arguments, total) in [
        (&["--flow", "work"][..], 2),
        (&["--label", "team=billing"], 2),
        (&["--label", "team=other"], 0),
        (&["--flow", "work", "--max", "1"], 1),
        (&["--state", "completed", "--all"], 2),
        (&["--flow", "work", "--state", "completed", "--steps", "work"], 1),
        (&["work:k1", "k3", "k2"], 3),
    ] {
        assert_eq!(plan(&store, &[&["rerun"], arguments].concat())["total"], json!(total), "{arguments:?}");
    }
    let refused = store.unstuck(&["rerun", "--state", "completed", "--yes"]);
    assert_eq!(refused.code, REFUSED);
    assert!(refused.stderr.contains("use --all or --steps"), "{}", refused.stderr);
    let named = store.unstuck(&["rerun", "k2", "k3"]);
    assert!(done(&named).contains("1  started again"), "{}", named.stdout);
    assert!(named.stdout.contains("1  refused") && named.stdout.contains("no point of failure"));
}
}

only_on_a_store! {
    "a server executes what is retried: there are results at once";
#[test]
fn held_steps_of_many_runs_are_tried_once_more_or_given_up() {
    let store = Store::new();
    let runs = keyed(&store, HOLD, 3);
    assert_eq!(plan(&store, &["choose", "--needs-person", "retry"])["total"], 3);
    assert_eq!(plan(&store, &["choose", "--flow", "hold", "--step", "tell", "retry"])["total"], 0);
    done(&store.unstuck(&["choose", "--run", "k1", "--run", "hold:k2", "--step", "move", "retry"]));
    assert_eq!(latest(&store), ("acted".into(), vec!["retried".into(), "retried".into()]));
    go_on_with(&store, &runs[..1]);
    store.write("room", "");
    go_on_with(&store, &runs[1..2]);
    assert_eq!(latest(&store), ("done".into(), vec!["failedAgain".into(), "passed".into()]));
    done(&store.unstuck(&["choose", "--state", "held", "none", "--yes"]));
    assert_eq!(latest(&store), ("done".into(), vec!["givenUp".into(), "givenUp".into()]));
    assert_eq!(states(&store), ["failed", "completed", "failed"]);
    let refused = store.unstuck(&["choose", "--state", "held", "none", "--canary", "1", "--yes"]);
    assert!(refused.stderr.contains("--canary has no use here"), "{}", refused.stderr);
}
}

#[test]
fn a_signal_goes_to_the_runs_that_wait_for_it_and_the_others_are_counted() {
    let store = Store::new();
    let waits = "flow: wait\nsteps:\n  - id: pause\n    run: test -e room\n    retryStrategy: hold\n  - {id: go, signal: go}\n";
    let runs = keyed(&store, waits, 3);
    store.write("room", "");
    for run in &runs[..2] {
        done(&store.unstuck(&["skip", run, "pause"]));
    }
    let ran = store.unstuck(&["signal", "--flow", "wait", "go", "-1", "--yes"]);
    assert!(done(&ran).contains("2  signalled"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("  targets  2; 1 run left out: not waiting for this signal"),
        "{}",
        ran.stdout
    );
    assert_eq!(latest(&store).1, ["signalled", "signalled"]);
    assert_eq!(states(&store), ["completed", "completed", "held"]);
    // Whoever is named is sent it, and keeps it.
    done(&store.unstuck(&["signal", "--run", "k3", "--run", "k1", "go"]));
    assert_eq!(latest(&store).1, ["signalled", "refused"]);
}

only_on_a_store! {
    "a server continues the run after its step is skipped";
#[test]
fn a_step_of_many_runs_is_skipped_or_completed() {
    let store = Store::new();
    let mut runs = keyed(&store, ERROR, 3);
    runs.extend(keyed(&store, HOLD, 1));
    let policy = store.write("policy.yaml", "{name: later, flow: hold, maxAttempts: 9, backOff: 1d}");
    done(&store.unstuck(&["policy", "load", &policy]));
    done(&store.unstuck(&["ack", &runs[2], "--reason", "known"]));
    let groups = store.unstuck(&["errors", "-o", "json"]).json();
    let of_upload =
        groups["groups"].as_array().expect("a list").iter().find(|group| group["action"] == "upload.upload");
    let group = of_upload.expect("there is one")["group"].as_str().expect("a name").to_owned();
    for (arguments, total, left_out) in [
        (&["--flow", "upload", "upload"][..], 2, 1),
        (&["--flow", "upload", "--include-acknowledged", "upload"], 3, 0),
        (&["--needs-person", "upload"], 2, 0),
        (&["--needs-person", "move"], 1, 0),
        (&["--group", &group, "upload"], 2, 0),
        (&["--group", &group, "tell"], 0, 0),
        (&["--policy", "later", "upload"], 0, 0),
        (&["--state", "held", "move"], 1, 0),
        (&["--flow", "upload", "tell"], 0, 3),
    ] {
        let plan = plan(&store, &[&["skip"], arguments].concat());
        assert_eq!((&plan["total"], &plan["leftOut"]), (&json!(total), &json!(left_out)), "{arguments:?}");
    }
    done(&store.unstuck(&["complete", "--run", "upload:k1", "upload", "--output", "7", "--reason", "sent"]));
    assert_eq!(latest(&store), ("done".into(), vec!["completed".into()]));
    let ran = store.unstuck(&["skip", "--flow", "upload", "upload", "--yes"]);
    assert!(done(&ran).contains("1  skipped"), "{}", ran.stdout);
    assert!(ran.stdout.contains("These runs are idle: no process is executing them."), "{}", ran.stdout);
    go_on_with(&store, &runs[..2]);
    assert_eq!(states(&store), ["completed", "completed", "error", "held"]);
    let shown = store.unstuck(&["show", &runs[0], "-o", "json"]);
    assert_eq!(shown.json()["steps"][0]["output"], 7, "{}", shown.stdout);
    assert!(shown.stdout.contains("ompleted by hand by ada (sent)"), "{}", shown.stdout);
}
}

#[test]
fn final_runs_are_forgotten_and_it_is_told_how_many_were_not_final() {
    let store = Store::new();
    let gone = keyed(&store, PASS, 3);
    let held = keyed(&store, HOLD, 1);
    let ran = store.unstuck(&["forget", "--flow", "hold", "--yes"]);
    assert_eq!(done(&ran), "Nothing to do: nothing matches flow hold.\n1 run left out: not final.\n");
    let ran = store.unstuck(&["forget", "--state", "completed", "--max", "2", "--yes", "-o", "json"]);
    assert_eq!(ran.json()["results"], json!([{ "result": "forgotten", "count": 2 }]), "{}", ran.stdout);
    let ran = store.unstuck(&["forget", &gone[2], &held[0], "pass:k1", "--yes"]);
    assert_eq!(
        (ran.code, ran.stderr.contains("there is no run `pass:k1`")),
        (REFUSED, true),
        "{}",
        ran.stderr
    );
    let ran = store.unstuck(&["forget", &gone[2], "hold:k1", "--yes"]);
    assert!(done(&ran).contains("1  forgotten"), "{}", ran.stdout);
    assert!(ran.stdout.contains("so it cannot be forgotten; cancel it first"), "{}", ran.stdout);
    // What is gone has its result all the same, and nothing else.
    let shown = store.unstuck(&["bulk", "show", "@latest", "--runs"]);
    assert!(done(&shown).contains(&format!("{}  -     forgotten", gone[2])), "{}", shown.stdout);
    assert_eq!(store.unstuck(&["show", &gone[2]]).code, REFUSED);
    assert_eq!(states(&store), ["held"]);
    done(&store.unstuck(&["store", "check"]));
}

#[test]
fn what_is_done_to_many_is_asked_about_first() {
    let store = Store::new();
    keyed(&store, HOLD, 2);
    keyed(&store, WORK, 2);
    let waits =
        "flow: wait\nsteps:\n  - id: a\n    run: exit 1\n    retryStrategy: hold\n  - {id: go, signal: go}\n";
    let run = &keyed(&store, waits, 1)[0];
    done(&store.unstuck(&["skip", run, "a"]));
    let before = states(&store);
    for (arguments, said) in [
        (&["rerun", "--flow", "work"][..], "2 runs (flow work) would be rerun"),
        (&["choose", "--flow", "hold", "retry"], "2 steps of 2 runs (flow hold) would be retried"),
        (
            &["choose", "--flow", "hold", "none"],
            "2 steps of 2 runs (flow hold) would be given no more attempts",
        ),
        (&["signal", "--flow", "wait", "go"], "1 run (flow wait) would be sent the signal"),
        (&["skip", "--flow", "hold", "move"], "2 steps of 2 runs (flow hold) would be skipped"),
        (
            &["complete", "--flow", "hold", "move", "--output", "1"],
            "2 runs (flow hold) would be marked as completed",
        ),
        (&["forget", "--flow", "work"], "2 runs (flow work) would be deleted"),
        (&["forget", "work:k1", "work:k2"], "2 runs (2 runs) would be deleted"),
    ] {
        let ran = store.unstuck(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{arguments:?}: {}", ran.stderr);
        let how = "Confirm with --yes, or list them with --dry-run";
        assert!(ran.stderr.contains(said) && ran.stderr.contains(how), "{arguments:?}: {}", ran.stderr);
        assert_eq!(states(&store), before, "{arguments:?}");
    }
    assert_eq!(store.unstuck(&["bulk", "list"]).stdout, "No bulk actions.\n");
}

#[test]
fn what_is_not_said_in_full_is_refused_with_how_to_say_it() {
    let store = Store::new();
    for arguments in [
        &["choose", "k1", "retry"][..],
        &["choose", "k1", "move", "maybe"],
        &["choose", "--flow", "f", "k1", "move", "retry"],
        &["signal", "go"],
        &["signal", "--flow", "f", "a", "1", "2"],
        &["skip", "move"],
        &["skip", "--flow", "f", "k1", "move"],
        &["complete", "move", "--output", "1"],
        &["rerun"],
        &["forget"],
        &["forget", "k1", "--flow", "f"],
    ] {
        let ran = store.unstuck(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&format!("Usage: unstuck {}", arguments[0])), "{}", ran.stderr);
    }
}

#[test]
fn cancel_of_what_needs_a_person_takes_held_runs_too() {
    let store = Store::new();
    keyed(&store, ERROR, 1);
    keyed(&store, HOLD, 1);
    let parent = "flow: parent\nsteps:\n  - {id: part, flow: hold}\n---\n".to_owned() + HOLD;
    store.run_flow(&parent, &[]);
    store.run_flow(PASS, &[]);
    done(&store.unstuck(&["cancel", "--needs-person", "--yes"]));
    assert_eq!(latest(&store), ("done".into(), vec!["cancelled".to_owned(); 3]));
    assert_eq!(states(&store), ["cancelled", "cancelled", "cancelled", "completed"]);
}

only_on_a_store! {
    "a server executes what is resumed: there are results at once";
#[test]
fn a_key_names_a_run_also_as_one_of_several() {
    let store = Store::new();
    keyed(&store, ERROR, 3);
    let total = |arguments: &[&str]| plan(&store, arguments)["total"].clone();
    assert_eq!(total(&["resume", "k1", "k2"]), 2);
    assert_eq!(total(&["resume", "upload:k1", "upload:k2", "k3"]), 3);
    assert_eq!(total(&["cancel", "k1", "upload:k2"]), 2);
    assert_eq!(total(&["ack", "k1", "@latest", "--reason", "x"]), 2);
    // A second name that is a step is a step, as it always was.
    let resumed = store.unstuck(&["resume", "k1", "upload"]);
    assert!(done(&resumed).starts_with("Retrying `upload` in a new round."), "{}", resumed.stdout);
    let ran = store.unstuck(&["resume", "k2", "nope"]);
    assert!(ran.code == REFUSED && ran.stderr.contains("has no step `nope`"), "{}", ran.stderr);
    // And one that is both is neither, until it is said which.
    store.run_flow(ERROR, &["--key", "upload"]);
    let ran = store.unstuck(&["resume", "k2", "upload"]);
    assert!(ran.code == REFUSED && ran.stderr.contains("`upload` is both a step of run_"), "{}", ran.stderr);
    done(&store.unstuck(&["resume", "k2", "upload:upload"]));
    assert_eq!(latest(&store).1, ["resumed", "resumed"]);
}
}

only_on_a_store! {
    "nothing has to be continued by hand on a server";
#[test]
fn the_list_of_runs_to_go_on_with_is_not_cut_in_silence() {
    let store = Store::new();
    let many = "flow: many\nsteps:\n  - id: each\n    forEach: {items: \"${input.list}\", parallel: 2000}\n    \
        emulate: {sequence: [stall], cause: no room}\n";
    let list: Vec<u32> = (0..1_001).collect();
    let input = json!({ "list": list }).to_string();
    assert_eq!(store.run_flow(many, &["--input", &input]).code, 1);
    let one = store.latest();
    // One run with more steps than are looked at, and more runs than are shown.
    let few = keyed(&store, ERROR, 4);
    let ran = store.unstuck(&["resume", "--state", "error", "--rate", "1000000"]);
    assert!(done(&ran).contains("1005  resumed"), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("  unstuck run --continue run_").count(), 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("Only the first resumed steps were checked; 5 more were not."));
    let document = store.unstuck(&["bulk", "show", "@latest", "-o", "json"]).json();
    assert_eq!((&document["notLookedAt"], document["goOn"].as_array().map(Vec::len)), (&json!(5), Some(1)));
    done(&store.unstuck(&["cancel", &one]));
    let shown = store.unstuck(&["bulk", "show", "@latest"]).stdout;
    assert!(!shown.contains("were checked"), "{shown}");
    assert!(
        shown
            .contains("and 1 more. To continue all of them, one after the other:\n  unstuck bulk show bulk_"),
        "{shown}"
    );
    let document = store.unstuck(&["bulk", "show", "@latest", "-o", "json"]).json();
    let commands: Vec<String> = few.iter().map(|run| format!("unstuck run --continue {run}")).collect();
    assert_eq!((&document["notLookedAt"], &document["goOn"]), (&json!(0), &json!(commands)), "all of them");
}
}

#[test]
fn a_final_run_of_a_key_is_started_again_with_the_input_that_is_given() {
    let store = Store::new();
    let flow = "flow: a\ninput: {type: object, required: [n], properties: {n: {type: number}}}\n\
        steps:\n  - {id: one, set: \"${input.n}\"}\noutput: ${steps.one.output}\n";
    let again = ["--key", "k", "--on-duplicate", "restartIfFinal", "-o", "json"];
    let start = |input: &[&str]| store.run_flow(flow, &[&again[..], input].concat());
    let output = |ran: &Ran| (ran.code, ran.json()["generation"].clone(), ran.json()["output"].clone());
    assert_eq!(output(&start(&["--input", "{\"n\": 1}"])), (0, json!(1), json!(1)));
    assert_eq!(output(&start(&["--input", "{\"n\": 2}"])), (0, json!(2), json!(2)));
    assert_eq!(output(&start(&[])), (0, json!(3), json!(2)), "without one, the one that it has");
    let refused = start(&["--input", "{\"n\": \"x\"}"]);
    assert_eq!(refused.code, REFUSED, "it is checked: {}", refused.stderr);
    let other = store.run_flow(flow, &["--key", "k", "--input", "{\"n\": 1}"]);
    assert!(
        other.stderr.contains("which has a different input"),
        "the key goes with the last one: {}",
        other.stderr
    );
    done(&store.unstuck(&["store", "check"]));
}
