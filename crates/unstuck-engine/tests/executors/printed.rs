//! What local processes print: as much as they like, drained for ever, kept within bounds, whatever becomes of the attempt.

use serde_json::Value;
use unstuck_core::command::Report;
use unstuck_core::model::log::AttemptLog;
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::executor::{Executor, ExecutorReport, Job};

use super::support::{Ear, context, line, outcome, shell};

const MIB: usize = 1024 * 1024;

fn run(job: Job) -> ExecutorReport {
    outcome(&mut ProcessExecutor::new(1), job).1
}

/// Executes one job, and returns its last word as a line and what it has printed.
fn printed(job: Job) -> (String, Vec<AttemptLog>) {
    let ear = Ear::new();
    let mut executor = ProcessExecutor::new(1);
    executor.execute(job, &ear.answers);
    let last = line(&ear.last());
    (last, ear.logs.take())
}

#[test]
fn a_process_may_print_more_than_an_output_may_have() {
    let word = run(shell("head -c 16777216 /dev/zero | tr '\\0' x"));
    let ExecutorReport::Report(_, Report::Complete { output }) = word else { panic!("{}", line(&word)) };
    assert_eq!(output.value(), Value::from("x".repeat(16 * MIB)));
    let much = "yes chatter | head -c 20971520";
    let cases = [
        // Its last line is the output, as that of a short one is.
        (format!("{much}; echo '{{\"n\": 1}}'"), "completed {\"n\": 1}"),
        (format!("{much}; echo '{{\"output\": [7]}}' >> \"$UNSTUCK_REPORT\""), "completed [7]"),
        // How it ends is decided by its exit status, however much it has printed.
        (format!("{much}; echo no luck >&2; exit 1"), "stalled no luck"),
        (format!("{much}; exit 65"), "failed (data) exit status 65"),
        (format!("{much}; exit 75"), "deferred - -"),
        (format!("{much}; kill -9 $$"), "stalled killed by signal 9 (SIGKILL)"),
    ];
    for (script, expected) in cases {
        let (last, logs) = printed(shell(&script));
        assert_eq!(last, expected, "{script}");
        let stdout = &logs[0].stdout;
        assert!(stdout.cut && stdout.bytes >= 20 * MIB as u64 && stdout.text.len() > 65_000, "{script}");
        assert!(stdout.text.starts_with("chatter\nchatter\n"), "{script}");
    }
}

#[test]
fn an_output_over_the_limit_fails_once_the_process_has_ended_and_says_what_to_do() {
    let script = "echo noise >&2; yes chatter | head -c 20971520; echo end of noise >&2";
    let word = run(shell(script));
    assert_eq!(
        line(&word),
        "failed (data) stdout is too large for an output (20971520 bytes, at most 16777216): print the path of a \
         file instead, or report {\"output\": ...} in $UNSTUCK_REPORT"
    );
    let context = context(&word);
    assert!(
        context.starts_with("noise\nend of noise\nthe end of its standard output:\nchatter\n"),
        "{context}"
    );
    assert!(context.len() < 3_000, "{}", context.len());
    let ExecutorReport::Report(_, Report::Fail { error, .. }) = word else { panic!("no error") };
    assert_eq!(error.found_by.as_deref(), Some("RecordOutputAction"));
}

#[test]
fn the_output_may_come_by_report_and_stdout_is_a_log_then() {
    let cases = [
        (r#"echo '{"output": {"n": 1}}' >> "$UNSTUCK_REPORT"; echo '{"n": 2}'"#, "completed {\"n\": 1}"),
        (r#"for n in 1 2; do echo "{\"output\": $n}" >> "$UNSTUCK_REPORT"; done"#, "completed 2"),
        (r#"echo '{"output": null}' >> "$UNSTUCK_REPORT"; echo text"#, "completed null"),
        (r#"echo '{"output": 1}' >> "$UNSTUCK_REPORT"; exit 1"#, "stalled exit status 1"),
    ];
    for (script, expected) in cases {
        assert_eq!(line(&run(shell(script))), expected, "{script}");
    }
}

#[test]
fn an_error_in_the_words_of_the_process_keeps_the_tails_of_both_streams() {
    let script = r#"echo to stderr >&2; echo to stdout
        echo '{"error": {"cause": "no such order", "context": "order 7 of 9"}}' >> "$UNSTUCK_REPORT"; exit 1"#;
    let word = run(shell(script));
    assert_eq!(line(&word), "stalled no such order");
    let wanted =
        "order 7 of 9\nthe end of its standard error:\nto stderr\nthe end of its standard output:\nto stdout";
    assert_eq!(context(&word), wanted);
}

#[test]
fn every_attempt_that_prints_something_leaves_a_log() {
    let ignored = r#"printf '{"heartbeat": 1}\n\nnonsense\n' >> "$UNSTUCK_REPORT""#;
    let cases = [
        ("exit 0", "completed null", None),
        ("echo out; echo err >&2", "completed \"out\"", Some(("err", "out", 0))),
        ("echo err >&2; exit 1", "stalled err", Some(("err", "", 0))),
        ("echo err >&2; exit 75", "deferred - err", Some(("err", "", 0))),
        (ignored, "completed null", Some(("", "", 3))),
    ];
    for (script, expected, wanted) in cases {
        let (last, logs) = printed(shell(script));
        assert_eq!(last, expected, "{script}");
        let found = logs.first().map(|log| {
            let line = log.ignored.first().map_or(0, |line| line.line);
            (&*log.stderr.text, &*log.stdout.text, line)
        });
        assert_eq!((logs.len(), found), (usize::from(wanted.is_some()), wanted), "{script}");
    }
}

#[test]
fn what_was_printed_before_an_interrupt_or_a_stop_is_told() {
    for is_stopped in [false, true] {
        let ear = Ear::new();
        let mut executor = ProcessExecutor::new(1);
        let script = "echo before; echo '{\"heartbeat\": true}' >> \"$UNSTUCK_REPORT\"; sleep 1000";
        let job = shell(script);
        let attempt = job.attempt;
        executor.execute(job, &ear.answers);
        assert_eq!(line(&ear.word()), "heartbeat");
        if is_stopped {
            executor.stop();
        } else {
            executor.interrupt(attempt, "it took too long");
        }
        assert_eq!(line(&ear.word()), if is_stopped { "released" } else { "freed" });
        let logs = ear.logs.take();
        assert!(logs.len() == 1 && &*logs[0].stdout.text == "before", "{logs:?}");
    }
}
