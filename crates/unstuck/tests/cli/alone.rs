//! Commands on runs that nobody executes now: they open the store themselves, and say how to go on.

use serde_json::{Value, json};

use crate::support::{REFUSED, Ran, Store};

/// Held, in error, and waiting for a signal, one beside the other.
const THREE: &str = "flow: three
steps:
  - {id: hold, emulate: {sequence: [stall, pass], cause: no answer}, retryStrategy: hold, timeout: 5s}
  - {id: rest, needs: [], emulate: {sequence: [stall, pass], cause: no room}, timeout: 5s}
  - {id: each, needs: [], forEach: [a, b], emulate: {sequence: [stall, pass]}, retryStrategy: hold, timeout: 5s}
";

fn ok(ran: Ran) -> Ran {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran
}

fn state_of(store: &Store, step: &str) -> Value {
    let document = ok(store.unstuck(&["show", "@latest", "-o", "json"])).json();
    let steps = document["steps"].as_array().expect("there are steps").clone();
    steps.into_iter().find(|found| found["id"] == step).expect("it is there")["state"].clone()
}

#[test]
fn each_thing_that_explain_offers_can_be_done_and_the_run_goes_on() {
    let store = Store::new();
    let ran = store.run_flow(THREE, &[]);
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    let id = store.latest();
    let go_on = format!("To continue the run:\n  unstuck run --continue {id}\n");
    let cases: [(&[&str], &str); 3] = [
        (&["choose", &id, "hold", "retry"], "hold"),
        (&["resume", &id, "rest", "--reason", "there is room"], "rest"),
        (&["choose", &id, "each[1]", "retry"], "each[1]"),
    ];
    for (command, step) in cases {
        let explained = ok(store.unstuck(&["explain", &id])).stdout;
        let typed =
            format!("unstuck {} {id} {}", command[0], if step == "each[1]" { "'each[1]'" } else { step });
        assert!(explained.contains(&typed), "{typed} in\n{explained}");
        let done = ok(store.unstuck(command)).stdout;
        assert!(done.starts_with(&format!("Retrying `{step}`")) && done.ends_with(&go_on), "{done}");
        assert_eq!(state_of(&store, step), "ready");
    }
    ok(store.unstuck(&["choose", &id, "each[0]", "retry"]));
    let gone_on = store.unstuck(&["run", "--continue", &id, "-o", "json"]);
    assert_eq!((gone_on.code, &gone_on.json()["state"]), (0, &json!("completed")), "{}", gone_on.stderr);

    let rerun = ok(store.unstuck(&["rerun", &id, "--steps", "rest"])).stdout;
    assert!(rerun.starts_with("Started the next generation.\n") && rerun.ends_with(&go_on), "{rerun}");
    let again = store.unstuck(&["run", "--continue", &id, "-o", "json"]);
    let document = again.json();
    assert_eq!((again.code, &document["generation"], &document["state"]), (1, &json!(2), &json!("error")));
    assert_eq!(document["steps"][0]["state"], "completed", "it is not run again: {document:#}");
    ok(store.unstuck(&["cancel", &id]));
    let forgotten = ok(store.unstuck(&["forget", &id, "--yes"])).stdout;
    assert_eq!(forgotten, format!("Deleted {id}.\n"));
    let gone = store.unstuck(&["show", &id]);
    let wanted = format!(
        "error: there is no run `{id}`: no id starts with it, and no key equals it. `unstuck runs` lists all runs\n"
    );
    assert_eq!((gone.code, gone.stderr), (REFUSED, wanted));
}

#[test]
fn what_needs_no_executor_happens_at_once() {
    let store = Store::new();
    let flow = "flow: a\nsteps:\n  - {id: hold, emulate: stall, retryStrategy: hold, timeout: 5s, failOnError: false}\n";
    assert_eq!(store.run_flow(flow, &[]).code, 3);
    let paused = ok(store.unstuck(&["pause", "@latest"])).stdout;
    assert!(paused.starts_with("Paused the run.\n") && !paused.contains("--continue"), "{paused}");
    let explained = ok(store.unstuck(&["explain", "@latest"])).stdout;
    assert!(explained.contains("unstuck unpause "), "{explained}");
    ok(store.unstuck(&["unpause", "@latest"]));
    let given_up = ok(store.unstuck(&["choose", "@latest", "hold", "none"])).stdout;
    assert!(
        given_up.starts_with("Stopped retrying `hold`.\n") && given_up.contains("completed"),
        "{given_up}"
    );
}

