//! How an attempt ended, from all that its process left: a pure function.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use serde_json::json;
use unstuck_core::command::Report;
use unstuck_core::decide::MAX_PAYLOAD_BYTES;
use unstuck_core::json::Json;
use unstuck_core::model::error::{Error, OUTPUT_ACTION, Reason};
use unstuck_core::model::log::{AttemptLog, IgnoredLine};

use super::output::{Stderr, Stdout};
use super::report::{Findings, ReportedDefer, ReportedError};
use crate::executor::killed;

/// `EX_TEMPFAIL` of sysexits: resources are lacking, for now.
const DEFERRED: i32 = 75;
/// `EX_DATAERR` of sysexits: the input is at fault.
const DATA: i32 = 65;
/// A cause is short.
const MAX_CAUSE: usize = 200;
/// So many bytes of the end of standard error are in the context of an error.
const STDERR_END: usize = 8 * 1024;
/// So many bytes of the end of standard output.
const STDOUT_END: usize = 2 * 1024;

const STDERR_LABEL: &str = "the end of its standard error:";
const STDOUT_LABEL: &str = "the end of its standard output:";
const IGNORED_LABEL: &str = "ignored in the report";

/// What a process left.
pub(super) struct ProcessResult {
    pub(super) status: ExitStatus,
    pub(super) stdout: Stdout,
    pub(super) stderr: Stderr,
    pub(super) findings: Findings,
}

/// The last word of an attempt that was not interrupted.
pub(super) fn report_of_result(left: ProcessResult) -> Report {
    match left.status.code() {
        Some(0) => report_of_success(left),
        Some(DEFERRED) => deferred(left),
        Some(DATA) => {
            let (error, _) = error(left);
            Report::Fail { error: Box::new(Error { reason: Reason::Data, ..error }), fatal: true }
        }
        Some(_) | None => {
            let (error, fatal) = error(left);
            Report::Fail { error: Box::new(error), fatal }
        }
    }
}

/// At most `max` characters of a text, with a mark where something is missing.
pub(super) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max - 1).chain(['…']).collect(),
    }
}

/// What a process that exited with 0 has come to: its output is what its report says, or else standard output. It has failed
/// where that is too large for one.
fn report_of_success(mut left: ProcessResult) -> Report {
    if let Some(output) = left.findings.output.take().or_else(|| left.stdout.output()) {
        return Report::Complete { output };
    }
    // Short, so that pages show all of it.
    let cause = format!(
        "stdout is too large for an output ({} bytes, at most {MAX_PAYLOAD_BYTES}): print the path of a file instead, or \
         report {{\"output\": ...}} in $UNSTUCK_REPORT",
        left.stdout.total()
    );
    let context = context(&left, None);
    Report::Fail { error: Box::new(Error { context, ..Error::found_by(OUTPUT_ACTION, cause) }), fatal: true }
}

fn deferred(left: ProcessResult) -> Report {
    let ReportedDefer { asked, lacking } = left.findings.defer.unwrap_or_default();
    let lacking = lacking.or_else(|| last_line(&left.stderr.end(STDERR_END)));
    Report::Defer { asked, lacking: lacking.map(Arc::from) }
}

/// The error, and whether the process called it fatal.
fn error(mut left: ProcessResult) -> (Error, bool) {
    let reported = left.findings.error.take();
    let own = reported.as_ref().and_then(|reported| reported.context.as_deref());
    let context = context(&left, own);
    let status = left.status;
    let (cause, end) = how_it_ended(status, &left.stderr.end(STDERR_END));
    let Some(ReportedError { cause: reported_cause, reason, details, fatal, .. }) = reported else {
        return (Error { context, details: end, ..Error::new(cause) }, false);
    };
    let error = Error {
        cause: if status.signal().is_some() { format!("{reported_cause} ({cause})") } else { reported_cause }
            .into(),
        context,
        reason: reason.unwrap_or_default(),
        details: if details.is_null() { end } else { details },
        found_by: None,
    };
    (error, fatal)
}

