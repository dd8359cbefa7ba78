//! `unstuck logs`: what every attempt printed, how much of it is kept, and which lines of a report were ignored.

use rustix::process::Signal;
use serde_json::json;

use crate::support::Store;
use crate::support::under_way::UnderWay;
use crate::terminal::on_terminal;

/// What a terminal shows, as words on one line.
fn words(shown: &str) -> String {
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn logs_show_stderr_and_stdout_of_every_attempt_completed_ones_too() {
    let store = Store::new();
    let flow = "
flow: loud
steps:
  - id: first
    retryStrategy: retry
    backOff: 10ms
    minimumDelay: 10ms
    run: 'echo try $UNSTUCK_ATTEMPT; echo hm >&2; test $UNSTUCK_ATTEMPT = 2'
  - {id: silent, run: 'true'}
  - {id: last, run: 'echo to stdout; echo to stderr >&2'}
";
    assert_eq!(store.run_flow(flow, &[]).code, 0);
    let shown = store.unstuck(&["logs", "@latest"]);
    let wanted = "\
first, attempt 1: stalled: hm
  stderr:
    hm
  stdout:
    try 1

first, attempt 2: completed
  stderr:
    hm
  stdout:
    try 2

last, attempt 1: completed
  stderr:
    to stderr
  stdout:
    to stdout
";
    assert_eq!((shown.code, shown.stdout.as_str()), (0, wanted), "{}", shown.stderr);
    let last = store.unstuck(&["logs", "@latest", "last"]);
    assert_eq!(last.stdout, wanted[wanted.find("last, ").expect("it is there")..]);
    let silent = store.unstuck(&["logs", "@latest", "silent"]);
    assert_eq!(silent.stdout, "No logs: no attempt has failed or printed anything.\n");
    let document = store.unstuck(&["logs", "@latest", "-o", "json"]).json();
    assert_eq!(document["run"], store.latest());
    assert_eq!(document["dropped"], 0);
    let log = &document["logs"][2];
    assert_eq!(log["stdout"], json!({"text": "to stdout", "bytes": 10}));
    assert_eq!((&log["step"], &log["attempt"], &log["generation"]), (&json!("last"), &json!(1), &json!(1)));
    assert_eq!(
        (&log["state"], &log["cause"], &log["ignored"]),
        (&json!("completed"), &json!(null), &json!([]))
    );
    assert!(log["endedAt"].is_string(), "{log}");
    for width in [80, 40] {
        let terminal = on_terminal(&store, &["logs", "@latest"], width);
        assert_eq!(
            terminal.lines().map(str::trim_end).collect::<Vec<_>>(),
            wanted.lines().collect::<Vec<_>>()
        );
    }
    let unknown = store.unstuck(&["logs", "@latest", "other"]);
    assert!(unknown.stderr.contains(" has no step `other`; `unstuck show "), "{}", unknown.stderr);
}

#[test]
fn much_stdout_neither_kills_a_process_nor_fails_it_for_its_output() {
    let store = Store::new();
    let flow = "
flow: chatty
steps:
  - {id: log, run: 'yes chatter | head -c 20000000; echo done; echo \"{\\\"output\\\": 7}\" >> $UNSTUCK_REPORT'}
  - {id: line, run: 'yes chatter | head -c 20000000; echo; echo 8'}
output: {log: '${steps.log.output}', line: '${steps.line.output}'}
";
    let ran = store.run_flow(flow, &["-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.json()["output"], json!({"log": 7, "line": 8}));
    let shown = store.unstuck(&["logs", "@latest", "log"]).stdout;
    assert!(
        shown.contains("\n  stdout (the last 63.9 KiB of 19.0 MiB):\n    chatter\n"),
        "{}",
        &shown[..200]
    );
    assert!(shown.ends_with("    chatter\n    done\n"), "{}", &shown[shown.len() - 200..]);
}

#[test]
fn an_output_that_is_too_large_fails_the_step_with_what_to_do() {
    let store = Store::new();
    let ran = store.run_flow("flow: big\nsteps:\n  - {id: one, run: 'yes | head -c 20000000'}\n", &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let wanted = "stdout is too large for an output (20000000 bytes, at most 16777216): print the path of a file instead, or report \
                  {\"output\": ...} in $UNSTUCK_REPORT";
    let error = &store.unstuck(&["show", "@latest", "-o", "json"]).json()["error"];
    assert_eq!((&error["cause"], &error["reason"]), (&json!(wanted), &json!("data")));
    let shown = store.unstuck(&["logs", "@latest"]).stdout;
    let head =
        format!("one, attempt 1: failed: {wanted}\n  stdout (the last 63.9 KiB of 19.0 MiB):\n    y\n");
    assert!(shown.starts_with(&head), "{}", &shown[..400]);
    for width in [80, 40] {
        let shown = words(&on_terminal(&store, &["explain", "@latest"], width));
        assert!(shown.contains(wanted), "at {width}:\n{shown}");
    }
}

#[test]
fn a_context_of_its_own_is_shown_with_both_streams_and_nothing_twice() {
    let store = Store::new();
    let flow = r#"
flow: own
steps:
  - id: one
    run: |
      echo to stderr >&2
      echo to stdout
      echo '{"error": {"cause": "no such order", "context": "order 7 of 9"}}' >> "$UNSTUCK_REPORT"
      exit 1
"#;
    store.run_flow(flow, &[]);
    let wanted = "one, attempt 1: stalled: no such order\n  order 7 of 9\n  stderr:\n    to stderr\n  stdout:\n    to stdout\n";
    assert_eq!(store.unstuck(&["logs", "@latest"]).stdout, wanted);
    let context = &store.unstuck(&["show", "@latest", "-o", "json"]).json()["steps"][0]["attempts"][0]["error"]
        ["context"];
    let all =
        "order 7 of 9\nthe end of its standard error:\nto stderr\nthe end of its standard output:\nto stdout";
    assert_eq!(*context, json!(all));
}

#[test]
fn ignored_report_lines_are_shown_also_after_success() {
    let store = Store::new();
    let flow = r#"
flow: typo
steps:
  - id: one
    run: |
      echo '{"heartbeat": true}' >> "$UNSTUCK_REPORT"
      echo '{"progess": 1}' >> "$UNSTUCK_REPORT"
  - id: many
    run: for n in $(seq 17); do echo nonsense $n >> "$UNSTUCK_REPORT"; done
"#;
    let expected = "expected a JSON object with `progress`, `heartbeat`, `output`, `error` or `defer`";
    let ran = store.run_flow(flow, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let one = format!(
        "one: warning: ignored line 2 of the report of attempt 1 (`{{\"progess\": 1}}`): unknown field `progess`: {expected}"
    );
    let many = format!(
        "many: warning: ignored line 1 of the report of attempt 1 (`nonsense 1`): {expected}. 16 more lines were ignored"
    );
    for warning in [&one, &many] {
        assert!(ran.stdout.contains(warning.as_str()), "{warning}:\n{}", ran.stdout);
        let history = store.unstuck(&["history", "@latest"]).stdout;
        assert!(history.contains(warning.as_str()), "{warning}:\n{history}");
    }
    let shown = store.unstuck(&["logs", "@latest"]).stdout;
    let first = "one, attempt 1: completed\n  ignored lines of the report:\n    line 2: `{\"progess\": 1}`: unknown field";
    assert!(shown.starts_with(first), "{shown}");
    assert!(shown.contains(&format!("    line 5: `nonsense 5`: {expected}\n    and 12 more\n")), "{shown}");
    let log = &store.unstuck(&["logs", "@latest", "many", "-o", "json"]).json()["logs"][0];
    assert_eq!(log["ignored"][0], json!({"line": 1, "text": "nonsense 1", "why": expected}));
    assert_eq!((log["ignored"].as_array().map(Vec::len), &log["moreIgnored"]), (Some(5), &json!(12)));
    for width in [80, 40] {
        let shown = words(&on_terminal(&store, &["logs", "@latest"], width));
        for part in ["one, attempt 1: completed", "line 2: `{\"progess\": 1}`: unknown field", "and 12 more"]
        {
            assert!(shown.contains(part), "{part} at {width}:\n{shown}");
        }
    }
}

#[test]
fn a_run_keeps_so_many_logs_and_says_that_older_ones_were_dropped() {
    let store = Store::new();
    let items: Vec<usize> = (0..103).collect();
    let flow =
        format!("flow: many\nsteps:\n  - {{id: each, forEach: {items:?}, run: 'echo $UNSTUCK_STEP'}}\n");
    let ran = store.run_flow(&flow, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let logs = store.unstuck(&["logs", "@latest", "-o", "json"]).json();
    assert_eq!((logs["logs"].as_array().map(Vec::len), &logs["dropped"]), (Some(100), &json!(3)));
    let said = "The output of 3 older attempts was dropped: a run keeps the output of at most 100 attempts, and at most 1.0 MiB.";
    let shown = store.unstuck(&["logs", "@latest"]).stdout;
    assert!(shown.starts_with(&format!("{said}\n\neach[")), "{}", &shown[..300]);
    for width in [80, 40] {
        let shown = on_terminal(&store, &["logs", "@latest"], width);
        assert!(words(&shown).starts_with(said), "at {width}: {}", &shown[..300]);
    }
    store.unstuck(&["forget", "@latest", "--yes"]);
    let checked = store.unstuck(&["store", "check"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
}

only_on_a_store! {
    "a server stores what a process printed when that has ended, and the command does not wait for it";
#[test]
fn what_a_stuck_or_interrupted_attempt_printed_is_kept() {
    let store = Store::new();
    let flow = "
flow: slow
steps:
  - {id: one, timeout: 1s, maxStuck: 1, run: 'echo half done; echo still here >&2; sleep 1000'}
";
    store.run_flow(flow, &[]);
    let shown = store.unstuck(&["logs", "@latest"]).stdout;
    assert!(shown.contains("  stderr:\n    still here\n  stdout:\n    half done\n"), "{shown}");
}
}

only_on_a_store! {
    "a server stores what a process printed when that has ended, and the command does not wait for it";
#[test]
fn an_attempt_that_still_runs_is_shown_as_such() {
    let store = Store::new();
    let flow = r#"
flow: long
steps:
  - {id: a, run: 'echo one'}
  - id: b
    run: |
      echo two
      echo '{"progress": "it has printed"}' >> "$UNSTUCK_REPORT"
      sleep 1000
"#;
    let under_way = UnderWay::start(&store, flow, &[]);
    under_way.until("b: attempt 1 reported progress: \"it has printed\"");
    let wanted = "a, attempt 1: completed\n  stdout:\n    one\n\nb, attempt 1: active\n  still running: its output is stored when it ends\n";
    assert_eq!(store.unstuck(&["logs", "@latest"]).stdout, wanted);
    under_way.send(Signal::INT);
    under_way.wait();
    let shown = store.unstuck(&["logs", "@latest", "b"]).stdout;
    assert_eq!(shown, "b, attempt 1: cancelled\n  stdout:\n    two\n");
}
}
