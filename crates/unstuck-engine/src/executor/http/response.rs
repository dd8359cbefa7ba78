//! What a response makes of its attempt: a pure function.

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use unstuck_core::command::Report;
use unstuck_core::decide::MAX_PAYLOAD_BYTES;
use unstuck_core::json::Json;
use unstuck_core::model::error::{Error, OUTPUT_ACTION};
use unstuck_core::model::http::{self, HttpOutcome, StatusRules};
use unstuck_core::time::Millis;

use super::base64;
use super::target::Target;
use crate::secrets::Redactor;

/// A cause is short.
const MAX_CAUSE: usize = 300;
/// So much of the beginning of a body is in the context of an error.
const MAX_CONTEXT: usize = 4 * 1024;

/// The headers that are a part of the output: what says what the body is, where something is, and how to go on. Cookies and
/// whatever else may be a credential are not.
const SHOWN_HEADERS: [&str; 16] = [
    "content-type",
    "content-language",
    "date",
    "etag",
    "last-modified",
    "expires",
    "cache-control",
    "location",
    "link",
    "retry-after",
    "x-request-id",
    "x-correlation-id",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-total-count",
];

/// A response, read to its end.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Who gave it.
    pub(super) from: Target,
}

/// The output of an attempt.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    status: u16,
    headers: BTreeMap<&'a str, &'a str>,
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// The output of a request that was not made.
pub fn empty_response() -> Json {
    Json::of(&json!({"status": 200, "headers": {}, "body": null}))
}

impl Response {
    /// What it makes of its attempt, by the rules of its step. `now` is for times at which to come back.
    pub(super) fn into_report(
        self,
        rules: &StatusRules,
        redactor: &Redactor,
        now: jiff::Timestamp,
    ) -> Report {
        let retry_after = self.retry_after(now);
        match rules.outcome(self.status, retry_after.is_some()) {
            HttpOutcome::Completed => {
                self.output().map_or_else(|| self.too_large(), |output| Report::Complete { output })
            }
            HttpOutcome::Deferred => {
                Report::Defer { asked: retry_after, lacking: Some(self.cause(redactor).into()) }
            }
            outcome @ (HttpOutcome::Stalled | HttpOutcome::Failed) => {
                Report::Fail { error: Box::new(self.error(redactor)), fatal: outcome == HttpOutcome::Failed }
            }
        }
    }

