//! Commands from another terminal, on a run in progress.

use serde_json::json;

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{REFUSED, Ran, Store};

/// It waits for a signal, and then for a person.
const APPROVAL: &str = "flow: approval
steps:
  - {id: approved, signal: approve}
  - {id: note, set: '${steps.approved.output.by}'}
output: ${steps.note.output}
";

fn ok(ran: Ran) -> Ran {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran
}

#[test]
fn a_run_is_paused_and_goes_on_and_gets_its_signal() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waiting for signal `approve`");
    let paused = ok(store.unstuck(&["pause", "@latest", "--reason", "lunch"]));
    assert!(paused.stdout.starts_with("Paused the run.\nrun_"), "{}", paused.stdout);
    run.until("the run was paused by ada (lunch)");
    let again = ok(store.unstuck(&["pause", "@latest"]));
    assert!(again.stdout.starts_with("The run was already paused.\n"), "{}", again.stdout);

    let explained = ok(store.unstuck(&["explain", "@latest"])).stdout;
    for part in ["is paused", "unstuck unpause run_"] {
        assert!(explained.contains(part), "{part} in\n{explained}");
    }
    assert!(!explained.contains("--continue"), "somebody executes it:\n{explained}");
    assert_eq!(
        ok(store.unstuck(&["runs", "--state", "paused", "-o", "json"])).json()["runs"][0]["flow"],
        "approval"
    );

    let info = ok(store.unstuck(&["store", "info", "-o", "json"])).json();
    assert_eq!(info["runs"], json!({"paused": 1}));
    assert!(crate::ON_SERVER || info["owner"] == json!(run.id()), "{info}");
    assert_eq!(ok(store.unstuck(&["store", "check", "-o", "json"])).json()["findings"], json!([]));

    let unpaused = ok(store.unstuck(&["unpause", "@latest"]));
    assert!(unpaused.stdout.starts_with("Unpaused the run.\n"), "{}", unpaused.stdout);
    assert!(ok(store.unstuck(&["unpause", "@latest"])).stdout.starts_with("The run was not paused.\n"));
    let signalled = ok(store.unstuck(&["signal", "@latest", "approve", "{\"by\":\n \"grace\"}"]));
    assert!(signalled.stdout.starts_with("Sent signal `approve`.\n"), "{}", signalled.stdout);
    let ended = run.wait();
    assert!(ended.code == 0 && ended.stdout.ends_with("\n\"grace\"\n"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_held_step_gets_its_choice_while_another_branch_goes_on() {
    let flow = "flow: a
steps:
  - {id: hold, emulate: {sequence: [stall, pass]}, retryStrategy: hold, timeout: 5s}
  - {id: beside, needs: [], signal: go}
";
    let store = Store::new();
    let run = UnderWay::start(&store, flow, &[]);
    run.until("retryStrategy is hold");
    let chosen = ok(store.unstuck(&["choose", "@latest", "hold", "retry"]));
    assert!(chosen.stdout.starts_with("Retrying `hold`.\n"), "{}", chosen.stdout);
    assert!(!chosen.stdout.contains("--continue"), "{}", chosen.stdout);
    run.until("hold: attempt 2 completed");
    ok(store.unstuck(&["signal", "@latest", "go"]));
    assert_eq!(run.wait().code, 0);
}

#[test]
fn a_run_is_cancelled_with_its_processes() {
    let flow = "flow: a\nsteps:\n  - {id: sleep, timeout: 10m, run: 'echo $$ > p.tmp; mv p.tmp p; exec sleep 600'}\n";
    let store = Store::new();
    let run = UnderWay::start(&store, flow, &["-o", "json"]);
    let processes = run.processes("p");
    let cancelled = ok(store.unstuck(&["cancel", "@latest", "--reason", "enough", "-o", "json"])).json();
    assert_eq!((&cancelled["already"], &cancelled["state"]), (&json!(false), &json!("cancelled")));
    let ended = run.wait();
    assert_eq!((ended.code, &ended.json()["state"]), (1, &json!("cancelled")));
    crate::support::under_way::wait_until_gone(&processes);
    let again = ok(store.unstuck(&["cancel", "@latest"]));
    assert!(again.stdout.starts_with("The run was already cancelled.\n"), "{}", again.stdout);
}

#[test]
fn a_run_at_rest_that_is_helped_in_its_last_moment_goes_on_or_stays() {
    // Whatever comes first, the choice is not lost.
    let flow = "flow: a\nsteps:\n  - {id: one, emulate: {sequence: [stall, pass]}, retryStrategy: hold, timeout: 5s}\n";
    for _ in 0..5 {
        let store = Store::new();
        let run = UnderWay::start(&store, flow, &[]);
        run.until("held until an operator chooses");
        let choose = || store.unstuck(&["choose", "@latest", "one", "retry"]);
        let chosen = choose();
        let ended = run.wait();
        if chosen.code == 7 {
            // It left in the very moment in which it was asked, and may have done it.
            let again = choose();
            assert!(matches!(again.code, 0 | 5), "{}{}", again.stdout, again.stderr);
        } else {
            ok(chosen);
        }
        assert!(matches!(ended.code, 0 | 3), "{}{}", ended.stdout, ended.stderr);
        let ran = store.unstuck(&["run", "--continue", "@latest"]);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    }
}

only_on_a_store! {
    "nobody waits for a turn on a server";
#[test]
fn a_second_run_waits_its_turn_and_says_for_whom() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waiting for signal `approve`");
    let id = store.latest();
    let file = store.write("other.yaml", "flow: other\nsteps:\n  - {id: one, set: 1}\n");
    let second = UnderWay::command(&store, &["run", &file]);
    let process = run.id();
    second.until_stderr(&format!(
        "Process {process} has the store {} open and executes {id} of flow `approval`, which is waiting.",
        store.path()
    ));
    second.until_stderr("Waiting for it to finish. Ctrl-C stops waiting; --store PATH uses another store.");
    // Another store is not waited for, and somebody may think better of it.
    let elsewhere = Store::new();
    ok(store.unstuck(&["run", &file, "--store", &elsewhere.path()]));
    let third = UnderWay::command(&store, &["run", "--continue", &id]);
    third.until_stderr("Waiting for it to finish.");
    third.send(rustix::process::Signal::INT);
    let stopped = third.wait();
    assert_eq!((stopped.code, stopped.stdout.as_str()), (130, ""));
    assert!(
        stopped.stderr.ends_with("Stopped waiting for the store (Ctrl-C). Nothing was started.\n"),
        "{}",
        stopped.stderr
    );
    ok(store.unstuck(&["signal", &id, "approve", "{\"by\": \"grace\"}"]));
    assert_eq!(run.wait().code, 0);
    let ended = second.wait();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.ends_with("The store is free.\n"), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("of flow `other`") || ended.stdout.contains("completed"),
        "{}",
        ended.stdout
    );
    let runs = ok(store.unstuck(&["runs", "--state", "completed", "-o", "json"])).json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "{runs:#}");
}
}

