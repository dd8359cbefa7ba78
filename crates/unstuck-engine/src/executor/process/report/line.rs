//! The lines of a report, and what they come to.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use unstuck_core::duration::read_duration;
use unstuck_core::json::Json;
use unstuck_core::model::error::Reason;
use unstuck_core::model::log::{IgnoredLine, MAX_IGNORED_LINES};
use unstuck_core::time::Millis;

use crate::executor::process::result::shorten;

/// So much is kept of a line that is ignored.
const MAX_NOTE: usize = 200;

/// What the lines so far have come to. A later line takes the place of an earlier one.
#[derive(Debug, Default)]
pub(in crate::executor::process) struct Findings {
    /// What went wrong, in the words of the process.
    pub(in crate::executor::process) error: Option<ReportedError>,
    /// What is lacking.
    pub(in crate::executor::process) defer: Option<ReportedDefer>,
    /// The output of the step: then standard output is only a log.
    pub(in crate::executor::process) output: Option<Json>,
    /// Lines that were ignored, at most [`MAX_IGNORED_LINES`].
    pub(in crate::executor::process) ignored: Vec<IgnoredLine>,
    /// How many more of those there were.
    pub(in crate::executor::process) more_ignored: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executor::process) struct ReportedError {
    pub(in crate::executor::process) cause: String,
    pub(in crate::executor::process) context: Option<String>,
    pub(in crate::executor::process) reason: Option<Reason>,
    #[serde(default)]
    pub(in crate::executor::process) details: Json,
    #[serde(default)]
    pub(in crate::executor::process) fatal: bool,
}

#[derive(Debug, Default)]
pub(in crate::executor::process) struct ReportedDefer {
    pub(in crate::executor::process) asked: Option<Millis>,
    pub(in crate::executor::process) lacking: Option<String>,
}

/// What the watcher has to pass on of some lines: the last progress, or at least that there was life.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::executor::process) struct Heard {
    pub(in crate::executor::process) alive: bool,
    pub(in crate::executor::process) progress: Option<Json>,
}

impl Findings {
    /// Takes in the line with this number.
    pub(super) fn read(&mut self, number: u64, line: &[u8], heard: &mut Heard) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        match parse(text) {
            Ok(fields) => self.take(fields, heard),
            Err(wrong) => self.note(number, text, &wrong),
        }
    }

    /// Notes a line that is ignored.
    pub(super) fn note(&mut self, line: u64, text: &str, wrong: &str) {
        if self.ignored.len() < MAX_IGNORED_LINES {
            let (text, why) = (shorten(text, MAX_NOTE).into(), shorten(wrong, MAX_NOTE).into());
            self.ignored.push(IgnoredLine { line, text, why });
        } else {
            self.more_ignored += 1;
        }
    }

    fn take(&mut self, line: Line, heard: &mut Heard) {
        heard.alive = true;
        heard.progress = line.progress.or(heard.progress.take());
        self.error = line.error.or(self.error.take());
        self.defer = line.defer.or(self.defer.take());
        self.output = line.output.or(self.output.take());
    }
}

#[derive(Default)]
struct Line {
    progress: Option<Json>,
    error: Option<ReportedError>,
    defer: Option<ReportedDefer>,
    output: Option<Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDefer {
    #[serde(rename = "for")]
    asked: Option<Value>,
    reason: Option<String>,
}

fn parse(text: &str) -> Result<Line, String> {
    const EXPECTED: &str =
        "expected a JSON object with `progress`, `heartbeat`, `output`, `error` or `defer`";
    if !text.starts_with('{') {
        return Err(EXPECTED.to_owned());
    }
    let fields: BTreeMap<String, &RawValue> = read_json(text)?;
    let mut line = Line::default();
    for (name, value) in &fields {
        match name.as_str() {
            "progress" => line.progress = Some(read_json(value.get())?),
            "heartbeat" => {}
            "output" => line.output = Some(read_json(value.get())?),
            "error" => line.error = Some(read_json(value.get())?),
            "defer" => line.defer = Some(defer(read_json(value.get())?)?),
            _ => return Err(format!("unknown field `{name}`: {EXPECTED}")),
        }
    }
    if fields.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(line) }
}

