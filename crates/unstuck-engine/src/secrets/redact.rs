//! Keeps secrets out of texts, values, streams and reports: what echoes one has `***` in its place.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::error::Error;
use unstuck_core::model::log::{AttemptLog, IgnoredLine, Tail};

/// What stands in the place of a secret.
const MARK: &str = "***";
/// Shorter values are left: they are found everywhere, and replacing them would tell more than it hides.
const MIN_BYTES: usize = 4;

/// Finds secrets, as they are and as JSON and urls write them.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first, so that a secret that is part of another does not leave the rest of it.
    patterns: Arc<Vec<String>>,
}

impl Redactor {
    /// Finds these values.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a str>) -> Redactor {
        let mut redactor = Redactor::default();
        for value in values {
            redactor.add(value);
        }
        redactor
    }

    /// Finds one more value.
    pub fn add(&mut self, value: &str) {
        if value.len() < MIN_BYTES {
            return;
        }
        let json = Value::from(value).to_string();
        let json = &json[1..json.len() - 1];
        let patterns = Arc::make_mut(&mut self.patterns);
        patterns.extend([value.to_owned(), json.to_owned(), percent_encode(value)]);
        patterns.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        patterns.dedup();
    }

    /// Finds what another one finds too.
    pub fn extend(&mut self, other: &Redactor) {
        if other.patterns.iter().all(|pattern| self.patterns.contains(pattern)) {
            return;
        }
        let patterns = Arc::make_mut(&mut self.patterns);
        patterns.extend(other.patterns.iter().cloned());
        patterns.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        patterns.dedup();
    }

    /// Whether there is nothing to find.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.patterns.iter().any(|pattern| text.contains(pattern.as_str())) {
            return Cow::Borrowed(text);
        }
        match self.bytes(text.as_bytes()) {
            // Secrets are texts, so that what is left between them is text as well.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
            Cow::Borrowed(_) => Cow::Borrowed(text),
        }
    }

    /// The bytes without secrets.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut stream = self.stream();
        let mut kept = stream.pass(bytes).into_owned();
        kept.extend(stream.finish());
        Cow::Owned(kept)
    }

    /// A stream that comes in pieces.
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor { redactor: self.clone(), pending: Vec::new() }
    }

    /// The value without secrets, however its text writes them.
    pub fn json(&self, json: Json) -> Json {
        if self.is_empty() {
            return json;
        }
        let mut found = false;
        let value = self.value(json.value(), &mut found);
        if found { Json::of(&value) } else { json }
    }

    fn value(&self, value: Value, found: &mut bool) -> Value {
        match value {
            Value::String(text) => Value::String(self.owned(text, found)),
            Value::Number(number) => match self.text(&number.to_string()) {
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(redacted) => {
                    *found = true;
                    Value::String(redacted)
                }
            },
            Value::Array(items) => items.into_iter().map(|item| self.value(item, found)).collect(),
            Value::Object(entries) => entries
                .into_iter()
                .map(|(key, value)| (self.owned(key, found), self.value(value, found)))
                .collect(),
            Value::Null | Value::Bool(_) => value,
        }
    }

    fn owned(&self, text: String, found: &mut bool) -> String {
        match self.text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(redacted) => {
                *found = true;
                redacted
            }
        }
    }

    fn shared(&self, text: &Arc<str>) -> Arc<str> {
        match self.text(text) {
            Cow::Borrowed(_) => Arc::clone(text),
            Cow::Owned(redacted) => redacted.into(),
        }
    }

    /// The report without secrets.
    pub fn report(&self, report: Report) -> Report {
        if self.is_empty() {
            return report;
        }
        match report {
            Report::Heartbeat { progress } => {
                Report::Heartbeat { progress: progress.map(|progress| self.json(progress)) }
            }
            Report::Complete { output } => Report::Complete { output: self.json(output) },
            Report::Fail { error, fatal } => Report::Fail { error: Box::new(self.error(*error)), fatal },
            Report::Defer { asked, lacking } => {
                Report::Defer { asked, lacking: lacking.as_ref().map(|lacking| self.shared(lacking)) }
            }
            Report::Log(log) => Report::Log(Box::new(self.log(*log))),
            Report::Start | Report::Release => report,
        }
    }

    fn error(&self, error: Error) -> Error {
        let Error { cause, context, reason, details, found_by } = error;
        Error {
            cause: self.shared(&cause),
            context: context.as_ref().map(|context| self.shared(context)),
            reason,
            details: self.json(details),
            found_by,
        }
    }

    fn log(&self, log: AttemptLog) -> AttemptLog {
        let AttemptLog { stderr, stdout, ignored, more_ignored } = log;
        let tail = |tail: Tail| Tail { text: self.shared(&tail.text), ..tail };
        let line = |line: IgnoredLine| IgnoredLine {
            text: self.shared(&line.text),
            why: self.shared(&line.why),
            ..line
        };
        AttemptLog {
            stderr: tail(stderr),
            stdout: tail(stdout),
            ignored: ignored.into_iter().map(line).collect(),
            more_ignored,
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("patterns", &self.patterns.len()).finish()
    }
}