#[test]
fn children_are_cancelled_with_their_parent() {
    let store = Store::new();
    let flow = "flow: a\nsteps:\n  - {id: ask, flow: b}\n---\nflow: b\nsteps:\n  - {id: hold, emulate: stall, retryStrategy: hold, timeout: 5s}\n";
    assert_eq!(store.run_flow(flow, &[]).code, 3);
    ok(store.unstuck(&["cancel", "@latest", "--reason", "enough"]));
    let runs = ok(store.unstuck(&["runs", "--all", "-o", "json"])).json();
    let states: Vec<&Value> =
        runs["runs"].as_array().expect("a list").iter().map(|run| &run["state"]).collect();
    assert_eq!(states, [&json!("cancelled"), &json!("cancelled")]);
    let forgotten = ok(store.unstuck(&["forget", "@latest", "--yes"])).stdout;
    assert!(
        forgotten.starts_with("Deleted run_") && forgotten.ends_with(", with 1 run below it.\n"),
        "{forgotten}"
    );
    assert_eq!(ok(store.unstuck(&["runs", "--all"])).stdout, "No runs yet.\n");
}

#[test]
fn commands_that_are_offered_find_the_store_that_was_named() {
    let (store, elsewhere) = (Store::new(), Store::new());
    let path = store.write("flow.yaml", THREE);
    let ran = store.unstuck(&["run", &path, "--store", &elsewhere.path()]);
    let option = format!(" --store {}", elsewhere.path());
    let id = elsewhere.latest();
    assert!(ran.stdout.contains(&format!("\n  unstuck choose {id} hold retry{option}\n")), "{}", ran.stdout);
    let explained = store.unstuck(&["explain", &id, "--store", &elsewhere.path(), "-o", "json"]).json();
    let commands = explained["can"].as_array().expect("a list");
    for command in commands {
        assert!(command["command"].as_str().is_some_and(|command| command.ends_with(&option)), "{command}");
    }
    let chosen = store.unstuck(&["choose", &id, "hold", "retry", "--store", &elsewhere.path()]);
    assert!(chosen.stdout.ends_with(&format!("unstuck run --continue {id}{option}\n")), "{}", chosen.stdout);
}

#[test]
fn every_answer_can_be_json() {
    let store = Store::new();
    assert_eq!(store.run_flow(THREE, &["--key", "k", "--input", "{\n \"a\": [1,\n2]}"]).code, 3);
    // Each with some fields that it must have.
    let cases: [(&[&str], &[&str]); 16] = [
        (&["runs"], &["/runs/0/id", "/runs/0/key", "/runs/0/cause", "/next"]),
        (&["show", "@latest"], &["/id", "/steps/0/attempts/0/error", "/input/a/1", "/decisions/0/rung"]),
        (&["explain", "@latest"], &["/headline", "/because/0/why", "/can/0/command"]),
        (&["history", "@latest"], &["/run", "/events/0/what/0", "/events/0/user", "/next"]),
        (
            &["store", "info"],
            &["/store", "/owner", "/schema", "/files/0/bytes", "/runs/held", "/flows/0/versions/0"],
        ),
        (&["store", "check"], &["/runs", "/findings"]),
        (&["pause", "@latest"], &["/run", "/already", "/state", "/headline", "/goOn"]),
        (&["unpause", "@latest"], &["/run", "/goOn"]),
        (&["resume", "@latest"], &["/run", "/goOn"]),
        (&["choose", "@latest", "hold", "retry"], &["/run", "/goOn"]),
        (&["signal", "@latest", "go", "1"], &["/run", "/goOn"]),
        (&["cancel", "@latest"], &["/run", "/goOn"]),
        (&["rerun", "@latest", "--steps", "hold,rest"], &["/run", "/goOn"]),
        (&["cancel", "@latest"], &["/run"]),
        (&["rerun", "@latest", "--all"], &["/run"]),
        (&["cancel", "@latest"], &["/run"]),
    ];
    for (command, fields) in cases {
        let answer = ok(store.unstuck(&[command, &["-o", "json"]].concat())).json();
        for field in fields {
            assert!(answer.pointer(field).is_some(), "{field} of {command:?}: {answer:#}");
        }
    }
    let forgotten = ok(store.unstuck(&["forget", "@latest", "--yes", "-o", "json"])).json();
    assert_eq!(forgotten["forgotten"].as_array().map(Vec::len), Some(1));
}
