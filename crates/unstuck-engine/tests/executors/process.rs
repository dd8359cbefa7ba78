//! Local processes: what they are given, and what their exit status, output and report come to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use unstuck_core::command::Report;
use unstuck_core::model::flow::{Kind, ProcessCommand};
use unstuck_core::model::recovery::Limits;
use unstuck_core::time::Millis;
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::executor::{Executor, ExecutorReport, Job};

use super::support::{Ear, LONG, context, flow, job, job_of, line, outcome, shell};

fn run(job: Job) -> ExecutorReport {
    outcome(&mut ProcessExecutor::new(1), job).1
}

fn argv(argv: &[&str], input: &str) -> Job {
    job(Kind::Process(ProcessCommand::Argv(argv.iter().map(|part| (*part).to_owned()).collect())), input)
}

fn output(word: &ExecutorReport) -> Value {
    match word {
        ExecutorReport::Report(_, Report::Complete { output }) => output.value(),
        word => panic!("{word:?} instead of an output"),
    }
}

/// A folder for one test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("unstuck-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path.canonicalize().expect("a path"))
    }

    fn file(&self, name: &str, text: &str, mode: u32) {
        let path = self.0.join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("allowed");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_exit_status_decides() {
    let cases = [
        ("exit 0", "completed null"),
        ("echo hello", "completed \"hello\""),
        ("echo start; echo '{\"n\": 1}'", "completed {\"n\": 1}"),
        ("echo '{\"n\": 1}'; echo done", "completed {\"n\": 1}"),
        ("echo noise >&2", "completed null"),
        ("exit 75", "deferred - -"),
        ("echo 'no licence' >&2; exit 75", "deferred - no licence"),
        ("echo 'bad row 7' >&2; exit 65", "failed (data) bad row 7"),
        ("exit 65", "failed (data) exit status 65"),
        ("exit 1", "stalled exit status 1"),
        ("echo one >&2; echo ' two ' >&2; echo >&2; exit 3", "stalled two"),
        ("echo output; exit 64", "stalled exit status 64"),
        ("exit 127", "stalled exit status 127"),
        ("kill -9 $$", "stalled killed by signal 9 (SIGKILL)"),
        ("kill -TERM $$", "stalled killed by signal 15 (SIGTERM)"),
        ("ulimit -c 0; kill -SEGV $$", "stalled killed by signal 11 (SIGSEGV)"),
        ("echo last words >&2; kill -9 $$", "stalled killed by signal 9 (SIGKILL)"),
    ];
    for (script, expected) in cases {
        assert_eq!(line(&run(shell(script))), expected, "{script}");
    }
}

#[test]
fn a_better_error_or_a_deferral_comes_by_report() {
    let cases = [
        (r#"{"error": {"cause": "no such order"}}"#, 1, "stalled no such order"),
        (r#"{"error": {"cause": "no such order", "fatal": true}}"#, 1, "failed no such order"),
        (r#"{"error": {"cause": "bad row", "reason": "data"}}"#, 2, "stalled (data) bad row"),
        (r#"{"error": {"cause": "bad row"}}"#, 65, "failed (data) bad row"),
        (r#"{"error": {"cause": "recovered", "fatal": true}}"#, 0, "completed null"),
        (r#"{"error": {"cause": "busy"}}"#, 75, "deferred - -"),
        (r#"{"defer": {"for": "30s", "reason": "no licence"}}"#, 75, "deferred 30s no licence"),
        (r#"{"defer": {"for": 90}}"#, 75, "deferred 1m 30s -"),
        (r#"{"defer": {"for": "soon"}}"#, 75, "deferred - -"),
        (r#"{"defer": {"for": "30s"}}"#, 1, "stalled exit status 1"),
    ];
    for (report, status, expected) in cases {
        let script = format!("echo '{report}' >> \"$UNSTUCK_REPORT\"; exit {status}");
        assert_eq!(line(&run(shell(&script))), expected, "{report}, exit {status}");
    }
}

#[test]
fn an_error_has_the_tail_of_stderr_and_what_was_wrong_with_the_report_as_its_context() {
    let script = "seq 1 5000 >&2; echo broken >> \"$UNSTUCK_REPORT\"; exit 9";
    let word = run(shell(script));
    assert_eq!(line(&word), "stalled 5000");
    let context = context(&word);
    assert!(context.contains("\n4999\n5000\nignored in the report, line 1: `broken`: expected"), "{context}");
    assert!(!context.contains("\n1000\n") && context.len() < 9_000, "{context}");
    let ExecutorReport::Report(_, Report::Fail { error, .. }) = word else { panic!("no error") };
    assert_eq!(error.details.value(), json!({ "exitStatus": 9 }));
}

#[test]
fn progress_is_passed_on_while_the_process_runs() {
    let ear = Ear::new();
    let mut executor = ProcessExecutor::new(1);
    // It goes on only once its progress was heard: that removes the file which it waits for.
    let folder = Folder::new("progress");
    folder.file("gate", "", 0o600);
    let script = "echo '{\"progress\": 1}' >> \"$UNSTUCK_REPORT\"
        while [ -e gate ]; do sleep 0.01; done
        echo '{\"progress\": {\"rows\": 2}}' >> \"$UNSTUCK_REPORT\"";
    let kind = Kind::Process(ProcessCommand::Shell(script.to_owned()));
    executor.execute(job_of(&flow(kind, Limits::default(), &folder.0), 1, "null"), &ear.answers);
    assert_eq!(ear.progress().as_deref(), Some("1"));
    fs::remove_file(folder.0.join("gate")).expect("removed");
    assert_eq!(ear.progress().as_deref(), Some("{\"rows\": 2}"));
    assert_eq!(line(&ear.word()), "completed null");
}

#[test]
fn a_short_lease_makes_the_report_be_read_more_often() {
    // Sixteen heartbeats in 0.8 s: with a look every 200 ms they would melt into five at most.
    let limits = Limits { heartbeat_timeout: Some(Millis(30)), ..Limits::default() };
    let script =
        "for i in $(seq 16); do echo '{\"heartbeat\": true}' >> \"$UNSTUCK_REPORT\"; sleep 0.05; done";
    let kind = Kind::Process(ProcessCommand::Shell(script.to_owned()));
    let job = job_of(&flow(kind, limits, Path::new("")), 1, "null");
    let (heartbeats, last) = outcome(&mut ProcessExecutor::new(1), job);
    assert_eq!(line(&last), "completed null");
    assert!((8..=16).contains(&heartbeats.len()), "{heartbeats:?}");
    assert!(heartbeats.iter().all(Option::is_none));
}

#[test]
fn the_product_comes_on_stdin() {
    let job = argv(&["cat"], r#"{"a": [1]}"#);
    let token = job.token().expect("a token");
    let product = output(&run(job));
    assert_eq!(product["input"], json!({ "a": [1] }));
    assert_eq!(product["step"], "work");
    assert_eq!(product["attempt"], 1);
    assert_eq!(product["token"], token);
}

#[test]
fn the_environment_names_the_attempt_and_its_input() {
    let script = r#"
        for name in UNSTUCK_RUN UNSTUCK_STEP UNSTUCK_ATTEMPT UNSTUCK_TOKEN UNSTUCK_INPUT INPUT_ORDER_ID INPUT_ON; do
            eval "echo \"$name=\${$name-unset}\""
        done
        test -f "$UNSTUCK_REPORT" && test -w "$UNSTUCK_REPORT" && echo report
        test -n "$PATH" && echo inherited"#;
    let kind = Kind::Process(ProcessCommand::Shell(script.to_owned()));
    let flow = flow(kind, Limits::default(), Path::new(""));
    let small = r#"{"order-id": "A 1", "on": true}"#;
    let expected = "UNSTUCK_RUN=run_0000000000007\nUNSTUCK_STEP=work[2]\nUNSTUCK_ATTEMPT=1\n\
        UNSTUCK_TOKEN=mine\nUNSTUCK_INPUT={\"order-id\": \"A 1\", \"on\": true}\n\
        INPUT_ORDER_ID=A 1\nINPUT_ON=true\nreport\ninherited";
    let mut job = job_of(&flow, 7, small);
    job.attempt.unit.item = Some(2);
    let expected = expected.replace("mine", &job.token().expect("a token"));
    assert_eq!(output(&run(job)), expected);
    let large = format!(r#"{{"order-id": 1, "text": "{}"}}"#, "x".repeat(64 * 1024));
    let text = output(&run(job_of(&flow, 7, &large)));
    let text = text.as_str().expect("text");
    assert!(text.contains("UNSTUCK_INPUT=unset\nINPUT_ORDER_ID=1\nINPUT_ON=unset\n"), "{text}");
}

#[test]
fn arguments_are_passed_as_they_are() {
    let word = run(argv(&["printf", "%s|", "a b", "$HOME", "*", "'", ""], "null"));
    assert_eq!(output(&word), "a b|$HOME|*|'||");
}

#[test]
fn relative_paths_start_at_the_folder_of_the_flow() {
    let folder = Folder::new("relative");
    folder.file("here.sh", "#!/bin/sh\npwd\n", 0o700);
    let kind = Kind::Process(ProcessCommand::Argv(vec!["./here.sh".to_owned()]));
    let job = job_of(&flow(kind, Limits::default(), &folder.0), 1, "null");
    assert_eq!(output(&run(job)), folder.0.to_string_lossy().as_ref());
}

#[test]
fn what_cannot_be_started_fails_with_a_sentence() {
    let folder = Folder::new("cannot-start");
    folder.file("plain", "echo hello\n", 0o600);
    folder.file("no-program", "\u{1}\u{2}", 0o700);
    folder.file("no-interpreter", "#!/nowhere/at/all\n", 0o700);
    let gone = folder.0.join("gone");
    let at = folder.0.display();
    let cases: [(&[&str], &Path, String); 8] = [
        (
            &["no-such-program"],
            &folder.0,
            format!("cannot start `no-such-program` in `{at}`: it is not in PATH"),
        ),
        (&["./nothing"], &folder.0, format!("cannot start `./nothing` in `{at}`: there is no such program")),
        (
            &["./no-interpreter"],
            &folder.0,
            format!("cannot start `./no-interpreter` in `{at}`: there is no such"),
        ),
        (
            &["./plain"],
            &folder.0,
            format!("cannot start `./plain` in `{at}`: it is not executable; `chmod +x`"),
        ),
        (&["./no-program"], &folder.0, format!("cannot start `./no-program` in `{at}`: it is not a program")),
        (&["true"], &gone, format!("cannot start `true` in `{at}/gone`: there is no such folder")),
        (
            &["echo", "a\0b"],
            Path::new(""),
            "cannot start `echo` in the engine's own folder: nul byte".to_owned(),
        ),
        (&[], Path::new(""), "the step's `run` names no program".to_owned()),
    ];
    for (argv, directory, expected) in cases {
        let kind = Kind::Process(ProcessCommand::Argv(argv.iter().map(|part| (*part).to_owned()).collect()));
        let found = line(&run(job_of(&flow(kind, Limits::default(), directory), 1, "null")));
        assert!(found.starts_with(&format!("failed {expected}")), "{argv:?}: {found}");
    }
}

#[test]
fn full_pipes_never_block_anybody() {
    let large = format!("\"{}\"", "x".repeat(1024 * 1024));
    let cases = [
        // More than a pipe holds on both outputs, before any input is read.
        ("yes error | head -c 3000000 >&2; yes | head -c 3000000; cat > /dev/null", &*large, 2_999_999),
        // Input that nobody reads.
        ("echo ready", &large, 5),
        ("exec < /dev/null; echo ready", &large, 5),
        ("exec > /dev/null 2>&1; sleep 0.1; echo unheard", "null", 0),
    ];
    for (script, input, length) in cases {
        let word = run(job(Kind::Process(ProcessCommand::Shell(script.to_owned())), input));
        assert_eq!(output(&word).as_str().unwrap_or_default().len(), length, "{script}");
    }
    let product = output(&run(argv(&["cat"], &large)));
    assert_eq!(product["input"].as_str().map(str::len), Some(1024 * 1024));
}

#[test]
fn text_that_is_not_utf_8_is_kept_as_far_as_it_is() {
    assert_eq!(output(&run(shell("printf 'caf\\351\\n'"))), "caf\u{fffd}");
    assert_eq!(line(&run(shell("printf 'caf\\351\\n' >&2; exit 1"))), "stalled caf\u{fffd}");
    assert_eq!(output(&run(shell("printf '\\377\\n{\"a\":1}\\n'"))), json!({ "a": 1 }));
}

#[test]
fn a_hundred_processes_at_once() {
    let ear = Ear::new();
    let mut executor = ProcessExecutor::new(100);
    let folder = Folder::new("hundred");
    // Each waits for the gate, so that all of them run at the same time.
    folder.file("gate", "", 0o600);
    let script = "while [ -e gate ]; do sleep 0.2; done; echo $UNSTUCK_RUN";
    let flow = flow(Kind::Process(ProcessCommand::Shell(script.to_owned())), Limits::default(), &folder.0);
    for run in 0..100 {
        executor.execute(job_of(&flow, run, "null"), &ear.answers);
    }
    let patience = Instant::now() + LONG;
    while executor.running().len() < 100 {
        assert!(ear.is_silent() && Instant::now() < patience, "only {} run", executor.running().len());
        std::thread::yield_now();
    }
    fs::remove_file(folder.0.join("gate")).expect("removed");
    for _ in 0..100 {
        let word = ear.last();
        let attempt = word.ended_attempt().expect("a last word");
        assert_eq!(output(&word), attempt.run.to_string());
    }
    assert!(executor.running().is_empty());
}
