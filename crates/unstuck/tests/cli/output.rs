//! Text output: what is on which stream, no escape codes, nobody reading.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{IS_AT, Store, run_flow, unstuck};

#[test]
fn the_log_and_the_summary_go_to_stdout() {
    let ran = unstuck(&["run", "examples/wait.yaml", "--input", "{\"seconds\": 0}"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines[0].starts_with("run_")
            && lines[0].contains(IS_AT)
            && (crate::ON_SERVER || lines[0].ends_with("/store")),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with(" +0.000s run_") && lines[1].ends_with(" of flow `patience` started"),
        "{}",
        lines[1]
    );
    let [.., completed, "", summary, output] = lines.as_slice() else { panic!("{}", ran.stdout) };
    assert!(completed.ends_with("s the run completed"), "{completed}");
    assert!(summary.starts_with("completed after "), "{summary}");
    assert_eq!(*output, "\"it was worth the wait\"");
}

#[test]
fn what_is_not_completed_is_explained() {
    let held = unstuck(&["run", "examples/hold.yaml"]);
    let parts = [
        "held after ",
        "is held: an operator must choose retry or",
        "the bank did not confirm the transfer",
        "What you can do\n  unstuck choose run_",
        " transfer retry\n",
    ];
    for part in parts {
        assert!(held.stdout.contains(part), "{part} in\n{}", held.stdout);
    }
    let failed = run_flow("flow: a\nsteps:\n  - {id: one, emulate: fail, timeout: 5s}\n", &[]);
    assert_eq!(failed.code, 1);
    for part in ["failed after ", "emulated failure", "What you can do\n  unstuck rerun run_"] {
        assert!(failed.stdout.contains(part), "{part} in\n{}", failed.stdout);
    }
}

#[test]
fn warnings_go_to_stderr_and_the_flow_runs() {
    let ran = run_flow("flow: a\nsteps:\n  - {id: one, run: 'true'}\n", &[]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.stderr.starts_with("warning: ") && !ran.stdout.contains("warning"),
        "{}{}",
        ran.stderr,
        ran.stdout
    );
}

#[test]
fn off_a_terminal_there_are_no_escape_codes() {
    let cases: [&[&str]; 5] = [
        &["run", "examples/process.yaml"],
        &["run", "examples/hold.yaml"],
        &["run", "Cargo.toml"],
        &["check", "Cargo.toml", "examples/first.yaml"],
        &["--help"],
    ];
    for arguments in cases {
        let ran = unstuck(arguments);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains('\u{1b}'), "{arguments:?}");
    }
    // Not even those that a step brings.
    let ran = run_flow(
        "flow: a\nsteps:\n  - {id: one, run: 'printf \"\\033[31mred\" >&2; exit 1', timeout: 5s}\n",
        &[],
    );
    assert!(ran.stdout.contains("\u{fffd}[31mred") && !ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
}

#[test]
fn work_goes_on_when_nobody_reads_about_it_any_more() {
    let store = Store::new();
    let mut child = store
        .command()
        .args(["run", "examples/wait.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("stdout is a pipe"))
        .read_line(&mut first)
        .expect("it says something");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), b"".as_slice()));
}

#[test]
fn what_cannot_be_written_is_said_on_stderr() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    for arguments in [["schema", "-otext"], ["run", "examples/wait.yaml"]] {
        let stdout = full.try_clone().expect("a file can be shared");
        let store = Store::new();
        let mut command = store.command();
        let ended = command.args(arguments).stdout(stdout).stderr(Stdio::piped()).output().expect("it ends");
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(7), "{arguments:?}");
        assert_eq!(stderr, "error: cannot write to stdout: No space left on device\n", "{arguments:?}");
    }
}