only_on_a_store! {
    "nobody waits for a turn on a server";
#[test]
fn a_run_whose_owner_is_killed_gives_way_to_the_one_that_waits() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waiting for signal `approve`");
    let file = store.write("other.yaml", "flow: other\nsteps:\n  - {id: one, set: 1}\n");
    let second = UnderWay::command(&store, &["run", &file]);
    second.until_stderr("Waiting for it to finish.");
    run.send(rustix::process::Signal::KILL);
    run.wait();
    assert_eq!(second.wait().code, 0);
}
}

only_on_a_store! {
    "the run of a key on a server is shown, not executed by another process";
#[test]
fn a_key_that_has_a_run_is_answered_whoever_has_the_store_open() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &["--key", "k", "--input", "{\"n\": 1}"]);
    run.until("waiting for signal `approve`");
    let id = store.latest();
    let file = store.write("flow.yaml", APPROVAL);
    let keyed = |key: &str, n: u32, more: &[&str]| {
        let input = format!("{{\"n\": {n}}}");
        store.unstuck(&[&["run", &file, "--key", key, "--input", &input], more].concat())
    };
    let text = keyed("k", 1, &[]);
    assert_eq!((text.code, text.stderr.as_str()), (4, ""), "{}", text.stdout);
    let said = text.stdout.replace('\n', " ");
    let wanted = format!(
        "Key `k` already has {id}, which is waiting, and another process is executing it. Nothing was started."
    );
    assert!(said.starts_with(&wanted), "{said}");
    let document = keyed("k", 1, &["-o", "json"]);
    assert_eq!((document.code, &document.json()["id"]), (4, &json!(id)));
    let refused = keyed("k", 2, &[]);
    assert_eq!(refused.code, REFUSED);
    assert!(refused.stderr.contains("key `k`") && refused.stderr.contains(&id), "{}", refused.stderr);
    ok(store.unstuck(&["signal", &id, "approve", "{\"by\": \"grace\"}"]));
    assert_eq!(run.wait().code, 0);

    // One that has ended is told while another run has the store.
    let other = UnderWay::start(&store, APPROVAL, &[]);
    other.until("waiting for signal `approve`");
    let ended = keyed("k", 1, &["-o", "json"]);
    assert_eq!((ended.code, &ended.json()["state"]), (0, &json!("completed")), "{}", ended.stderr);
    ok(store.unstuck(&["cancel", "@latest"]));
    other.wait();
}
}

