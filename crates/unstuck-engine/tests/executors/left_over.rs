//! What a dead engine's processes left running: found by their token, wherever they have got to, and nobody else.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::executor::{Executor, LeftOver};

use super::support::LONG;

/// A process as an engine would have started it, with this token.
fn start(token: &str, line: &str) -> Child {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).env("UNSTUCK_TOKEN", token).env("LEFT_OVER", token).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("sh starts")
}

/// The living processes that this variable names.
fn living(token: &str) -> usize {
    let wanted = format!("LEFT_OVER={token}");
    let processes = std::fs::read_dir("/proc").expect("this system has /proc").flatten();
    let lives = processes.filter(|process| {
        let read = |name: &str| std::fs::read(process.path().join(name)).unwrap_or_default();
        let is_wanted =
            read("environ").split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        is_wanted && stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    });
    lives.count()
}

fn wait_for(token: &str, wanted: usize) {
    let patience = Instant::now() + LONG;
    while living(token) != wanted {
        assert!(Instant::now() < patience, "{} of {wanted} processes with {token}", living(token));
        thread::yield_now();
    }
}

fn left(token: &str) -> LeftOver {
    let unit = UnitRef::step(StepIndex(0));
    let attempt = AttemptId { run: RunId(1), generation: 1, unit, attempt: 1 };
    LeftOver { attempt, token: token.to_owned() }
}

#[test]
fn every_process_with_the_token_is_ended_and_no_other() {
    // What was started, how many processes that is, and how many of them have the token.
    let cases = [
        ("exec sleep 1000", 1),
        ("sleep 1000 & sleep 1000 & wait", 3),
        // Deaf to SIGTERM: they are killed.
        ("trap '' TERM; sleep 1000 & while true; do sleep 1000; done", 3),
        // The leader is gone, and what it started has left the group, or is stopped.
        ("setsid sleep 1000 & sleep 1000 & exit", 2),
        ("sleep 1000 & kill -STOP $!; wait", 2),
        // It has put the token away, and is still in the group.
        ("env -u UNSTUCK_TOKEN sleep 1000 & wait", 2),
    ];
    for (place, (line, size)) in cases.into_iter().enumerate() {
        // Whatever else runs these tests at the same time has tokens of its own.
        let here = std::process::id();
        let (mine, other) = (format!("mine-{here}-{place}"), format!("other-{here}-{place}"));
        let mut child = start(&mine, line);
        let mut bystander = start(&other, "sleep 1000 & wait");
        wait_for(&mine, size);
        wait_for(&other, 2);
        ProcessExecutor::new(0).clean_up(&[left(&mine), left("nobody")]);
        assert_eq!(living(&mine), 0, "{line}");
        assert_eq!(living(&other), 2, "{line}: somebody else's");
        ProcessExecutor::new(0).clean_up(&[left(&other)]);
        assert_eq!(living(&other), 0);
        child.wait().expect("it has ended");
        bystander.wait().expect("it has ended");
    }
}

#[test]
fn nothing_left_is_nothing_done() {
    ProcessExecutor::new(0).clean_up(&[]);
    ProcessExecutor::new(0).clean_up(&[left("nobody-had-this")]);
}