/// The cause of an error that was not reported, and its details. What a process says before it exits is why it does; what it
/// said before a signal ended it may be about anything, so that the signal alone is the cause.
fn how_it_ended(status: ExitStatus, stderr: &str) -> (String, Json) {
    match (status.code(), status.signal()) {
        (Some(code), _) => {
            let cause = last_line(stderr).unwrap_or_else(|| format!("exit status {code}"));
            (cause, Json::of(&json!({ "exitStatus": code })))
        }
        (None, Some(signal)) => (killed::cause(signal), killed::details(signal)),
        (None, None) => (status.to_string(), Json::NULL),
    }
}

fn last_line(stderr: &str) -> Option<String> {
    let line = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(shorten(line, MAX_CAUSE))
}

/// What the process says itself, the ends of both of its streams, and the lines of its report that were ignored.
fn context(left: &ProcessResult, own: Option<&str>) -> Option<Arc<str>> {
    let mut parts: Vec<String> = own.map(str::to_owned).into_iter().collect();
    let stderr = left.stderr.end(STDERR_END);
    if !stderr.trim().is_empty() {
        parts.extend(own.map(|_| STDERR_LABEL.to_owned()));
        parts.push(stderr);
    }
    for IgnoredLine { line, text, why } in &left.findings.ignored {
        parts.push(format!("{IGNORED_LABEL}, line {line}: `{text}`: {why}"));
    }
    if left.findings.more_ignored > 0 {
        parts.push(format!("{IGNORED_LABEL}: {} more", left.findings.more_ignored));
    }
    let stdout = left.stdout.end(STDOUT_END);
    if !stdout.is_empty() {
        parts.push(format!("{STDOUT_LABEL}\n{stdout}"));
    }
    if parts.is_empty() { None } else { Some(parts.join("\n").into()) }
}

/// What of the context of an error its log does not have: what the process has told by itself.
pub fn own_context<'a>(context: &'a str, log: &AttemptLog) -> Option<&'a str> {
    let labels = [STDERR_LABEL, STDOUT_LABEL, IGNORED_LABEL];
    let begins = |label: &str| {
        if context.starts_with(label) { Some(0) } else { context.find(&format!("\n{label}")) }
    };
    let end = labels.into_iter().filter_map(begins).min().unwrap_or(context.len());
    let own = context[..end].trim_end();
    (!own.is_empty() && !log.stderr.text.ends_with(own)).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_by_characters() {
        assert_eq!(shorten("", 3), "");
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }

    #[test]
    fn what_the_process_told_by_itself_is_found_in_the_context() {
        let cases = [
            ("", "", None),
            ("boom\nbang", "before\nboom\nbang", None),
            ("order 7\nthe end of its standard error:\nboom", "boom", Some("order 7")),
            ("order 7", "", Some("order 7")),
            ("the end of its standard output:\nout", "", None),
            ("ignored in the report, line 1: `x`: no", "", None),
            ("boom\nignored in the report: 3 more\nthe end of its standard output:\nout", "boom", None),
        ];
        for (context, stderr, own) in cases {
            let mut kept = Stderr::new();
            kept.add(stderr.as_bytes());
            let log = AttemptLog { stderr: kept.tail(), ..AttemptLog::default() };
            assert_eq!(own_context(context, &log), own, "{context}");
        }
    }

    #[test]
    fn the_cause_is_the_signal_or_the_last_line_that_says_something() {
        let cases = [
            ("", 0x0300, "exit status 3"),
            (" \n\n", 0x0300, "exit status 3"),
            ("first\n  second \n\n", 0x0300, "second"),
            ("", 9, "killed by signal 9 (SIGKILL)"),
            ("", 0x86, "killed by signal 6 (SIGABRT)"),
            ("", 40, "killed by signal 40"),
            ("last words\n", 11, "killed by signal 11 (SIGSEGV)"),
        ];
        for (stderr, raw, cause) in cases {
            let mut left = ProcessResult {
                status: ExitStatus::from_raw(raw),
                stdout: Stdout::new(),
                stderr: Stderr::new(),
                findings: Findings::default(),
            };
            left.stderr.add(stderr.as_bytes());
            assert_eq!(&*error(left).0.cause, cause, "{stderr:?} {raw}");
        }
        let long = last_line(&"x".repeat(1_000)).expect("a line");
        assert_eq!(long.chars().count(), MAX_CAUSE);
    }
}