    /// The output, unless it is too large for one.
    fn output(&self) -> Option<Json> {
        let text = std::str::from_utf8(&self.body).ok();
        let as_text = |text: &str| serde_json::value::to_raw_value(text).ok();
        let body = match text {
            None | Some("") => None,
            Some(text) if self.is_json() => raw_json(text).or_else(|| as_text(text)),
            Some(text) => as_text(text),
        };
        let shown = |name: &&'static str| {
            let value = self.headers.get(*name)?.to_str().ok()?;
            Some((*name, value))
        };
        let output = Output {
            status: self.status,
            headers: SHOWN_HEADERS.iter().filter_map(shown).collect(),
            body: body.as_deref(),
            body_base64: text.is_none().then(|| base64::encode(&self.body)),
        };
        let output =
            serde_json::to_string(&output).ok().filter(|output| output.len() <= MAX_PAYLOAD_BYTES)?;
        Json::parse(&output).ok()
    }

    fn too_large(&self) -> Report {
        too_large(&self.from)
    }

    fn error(&self, redactor: &Redactor) -> Error {
        let context = String::from_utf8_lossy(&self.body);
        let context = redactor.text(&context);
        let context = shorten(context.trim(), MAX_CONTEXT);
        Error {
            cause: self.cause(redactor).into(),
            context: (!context.is_empty()).then(|| context.into()),
            reason: http::reason(self.status),
            details: Json::of(&json!({ "status": self.status })),
            found_by: None,
        }
    }

    /// `HTTP 503 from https://example.com/orders: no capacity`.
    fn cause(&self, redactor: &Redactor) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let body = redactor.text(&body);
        let first = body.lines().map(str::trim).find(|line| !line.is_empty());
        // The first line of a page says nothing.
        let said =
            first.filter(|line| !line.starts_with('<')).map_or(String::new(), |line| format!(": {line}"));
        shorten(&format!("HTTP {} from {}{said}", self.status, self.from), MAX_CAUSE)
    }

    fn is_json(&self) -> bool {
        let kind = self.header(&CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.ends_with("/json") || kind.ends_with("+json")
    }

    /// How long to wait: a number of seconds, or until a date.
    fn retry_after(&self, now: jiff::Timestamp) -> Option<Millis> {
        let value = self.header(&RETRY_AFTER)?.trim();
        if let Ok(seconds) = value.parse::<u64>() {
            return Some(Millis::seconds(seconds));
        }
        let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
        let span = at.as_millisecond().saturating_sub(now.as_millisecond());
        Some(Millis(u64::try_from(span).unwrap_or(0)))
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A response that is larger than an output may be.
pub(super) fn too_large(from: &Target) -> Report {
    let cause = format!(
        "the response from {from} is too large for an output (more than {MAX_PAYLOAD_BYTES} bytes): ask for less of it, or \
         fetch it in a `run` step and return its path"
    );
    Report::Fail { error: Box::new(Error::found_by(OUTPUT_ACTION, cause)), fatal: true }
}

/// The text of a JSON document as it is, if it is one that can be kept.
fn raw_json(text: &str) -> Option<Box<RawValue>> {
    Json::parse(text).ok().and_then(|json| RawValue::from_string(json.text().to_owned()).ok())
}

/// At most so many characters of a text, with a mark where something is missing.
fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> Response {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), value.parse().expect("the value of a header"))
        });
        let from = Target::parse("https://example.com/orders?key=s3cret").expect("a url");
        Response { status, headers: headers.collect(), body: body.to_vec(), from }
    }

    fn report(response: Response) -> Report {
        let now = "2026-11-18T02:00:00Z".parse().expect("a time");
        response.into_report(&StatusRules::default(), &Redactor::of(["s3cret"]), now)
    }

    #[test]
    fn the_output_has_the_status_some_headers_and_the_body() {
        let json = ("content-type", "application/json");
        let cases: [(Response, &str); 9] = [
            (response(204, &[], b""), r#"{"status":204,"headers":{},"body":null}"#),
            (
                response(200, &[json], br#"{"a": 1.50}"#),
                r#"{"status":200,"headers":{"content-type":"application/json"},"body":{"a": 1.50}}"#,
            ),
            (
                response(201, &[("content-type", "application/problem+json; charset=utf-8")], b"[1]"),
                r#"{"status":201,"headers":{"content-type":"application/problem+json; charset=utf-8"},"body":[1]}"#,
            ),
            (
                response(200, &[json], b"{not json"),
                r#"{"status":200,"headers":{"content-type":"application/json"},"body":"{not json"}"#,
            ),
            (
                response(200, &[json], "[".repeat(500).as_bytes()),
                &format!(
                    r#"{{"status":200,"headers":{{"content-type":"application/json"}},"body":"{}"}}"#,
                    "[".repeat(500)
                ),
            ),
            (response(200, &[], b"plain"), r#"{"status":200,"headers":{},"body":"plain"}"#),
            (response(200, &[], br#"{"a":1}"#), r#"{"status":200,"headers":{},"body":"{\"a\":1}"}"#),
            (
                response(200, &[], b"\xff\xfe\x00"),
                r#"{"status":200,"headers":{},"body":null,"bodyBase64":"//4A"}"#,
            ),
            (
                response(
                    200,
                    &[("set-cookie", "a=b"), ("location", "/x"), ("etag", "\"1\""), ("server", "x")],
                    b"",
                ),
                r#"{"status":200,"headers":{"etag":"\"1\"","location":"/x"},"body":null}"#,
            ),
        ];
        for (response, expected) in cases {
            match report(response) {
                Report::Complete { output } => assert_eq!(output.text(), expected),
                other => panic!("{other:?} instead of {expected}"),
            }
        }
        let large = "\"".repeat(MAX_PAYLOAD_BYTES / 2 + 1);
        let Report::Fail { error, fatal: true } = report(response(200, &[], large.as_bytes())) else {
            panic!("an output that is escaped can be too large");
        };
        assert_eq!(error.found_by.as_deref(), Some(OUTPUT_ACTION));
    }

    #[test]
    fn an_error_says_who_answered_what() {
        let said = |status, body: &str| match report(response(status, &[], body.as_bytes())) {
            Report::Fail { error, fatal } => {
                let outcome = if fatal { "failed" } else { "stalled" };
                format!("{outcome} {}: {}", error.reason.word(), error.cause)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(said(500, ""), "stalled processing: HTTP 500 from https://example.com/orders");
        assert_eq!(
            said(422, "\n  no such order s3cret \nmore"),
            "failed data: HTTP 422 from https://example.com/orders: no such order ***"
        );
        assert_eq!(
            said(404, "<!doctype html>"),
            "failed processing: HTTP 404 from https://example.com/orders"
        );
        assert_eq!(said(502, &"x".repeat(999)).chars().count(), "stalled processing: ".len() + MAX_CAUSE);
        let Report::Fail { error, .. } = report(response(500, &[], b"first s3cret\nsecond")) else {
            panic!("it is an error");
        };
        assert_eq!(error.context.as_deref(), Some("first ***\nsecond"));
        assert_eq!(error.details.text(), r#"{"status":500}"#);
    }

    #[test]
    fn a_server_says_when_to_come_back() {
        let asked = |status, value: Option<&str>| {
            let headers: Vec<(&'static str, &str)> =
                value.map(|value| ("retry-after", value)).into_iter().collect();
            match report(response(status, &headers, b"busy")) {
                Report::Defer { asked, lacking } => {
                    assert_eq!(
                        lacking.as_deref(),
                        Some(&*format!("HTTP {status} from https://example.com/orders: busy"))
                    );
                    Some(asked)
                }
                Report::Fail { fatal: false, .. } => None,
                other => panic!("{other:?}"),
            }
        };
        let cases = [
            (429, None, Some(None)),
            (429, Some("7"), Some(Some(Millis::seconds(7)))),
            (429, Some("soon"), Some(None)),
            (503, Some("0"), Some(Some(Millis::ZERO))),
            (503, Some("Wed, 18 Nov 2026 02:00:30 GMT"), Some(Some(Millis::seconds(30)))),
            (503, Some("Wed, 18 Nov 2026 01:00:00 GMT"), Some(Some(Millis::ZERO))),
            (503, Some("soon"), None),
            (503, None, None),
            (500, Some("7"), None),
        ];
        for (status, value, expected) in cases {
            assert_eq!(asked(status, value), expected, "{status} {value:?}");
        }
    }
}
