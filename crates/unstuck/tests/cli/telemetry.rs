//! The log on stderr: what `UNSTUCK_LOG` switches on, and nothing without it.

use crate::support::{REFUSED, Ran, Store};

const FLOW: &str = "\
flow: told
steps:
  - {id: print, run: echo done, timeout: 1m}
  - {id: wave, emulate: pass}
";

fn run(wanted: Option<&str>) -> (Store, Ran) {
    let store = Store::new();
    let path = store.write("flow.yaml", FLOW);
    let mut command = store.command();
    command.args(["run", &path]);
    if let Some(wanted) = wanted {
        command.env("UNSTUCK_LOG", wanted);
    }
    let mut ran = Ran::of(command.output().expect("the binary starts"));
    // What a slow machine is told at the end, with a log or without.
    ran.stderr = ran.stderr.replace("waiting for processes to end; Ctrl-C again ends them at once\n", "");
    (store, ran)
}

#[test]
fn without_it_nothing_is_told() {
    for wanted in [None, Some(""), Some("off")] {
        let (_store, ran) = run(wanted);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{wanted:?}");
    }
}

#[test]
fn at_debug_every_batch_attempt_process_and_commit_is_told() {
    let (store, ran) = run(Some("debug"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("the run completed"), "{}", ran.stdout);
    let run = store.latest();
    let attempt = format!("attempt{{run={run} step=print attempt=1}}: unstuck_engine::");
    let handed_out = format!("run={run} step=wave attempt=1 worker=emulation");
    for parts in [
        &["INFO unstuck_engine::", "engine started incarnation=1"][..],
        &["DEBUG unstuck_engine::", "batch decided and staged batch=1 requests=1"],
        &["DEBUG unstuck_engine::", "batch durable batch=1"],
        &["DEBUG unstuck_engine::", "attempt handed out batch=", &handed_out],
        &["DEBUG ", &attempt, "process started pid="],
        &["DEBUG ", &attempt, "process ended status=exit status: 0"],
        &["DEBUG unstuck_sqlite::", "store opened store="],
        &["DEBUG unstuck_sqlite::", "batches committed and synced first=1 last="],
        &["INFO unstuck_engine::", "engine stopped"],
    ] {
        let is_told = ran.stderr.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(is_told, "{parts:?}:\n{}", ran.stderr);
    }
    // When, as in `2026-11-16T02:51:21.698012Z`.
    for line in ran.stderr.lines() {
        let time = line.split(' ').next().unwrap_or_default();
        assert!(time.ends_with('Z') && time.contains('T') && time.starts_with("20"), "{line}");
    }
}

#[test]
fn parts_have_levels_of_their_own() {
    let (_store, ran) = run(Some("unstuck_sqlite=debug"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("store opened"), "{}", ran.stderr);
    assert!(ran.stderr.lines().all(|line| line.contains(" unstuck_sqlite::")), "{}", ran.stderr);
    let (_store, ran) = run(Some("warn"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn what_is_no_level_is_refused_and_nothing_is_started() {
    let (store, ran) = run(Some("loud"));
    let sentence = "error: UNSTUCK_LOG is `loud`, and `loud` is no level; give a level (error, warn, info, debug, trace or off) such \
                    as `debug`, or levels of parts such as `unstuck_engine=debug,unstuck_sqlite=info`\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (REFUSED, "", sentence));
    assert!(!std::path::Path::new(&store.path()).exists(), "no store was made");
}