fn defer(raw: RawDefer) -> Result<ReportedDefer, String> {
    let asked =
        raw.asked.as_ref().map(read_duration).transpose().map_err(|wrong| format!("`for`: {wrong}"))?;
    Ok(ReportedDefer { asked, lacking: raw.reason })
}

fn read_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Findings, Heard) {
        let (mut findings, mut heard) = (Findings::default(), Heard::default());
        for (number, line) in (1..).zip(lines) {
            findings.read(number, line.as_bytes(), &mut heard);
        }
        (findings, heard)
    }

    #[test]
    fn valid_lines_are_signs_of_life_and_the_last_progress_counts() {
        let cases: [(&[&str], bool, Option<&str>); 10] = [
            (&[], false, None),
            (&["", "  \r"], false, None),
            (&[r#"{"heartbeat": true}"#], true, None),
            (&[r#"{"progress": {"done": 3}}"#], true, Some(r#"{"done": 3}"#)),
            (
                &[r#"{"progress": 1}"#, r#"{"progress": "half"}"#, r#"{"heartbeat":1}"#],
                true,
                Some("\"half\""),
            ),
            (&[r#"{"error": {"cause": "x"}}"#], true, None),
            (&[r#"{"defer": {}}"#], true, None),
            (&[r#"{"progress": null}"#], true, Some("null")),
            (&["not json"], false, None),
            (&["{}", r#"{"progres": 1}"#, "[1]", "12"], false, None),
        ];
        for (lines, alive, progress) in cases {
            let (_, heard) = read(lines);
            assert_eq!(
                (heard.alive, heard.progress.as_ref().map(Json::text)),
                (alive, progress),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn an_error_has_the_fields_of_an_error() {
        let (findings, _) = read(&[
            r#"{"error": {"cause": "first"}}"#,
            r#"{"error": {"cause": "c", "context": "long", "reason": "data", "details": {"a": 1}, "fatal": true}}"#,
        ]);
        let error = findings.error.expect("an error");
        assert_eq!((error.cause.as_str(), error.context.as_deref()), ("c", Some("long")));
        assert_eq!(
            (error.reason, error.fatal, error.details.text()),
            (Some(Reason::Data), true, "{\"a\": 1}")
        );
    }

    #[test]
    fn a_deferral_has_a_time_and_a_reason() {
        let cases = [
            (r#"{"defer": {"for": "30s", "reason": "no licence"}}"#, Some(30_000), Some("no licence")),
            (r#"{"defer": {"for": "PT1M"}}"#, Some(60_000), None),
            (r#"{"defer": {"for": 1.5}}"#, Some(1_500), None),
            (r#"{"defer": {}}"#, None, None),
        ];
        for (line, asked, lacking) in cases {
            let defer = read(&[line]).0.defer.expect(line);
            assert_eq!(
                (defer.asked.map(|asked| asked.0), defer.lacking.as_deref()),
                (asked, lacking),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_ignored_is_noted_with_its_line_and_the_reason() {
        let cases = [
            ("progress: 1", "expected a JSON object"),
            ("{}", "expected a JSON object"),
            (r#"{"progess": 1}"#, "unknown field `progess`"),
            (r#"{"error": {"context": "x"}}"#, "missing field `cause`"),
            (r#"{"error": {"cause": "x", "reason": "weather"}}"#, "unknown variant `weather`"),
            (r#"{"defer": {"for": "soon"}}"#, "`for`: `soon`"),
        ];
        for (line, wrong) in cases {
            let ignored = read(&["", r#"{"heartbeat": true}"#, line]).0.ignored;
            assert!(ignored.len() == 1 && ignored[0].why.contains(wrong), "{line}: {ignored:?}");
            assert_eq!((ignored[0].line, &*ignored[0].text), (3, line));
        }
        let (findings, _) = read(&["x"; 12]);
        assert_eq!((findings.ignored.len(), findings.more_ignored), (5, 7));
        assert_eq!(findings.ignored[4].line, 5);
        let (findings, _) = read(&[&"x".repeat(1_000)]);
        assert_eq!(findings.ignored[0].text.chars().count(), MAX_NOTE);
    }
}