only_on_a_store! {
    "nobody waits for a turn on a server";
#[test]
fn a_key_that_has_no_run_waits_its_turn_as_any_run_does() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &["--key", "first"]);
    run.until("waiting for signal `approve`");
    let id = store.latest();
    let file = store.write("other.yaml", "flow: other\nsteps:\n  - {id: one, set: 1}\n");
    let second = UnderWay::command(&store, &["run", &file, "--key", "second"]);
    second.until_stderr("Waiting for it to finish.");
    ok(store.unstuck(&["signal", &id, "approve", "{\"by\": \"grace\"}"]));
    assert_eq!(run.wait().code, 0);
    let ended = second.wait();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(store.unstuck(&["show", "second", "-o", "json"]).json()["state"], json!("completed"));
}
}

only_on_a_store! {
    "no run is idle on a server";
#[test]
fn a_run_that_waits_for_the_slot_of_an_idle_one_says_who_has_it_and_gives_way() {
    let flow = "flow: narrow
concurrency: {limit: 1}
steps:
  - id: hang
    timeout: 10m
    run: 'if ! test -e again; then echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600; fi; echo 2'
";
    let store = Store::new();
    let first = UnderWay::start(&store, flow, &[]);
    first.processes("pid");
    first.send(rustix::process::Signal::INT);
    assert_eq!(first.wait().code, 130);
    let holder = store.latest();
    store.write("again", "");

    // It owns the store, so that nobody could go on with the one that has the slot.
    let waits = UnderWay::start(&store, flow, &[]);
    waits.until(&format!("limit `narrow` has no free slot: held by {holder} (idle)"));
    // Whoever waits for the store gets it, and the slot is free some day.
    let continued = UnderWay::command(&store, &["run", "--continue", &holder]);
    let blocked = waits.wait();
    let id = store.latest();
    assert_eq!(blocked.code, 1, "{}", blocked.stdout);
    let said = blocked.stdout.replace('\n', " ");
    for part in [
        format!("most 1 run at once); {holder} (idle) has it."),
        format!("  unstuck run --continue {holder} "),
        format!("  unstuck run --continue {id}"),
    ] {
        assert!(said.contains(&part), "{part} in\n{}", blocked.stdout);
    }
    assert_eq!(continued.wait().code, 0);
    let explained = ok(store.unstuck(&["explain", &id])).stdout;
    assert!(!explained.contains(&holder), "it has given it back:\n{explained}");
    assert_eq!(store.unstuck(&["run", "--continue", &id]).code, 0);
}
}

#[test]
fn many_commands_at_once_all_get_an_answer() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waiting for signal `approve`");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ok(store.unstuck(&["show", "@latest", "-o", "json"])).json());
        }
    });
    ok(store.unstuck(&["cancel", "@latest"]));
    run.wait();
    // And without an owner.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ok(store.unstuck(&["runs", "-o", "json"])).json());
        }
    });
    wait_until(|| {
        crate::ON_SERVER || !std::fs::exists(format!("{}/socket", store.path())).is_ok_and(|there| there)
    });
}
