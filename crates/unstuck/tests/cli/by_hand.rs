//! What operators do about a step other than to let it be tried as it was: know it, do it, leave it out, change it.

use serde_json::{Value, json};

use crate::support::{REFUSED, Ran, Store};

/// Two steps rest in error, one is held; `last` needs them all.
const RESTS: &str = "flow: rests
input: {type: object, properties: {file: {type: string}}}
steps:
  - {id: fetch, run: 'test -e \"$INPUT_FILE\" || { echo no such file >&2; exit 1; }; echo \"[\\\"$INPUT_FILE\\\"]\"', with: {file: '${input.file}'}, timeout: 1m}
  - {id: load, needs: [], emulate: {sequence: [stall], cause: no room}, timeout: 1m}
  - {id: hold, needs: [], emulate: stall, retryStrategy: hold, timeout: 1m}
  - {id: last, needs: [fetch, load, hold], set: ['${steps.fetch.output}', '${steps.load.output}', '${steps.hold.output}']}
output: ${steps.last.output}
";

fn rests() -> (Store, String) {
    let store = Store::new();
    let ran = store.run_flow(RESTS, &["--input", r#"{"file": "/nowhere"}"#]);
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    let id = store.latest();
    (store, id)
}

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

/// A text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn document(store: &Store) -> Value {
    store.unstuck(&["show", "@latest", "-o", "json"]).json()
}

#[test]
fn an_input_that_an_operator_has_changed_is_no_damage() {
    let store = Store::new();
    let flow = "flow: a\nsteps:\n  - {id: one, emulate: {sequence: [stall], cause: no room}}\n";
    store.run_flow(flow, &["--key", "k", "--input", "{\"n\": 1}"]);
    assert_eq!(store.unstuck(&["resume", "k", "--input", "{\"n\": 2}"]).code, 0);
    let checked = store.unstuck(&["store", "check"]);
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{}", checked.stdout);
}

#[test]
fn a_step_is_done_by_hand_another_is_left_out_and_the_run_goes_on() {
    let (store, id) = rests();
    let done = ok(store.unstuck(&[
        "complete",
        &id,
        "hold",
        "--output",
        r#"{"receipt": 4711}"#,
        "--reason",
        "by phone",
    ]));
    assert!(done.starts_with("Marked `hold` as completed by hand.\n"), "{done}");
    let again = ok(store.unstuck(&["complete", &id, "hold", "--output", "1"]));
    assert!(again.starts_with("`hold` was already completed by hand, with the same output.\n"), "{again}");
    let skipped = ok(store.unstuck(&["skip", &id, "load", "--reason", "nobody reads it"]));
    assert!(skipped.starts_with("Skipped `load`.\n"), "{skipped}");
    let again = ok(store.unstuck(&["skip", &id, "load"]));
    assert!(again.starts_with("`load` was already skipped.\n"), "{again}");
    let last = ok(store.unstuck(&["complete", &id, "fetch", "--output", "[]", "-o", "json"]));
    let last: Value = serde_json::from_str(&last).expect("it is JSON");
    assert_eq!(
        (&last["already"], &last["state"]),
        (&json!(false), &json!("completed")),
        "nobody has to go on"
    );
    let document = document(&store);
    assert_eq!(document["output"], json!([[], null, {"receipt": 4711}]));
    let history = ok(store.unstuck(&["history", &id]));
    for line in [
        "ada         hold: completed by hand by ada (by phone)",
        "ada         load: skipped by ada (nobody reads it)",
    ] {
        assert!(history.contains(line), "{line} in\n{history}");
    }
}

only_on_a_store! {
    "a server executes what is resumed at once";
#[test]
fn an_acknowledged_step_stays_and_is_told_as_known_until_it_is_resumed() {
    let (store, id) = rests();
    let one = ok(store.unstuck(&["ack", &id, "load", "--reason", "ordered a disk"]));
    assert!(one.starts_with("Acknowledged `load`.\n"), "{one}");
    let all = ok(store.unstuck(&["ack", &id, "--reason", "all known"]));
    assert!(all.starts_with("Acknowledged every step in error.\n"), "{all}");
    let again = ok(store.unstuck(&["ack", &id, "--reason", "all known"]));
    assert!(again.starts_with("Every step in error was already acknowledged.\n"), "{again}");
    let explained = ok(store.unstuck(&["explain", &id]));
    assert!(words(&explained).contains("acknowledged by ada (ordered a disk)"), "{explained}");
    assert!(!explained.contains("unstuck ack"), "it is not offered again: {explained}");
    let resumed = ok(store.unstuck(&["resume", &id, "load"]));
    assert!(resumed.contains("unstuck run --continue"), "{resumed}");
    assert!(!words(&ok(store.unstuck(&["explain", &id]))).contains("is acknowledged"), "it counts again");
}
}

#[test]
fn a_resume_may_change_what_failed() {
    let (store, id) = rests();
    let here = store.write("here.txt", "1");
    let there = store.write("there.txt", "2");
    let refused = store.unstuck(&["resume", &id, "fetch", "--input", r#"{"file": 7}"#]);
    assert!(
        refused.code == REFUSED && refused.stderr.contains("the input does not match the flow"),
        "{}",
        refused.stderr
    );

    let input = json!({ "file": here }).to_string();
    ok(store.unstuck(&["resume", &id, "fetch", "--input", &input, "--reason", "the right file"]));
    assert_eq!(store.unstuck(&["run", "--continue", &id]).code, 3);
    assert_eq!(document(&store)["input"], json!({ "file": here }));
    assert_eq!(document(&store)["steps"][0]["output"], json!([here]));

    let (store, id) = (rests().0, String::from("@latest"));
    let input = json!({ "file": there }).to_string();
    ok(store.unstuck_reading(&["resume", &id, "fetch", "--step-input", "-"], &input));
    assert_eq!(store.unstuck(&["run", "--continue", &id]).code, 3);
    assert_eq!(document(&store)["input"], json!({"file": "/nowhere"}), "the run's own stays");
    assert_eq!(document(&store)["steps"][0]["output"], json!([there]));
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    let (store, id) = rests();
    let history = || store.unstuck(&["history", &id, "-o", "json"]).json();
    let before = history();
    let cases: [(&[&str], &str); 10] = [
        (&["ack", &id, "hold", "--reason", "x"], "step `hold` is held, not in error; only a step in error"),
        (&["ack", &id, "nope", "--reason", "x"], "flow `rests` has no step `nope`"),
        (
            &["complete", &id, "last", "--output", "1"],
            "step `last` is pending, not in error, held, waiting or queued; the run has not reached it yet",
        ),
        (&["complete", &id, "fetch", "--output", "{"], "--output is not JSON: line 1, column 1"),
        (&["complete", &id, "fetch", "--output", "@nowhere.json"], "there is no file nowhere.json"),
        (&["skip", &id, "last"], "step `last` is pending, not in error, held, waiting or queued"),
        (&["resume", &id, "--step-input", "1"], "name the step"),
        (&["resume", &id, "fetch", "--step-input", "{"], "--step-input is not JSON: line 1, column 1"),
        (
            &["resume", &id, "--input", "-", "--step-input", "-"],
            "only one of --input and --step-input can be read from stdin",
        ),
        (
            &["resume", &id, "fetch", "--input", "x"],
            "--input is not JSON: line 1, column 1: expected value; give JSON",
        ),
    ];
    for (command, wanted) in cases {
        let ran = store.unstuck(command);
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{command:?}");
        assert!(
            ran.stderr.starts_with("error: ") && ran.stderr.contains(wanted),
            "{command:?}: {}",
            ran.stderr
        );
    }
    assert_eq!(history(), before, "nothing was changed");
    let usage = store.unstuck(&["ack", &id]);
    assert!(usage.code == 2 && usage.stderr.contains("--reason <TEXT>"), "{}", usage.stderr);
}
