//! How an attempt ended, from all that its process left: a pure function.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use serde_json::json;
use unstuck_core::command::Says;
use unstuck_core::json::Json;
use unstuck_core::model::error::{Error, Reason};

use super::output::{self, MAX_OUTPUT};
use super::report::{Findings, ReportedDefer, ReportedError};
use crate::executor::killed;

/// `EX_TEMPFAIL` of sysexits: resources are lacking, for now.
const DEFERRED: i32 = 75;
/// `EX_DATAERR` of sysexits: the input is at fault.
const DATA: i32 = 65;
/// A cause is short.
const MAX_CAUSE: usize = 200;

/// What a process left.
pub(super) struct Left {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// The tail of its standard error.
    pub(super) stderr: String,
    pub(super) findings: Findings,
}

/// The last word of an attempt that was not interrupted.
pub(super) fn verdict(left: Left) -> Says {
    match left.status.code() {
        Some(0) => Says::Complete { output: output::payload(&left.stdout) },
        Some(DEFERRED) => deferred(left),
        Some(DATA) => {
            let (error, _) = error(left);
            Says::Fail { error: Box::new(Error { reason: Reason::Data, ..error }), fatal: true }
        }
        Some(_) | None => {
            let (error, fatal) = error(left);
            Says::Fail { error: Box::new(error), fatal }
        }
    }
}

/// The end of an attempt whose process put out more than can be kept.
pub(super) fn too_much(stderr: &str, findings: &Findings) -> Says {
    let cause = format!(
        "its standard output is over {} MiB: write large results to a file or a store, and put out where they are",
        MAX_OUTPUT / 1024 / 1024
    );
    let context = context(stderr, findings);
    Says::Fail { error: Box::new(Error { reason: Reason::Data, context, ..Error::new(cause) }), fatal: true }
}

/// At most `max` characters of a text, with a mark where something is missing.
pub(super) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max - 1).chain(['…']).collect(),
    }
}

fn deferred(left: Left) -> Says {
    let ReportedDefer { asked, lacking } = left.findings.defer.unwrap_or_default();
    let lacking = lacking.or_else(|| last_line(&left.stderr));
    Says::Defer { asked, lacking: lacking.map(Arc::from) }
}

/// The error, and whether the process called it fatal.
fn error(left: Left) -> (Error, bool) {
    let Left { status, stdout, stderr, mut findings } = left;
    let reported = findings.error.take();
    let found = with_stdout(context(&stderr, &findings), &stdout);
    let (cause, end) = how_it_ended(status, &stderr);
    let Some(reported) = reported else {
        return (Error { context: found, details: end, ..Error::new(cause) }, false);
    };
    let ReportedError { cause: told, context, reason, details, fatal } = reported;
    let error = Error {
        cause: if status.signal().is_some() { format!("{told} ({cause})") } else { told }.into(),
        context: context.map(Arc::from).or(found),
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

/// So many bytes of the end of standard output are kept of an attempt that failed.
const STDOUT_TAIL: usize = 2 * 1024;

/// With the end of standard output, which is no output of a step that has failed.
fn with_stdout(context: Option<Arc<str>>, stdout: &[u8]) -> Option<Arc<str>> {
    let tail = &stdout[stdout.len().saturating_sub(STDOUT_TAIL)..];
    let tail = String::from_utf8_lossy(tail);
    let tail = tail.trim();
    if tail.is_empty() {
        return context;
    }
    let before = context.map_or_else(String::new, |context| format!("{context}\n"));
    Some(format!("{before}the end of its standard output:\n{tail}").into())
}

/// The tail of standard error, and the lines of the report that meant nothing.
fn context(stderr: &str, findings: &Findings) -> Option<Arc<str>> {
    let mut parts: Vec<String> = Vec::new();
    if !stderr.trim().is_empty() {
        parts.push(stderr.to_owned());
    }
    parts.extend(findings.notes.iter().map(|note| format!("ignored in the report: {note}")));
    if findings.more_notes > 0 {
        parts.push(format!("ignored in the report: {} more", findings.more_notes));
    }
    if parts.is_empty() { None } else { Some(parts.join("\n").into()) }
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
            let left = Left {
                status: ExitStatus::from_raw(raw),
                stdout: Vec::new(),
                stderr: stderr.to_owned(),
                findings: Findings::default(),
            };
            assert_eq!(&*error(left).0.cause, cause, "{stderr:?} {raw}");
        }
        let long = last_line(&"x".repeat(1_000)).expect("a line");
        assert_eq!(long.chars().count(), MAX_CAUSE);
    }
}
