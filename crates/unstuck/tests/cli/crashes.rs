//! A process that a signal ends, which nobody here sent: for real, emulated and rehearsed, it comes to the same.

use serde_json::{Value, json};

use crate::support::{Ran, Store};

/// The first attempt of the first step: its state, its error, and the state of the run.
fn first_attempt(run: &Value) -> (Value, Value, Value) {
    let attempt = &run["steps"][0]["attempts"][0];
    (attempt["state"].clone(), attempt["error"].clone(), run["state"].clone())
}

fn show(store: &Store, ran: &Ran) -> Value {
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    store.unstuck(&["show", "@latest", "-o", "json"]).json()
}

#[test]
fn a_process_that_a_signal_ends_is_stalled_with_the_signal_in_its_cause_and_rests_in_error() {
    let cases = [
        ("kill -9 $$", "killed by signal 9 (SIGKILL)", json!({"signal": 9}), None),
        ("ulimit -c 0; kill -SEGV $$", "killed by signal 11 (SIGSEGV)", json!({"signal": 11}), None),
        (
            "echo reading row 7 >&2; kill -9 $$",
            "killed by signal 9 (SIGKILL)",
            json!({"signal": 9}),
            Some("reading row 7"),
        ),
        (
            r#"echo '{"error": {"cause": "out of memory"}}' >> "$UNSTUCK_REPORT"; kill -9 $$"#,
            "out of memory (killed by signal 9 (SIGKILL))",
            json!({"signal": 9}),
            None,
        ),
    ];
    for (script, cause, details, context) in cases {
        let store = Store::new();
        let flow = json!({"flow": "f", "steps": [{"id": "one", "run": script, "timeout": "1m"}]});
        let ran = store.run_flow(&flow.to_string(), &[]);
        let (state, error, run) = first_attempt(&show(&store, &ran));
        assert_eq!((&state, &run), (&json!("stalled"), &json!("error")), "{script}: {error}");
        assert_eq!((&error["cause"], &error["details"]), (&json!(cause), &details), "{script}");
        assert_eq!(error["context"].as_str().map(str::trim_end), context, "{script}");
        assert!(ran.stdout.contains(cause) || ran.stderr.contains(cause), "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn a_rehearsal_of_a_crash_says_what_the_real_process_comes_to() {
    let cases = [
        ("", "error"),
        ("retryStrategy: retry, maxAttempts: 2, backOff: 50ms, minimumDelay: 50ms", "error"),
        ("retryStrategy: hold", "held"),
        ("failOnError: false", "completed"),
    ];
    for (rules, wanted) in cases {
        let store = Store::new();
        let flow = format!("flow: f\nsteps: [{{id: one, run: 'kill -9 $$', timeout: 1m, {rules}}}]\n");
        let file = store.write("flow.yaml", &flow);
        let plan = store.write("plan.yaml", "steps: {one: crash}\n");
        store.unstuck(&["run", &file]);
        let real = store.unstuck(&["show", "@latest", "-o", "json"]).json();
        let rehearsed = store.unstuck(&["rehearse", &file, "--plan", &plan, "-o", "json"]).json();
        let ends = (&real["state"], &rehearsed["ends"][0]["end"]);
        assert_eq!(ends, (&json!(wanted), &json!(wanted)), "{rules}");
        let stalled = real["steps"][0]["attempts"].as_array().map(Vec::len);
        assert_eq!(rehearsed["attempts"]["stalled"].as_u64(), stalled.map(|n| n as u64), "{rules}");
        assert_eq!(rehearsed["attempts"]["stuck"], json!(0), "{rules}");
        let told = store.unstuck(&["rehearse", &file, "--plan", &plan]).stdout;
        assert!(told.contains("one: attempt 1 stalled: killed by signal 9 (SIGKILL)"), "{told}");
    }
}

#[test]
fn every_fault_at_every_step_tells_the_crash_of_a_process_from_that_of_a_worker() {
    let store = Store::new();
    let flow = "flow: f\nsteps: [{id: local, run: 'true', timeout: 1m}, {id: remote, action: a}]\n";
    let file = store.write("flow.yaml", flow);
    let arguments = ["rehearse", &file, "--plan", "auto", "--must-survive", "crash"];
    let ran = store.unstuck(&arguments);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    let (_, lost) = ran.stdout.split_once("NOT SURVIVED\n").expect("something is not survived");
    let lost: Vec<&str> = lost.split_whitespace().collect();
    let wanted = "- `local` does not survive crash once: the run is in error (`local` is in error: killed by \
                  signal 9 (SIGKILL))";
    assert_eq!(lost.join(" "), wanted, "{}", ran.stdout);
    let found = store.unstuck(&["rehearse", &file, "--plan", "auto", "-o", "json"]).json();
    let local = &found["weakPoints"][0];
    assert_eq!(local["step"], "local");
    let helps: Vec<&str> =
        local["helps"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(
        helps.contains(&"set `retryStrategy: retry`, or add a resume policy that matches its errors"),
        "{helps:?}"
    );
    assert!(!helps.iter().any(|help| help.contains("maxStuck")), "{helps:?}");
}

#[test]
fn an_emulated_step_stands_for_a_worker_and_its_crash_is_stuck_for_real_and_in_a_rehearsal() {
    let store = Store::new();
    let flow = "flow: f\nsteps: [{id: one, emulate: crash, maxStuck: 2, minimumDelay: 50ms, timeout: 1m}]\n";
    let file = store.write("flow.yaml", flow);
    let (state, _, run) = first_attempt(&show(&store, &store.unstuck(&["run", &file])));
    assert_eq!((state, run), (json!("stuck"), json!("failed")));
    let rehearsed = store.unstuck(&["rehearse", &file, "-o", "json"]).json();
    // The last one that may be stuck is *failed*.
    let attempts = ["stuck", "failed", "stalled"].map(|state| rehearsed["attempts"][state].clone());
    assert_eq!((&rehearsed["ends"][0]["end"], attempts), (&json!("failed"), [json!(1), json!(1), json!(0)]));
}
