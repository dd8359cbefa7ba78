//! Whatever a flow does, there is a bound: children, processes, inputs, names; and Ctrl-C works.

use rustix::process::Signal;

use crate::support::under_way::{UnderWay, wait_until_gone};
use crate::support::{REFUSED, Store};

/// Each run starts four more, down to the bound.
const WIDE: &str = "flow: wide
steps:
  - {id: more, forEach: {items: '${[1, 2, 3, 4]}', parallel: 4}, flow: wide, with: {}}
";

#[test]
fn a_flow_that_starts_itself_without_end_fails_with_the_chain() {
    let store = Store::new();
    let flow = "flow: again\nsteps:\n  - {id: more, if: 'true', flow: again, with: {}}\n";
    let path = store.write("flow.yaml", flow);
    let ran = store.unstuck(&["run", &path]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let cause = "`again` would be at nesting depth 33, over the limit of 32: again > again > again > again > \
                 (25 more) > again > again > again > again > again";
    assert!(ran.stdout.contains(cause), "{}", ran.stdout);
    let explained = store.unstuck(&["explain", "@latest"]);
    assert!(explained.stdout.contains("at nesting depth 33"), "{}", explained.stdout);
    assert_eq!(store.unstuck(&["runs", "--all", "-o", "json"]).code, 0);
}

only_on_a_store! {
    "Ctrl-C leaves a run on a server alone";
#[test]
fn ctrl_c_interrupts_a_tree_that_grows_without_end_at_the_first_press() {
    let store = Store::new();
    let run = UnderWay::start(&store, WIDE, &[]);
    run.until("more[0] > more[0] > more[0] > ");
    run.send(Signal::INT);
    let ran = run.wait();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert!(ran.stdout.contains("interrupted (Ctrl-C); the run is kept in the store"));
    // Whatever the tree looks like, questions about it are answered, and it can be ended.
    let list = store.unstuck(&["runs"]);
    assert_eq!((list.code, list.stdout.lines().count()), (0, 2), "{}{}", list.stdout, list.stderr);
    let root = list.stdout.lines().nth(1).and_then(|line| line.split_whitespace().next()).expect("a run");
    for arguments in [&["runs", "--all"][..], &["show", root], &["explain", root]] {
        let ran = store.unstuck(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.len() < 1_000_000, "{arguments:?} gives a page, not the tree");
    }
    let ran = store.unstuck(&["cancel", root]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}
}

#[test]
fn a_daemon_does_not_survive_the_timeout_of_its_step() {
    let store = Store::new();
    let flow = "flow: daemon
steps:
  - id: start
    run: |
      setsid sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600' > /dev/null 2>&1 < /dev/null &
      wait
    timeout: 2s
    maxStuck: 1
";
    let run = UnderWay::start(&store, flow, &[]);
    let daemon = run.processes("pid");
    let ran = run.wait();
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    wait_until_gone(&daemon);
}

only_on_a_store! {
    "Ctrl-C leaves a run on a server alone";
#[test]
fn a_daemon_does_not_survive_ctrl_c() {
    let store = Store::new();
    let flow = "flow: daemon
steps:
  - id: start
    run: |
      setsid sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600' > /dev/null 2>&1 < /dev/null &
      wait
    timeout: 10m
";
    let run = UnderWay::start(&store, flow, &[]);
    let daemon = run.processes("pid");
    run.send(Signal::INT);
    assert_eq!(run.wait().code, 130);
    wait_until_gone(&daemon);
}
}

#[test]
fn an_input_that_would_take_for_ever_to_check_is_refused_at_once() {
    let store = Store::new();
    let flow = "flow: tree
input:
  anyOf: [{type: object}, {$ref: '#/$defs/node'}]
  $defs:
    node:
      oneOf:
        - {type: array, items: {$ref: '#/$defs/node'}}
        - {type: array, maxItems: 5, items: {$ref: '#/$defs/node'}}
steps:
  - {id: fails, run: 'exit 1', timeout: 10m}
";
    let path = store.write("flow.yaml", flow);
    assert_eq!(store.unstuck(&["run", &path]).code, 1);
    let input = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    for arguments in [&["resume", "@latest", "--input", &input][..], &["run", &path, "--input", &input]] {
        let ran = store.unstuck(arguments);
        assert_ne!(ran.code, 0);
        assert!(
            ran.stderr.contains("does not match the flow's schema. The part that is wrong"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_key_that_is_blank_or_too_long_is_refused() {
    let store = Store::new();
    let path = store.write("flow.yaml", "flow: f\nsteps: [{id: x, set: 1}]\n");
    let long = "k".repeat(513);
    for (key, part) in
        [(" ", "the key is blank"), (long.as_str(), "the key is too long (513 bytes, at most 512)")]
    {
        let ran = store.unstuck(&["run", &path, "--key", key]);
        assert_eq!(ran.code, REFUSED, "{}", ran.stdout);
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}

only_on_a_store! {
    "the API has a bound of its own for names of users, 128 characters";
#[test]
fn a_reason_or_a_user_name_that_is_too_long_is_refused_and_changes_nothing() {
    let store = Store::new();
    let rests = "flow: rests\nsteps:\n  - {id: a, emulate: {sequence: [stall]}}\n";
    assert_eq!(store.run_flow(rests, &[]).code, 1);
    let before = store.unstuck(&["history", "@latest", "-o", "json"]).stdout;
    let long = "x".repeat(1_001);
    let commands: [&[&str]; 6] = [
        &["cancel", "--flow", "rests", "--yes", "--reason", &long],
        &["pause", "@latest", "--reason", &long],
        &["cancel", "@latest", "--reason", &long],
        &["ack", "@latest", "--reason", &long],
        &["resume", "@latest", "--reason", &long],
        &["skip", "@latest", "a", "--reason", &long],
    ];
    for command in commands {
        let refused = store.unstuck(command);
        assert_eq!(refused.code, REFUSED, "{command:?}: {}", refused.stderr);
        let sentence = "the reason is too long (1001 characters, at most 1000); shorten it";
        assert!(refused.stderr.contains(sentence), "{command:?}: {}", refused.stderr);
    }
    let policies =
        store.write("policies.yaml", "name: p\nerrorSubstring: x\nmaxAttempts: 2\nbackOff: {delay: 1s}\n");
    let commands: [&[&str]; 3] =
        [&["pause", "@latest"], &["policy", "load", &policies], &["policy", "apply"]];
    for command in commands {
        let mut named = store.command();
        named.args(command).env("USER", "u".repeat(201));
        let refused = crate::support::Ran::of(named.output().expect("it runs"));
        assert_eq!(refused.code, REFUSED, "{command:?}: {}", refused.stderr);
        let sentence = "the name of the user is too long (201 bytes, at most 200)";
        assert!(refused.stderr.contains(sentence), "{command:?}: {}", refused.stderr);
    }
    assert_eq!(store.unstuck(&["history", "@latest", "-o", "json"]).stdout, before);
}
}