/// Keeps secrets out of a stream, wherever its pieces are cut: what may be the beginning of one is held back.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    pending: Vec<u8>,
}

impl StreamRedactor {
    /// Takes a piece in, and gives what can go on.
    pub fn pass<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        if self.redactor.is_empty() {
            return Cow::Borrowed(piece);
        }
        self.pending.extend_from_slice(piece);
        Cow::Owned(self.take(false))
    }

    /// The stream has ended: gives what was held back.
    pub fn finish(&mut self) -> Vec<u8> {
        self.take(true)
    }

    fn take(&mut self, is_end: bool) -> Vec<u8> {
        let pending = std::mem::take(&mut self.pending);
        let mut kept = Vec::with_capacity(pending.len());
        let mut at = 0;
        while at < pending.len() {
            let rest = &pending[at..];
            let patterns =
                || self.redactor.patterns.iter().map(String::as_bytes).filter(|it| it[0] == rest[0]);
            if !is_end && patterns().any(|pattern| pattern.len() > rest.len() && pattern.starts_with(rest)) {
                break;
            }
            if let Some(pattern) = patterns().find(|pattern| rest.starts_with(pattern)) {
                kept.extend_from_slice(MARK.as_bytes());
                at += pattern.len();
            } else {
                kept.push(rest[0]);
                at += 1;
            }
        }
        self.pending = pending[at..].to_vec();
        kept
    }
}

/// Writes a text as a part of a url: all but letters, digits and `-._~` in hexadecimal.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_as_they_are_and_as_json_and_urls_write_them() {
        let redactor = Redactor::of(["s3cret", "s3cret/and \"more\"", "abc", "12345"]);
        let cases = [
            ("", ""),
            ("nothing to see", "nothing to see"),
            ("a s3cret b", "a *** b"),
            ("s3crets3cret", "******"),
            ("s3cret/and \"more\"!", "***!"),
            (r#"{"a": "s3cret/and \"more\""}"#, r#"{"a": "***"}"#),
            ("?k=s3cret%2Fand%20%22more%22&b", "?k=***&b"),
            ("s3cre abc", "s3cre abc"),
            ("äs3cretü", "ä***ü"),
        ];
        for (text, expected) in cases {
            assert_eq!(redactor.text(text), expected, "{text}");
        }
        let json = Json::parse(r#"{"s3cret": ["\u00733cret", 12345, 1, null], "b": "x"}"#).expect("JSON");
        assert_eq!(redactor.json(json).text(), r#"{"***":["***","***",1,null],"b":"x"}"#);
        let untouched = Json::parse(r#"{ "b":  1.50 }"#).expect("JSON");
        assert_eq!(redactor.json(untouched).text(), r#"{ "b":  1.50 }"#);
    }

    #[test]
    fn a_stream_may_be_cut_anywhere() {
        let redactor = Redactor::of(["s3cret", "s3cret-longer", "ccc-"]);
        let text = "s3cret s3cre s3cret-longer ss3cret-longe cccc- s3cre";
        let expected = redactor.text(text).into_owned();
        assert_eq!(expected, "*** s3cre *** s***-longe c*** s3cre");
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut stream = redactor.stream();
                let mut kept = Vec::new();
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    kept.extend_from_slice(&stream.pass(piece.as_bytes()));
                }
                kept.extend(stream.finish());
                assert_eq!(String::from_utf8_lossy(&kept), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_report_has_no_secret_anywhere() {
        let redactor = Redactor::of(["s3cret"]);
        let text = || Arc::<str>::from("a s3cret");
        let json = || Json::of(&Value::from("s3cret"));
        let tail = || Tail { text: text(), bytes: 8, cut: false };
        let line = IgnoredLine { line: 1, text: text(), why: text() };
        let log = AttemptLog { stderr: tail(), stdout: tail(), ignored: vec![line], more_ignored: 0 };
        let error = Error { context: Some(text()), details: json(), ..Error::new(text()) };
        let reports = [
            Report::Heartbeat { progress: Some(json()) },
            Report::Complete { output: json() },
            Report::Fail { error: Box::new(error), fatal: true },
            Report::Defer { asked: None, lacking: Some(text()) },
            Report::Log(Box::new(log)),
        ];
        for report in reports {
            let shown = format!("{:?}", redactor.report(report.clone()));
            assert!(format!("{report:?}").contains("s3cret") && !shown.contains("s3cret"), "{shown}");
        }
    }
}
