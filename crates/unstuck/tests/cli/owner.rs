//! Commands from another terminal, on a run in progress.

use serde_json::json;

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{Ran, Store};

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
    run.until("waits for signal `approve`");
    let paused = ok(store.unstuck(&["pause", "@latest", "--reason", "lunch"]));
    assert!(paused.stdout.starts_with("The run is paused.\nrun_"), "{}", paused.stdout);
    run.until("the run is paused by ada (lunch)");
    let again = ok(store.unstuck(&["pause", "@latest"]));
    assert!(again.stdout.starts_with("The run was paused already.\n"), "{}", again.stdout);

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
    assert_eq!((&info["owner"], &info["runs"]), (&json!(run.id()), &json!({"paused": 1})));
    assert_eq!(ok(store.unstuck(&["store", "check", "-o", "json"])).json()["findings"], json!([]));

    let unpaused = ok(store.unstuck(&["unpause", "@latest"]));
    assert!(unpaused.stdout.starts_with("The run goes on.\n"), "{}", unpaused.stdout);
    assert!(ok(store.unstuck(&["unpause", "@latest"])).stdout.starts_with("The run was not paused.\n"));
    let signalled = ok(store.unstuck(&["signal", "@latest", "approve", "{\"by\":\n \"grace\"}"]));
    assert!(signalled.stdout.starts_with("Signal `approve` has come.\n"), "{}", signalled.stdout);
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
    run.until("hold: the retry strategy is hold");
    let chosen = ok(store.unstuck(&["choose", "@latest", "hold", "retry"]));
    assert!(chosen.stdout.starts_with("`hold` is tried once more.\n"), "{}", chosen.stdout);
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
    assert!(again.stdout.starts_with("The run was cancelled already.\n"), "{}", again.stdout);
}

#[test]
fn a_run_at_rest_that_is_helped_in_its_last_moment_goes_on_or_stays() {
    // Whatever comes first, the choice is not lost.
    let flow = "flow: a\nsteps:\n  - {id: one, emulate: {sequence: [stall, pass]}, retryStrategy: hold, timeout: 5s}\n";
    for _ in 0..5 {
        let store = Store::new();
        let run = UnderWay::start(&store, flow, &[]);
        run.until("held until an operator chooses");
        ok(store.unstuck(&["choose", "@latest", "one", "retry"]));
        let ended = run.wait();
        assert!(matches!(ended.code, 0 | 3), "{}{}", ended.stdout, ended.stderr);
        let ran = store.unstuck(&["run", "--continue", "@latest"]);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn a_store_has_one_owner() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waits for signal `approve`");
    let file = store.write("other.yaml", "flow: other\nsteps:\n  - {id: one, set: 1}\n");
    for arguments in [&["run", &file][..], &["run", "--continue"]] {
        let ran = store.unstuck(arguments);
        let wanted = format!(
            "error: process {} has the store {} open; wait until its run has ended, or use another one with --store PATH\n",
            run.id(),
            store.path()
        );
        assert_eq!((ran.code, ran.stderr), (1, wanted), "{arguments:?}");
    }
    let elsewhere = Store::new();
    ok(store.unstuck(&["run", &file, "--store", &elsewhere.path()]));
    ok(store.unstuck(&["cancel", "@latest"]));
    run.wait();
    ok(store.unstuck(&["run", &file]));
}

#[test]
fn many_commands_at_once_all_get_an_answer() {
    let store = Store::new();
    let run = UnderWay::start(&store, APPROVAL, &[]);
    run.until("waits for signal `approve`");
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
    wait_until(|| !std::fs::exists(format!("{}/socket", store.path())).is_ok_and(|there| there));
}
