//! Answers: a status, a body and headers.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use unstuck_api::ProblemType;

use crate::content_coding::ContentCoding;
use crate::problem::Problem;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml; charset=utf-8");
const METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// With less than this, headers are most of an answer.
const LEAST_COMPRESSED: usize = 1 << 10;

/// What a request is answered with.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    content: Content,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Nothing,
    /// JSON as a text.
    Json(String),
    /// A problem document as a text.
    Problem(String),
    Text(String),
    Html(String),
    Yaml(String),
    /// The text form of metrics.
    Metrics(String),
    /// Events, as they come.
    Events(Body),
    /// Any of the texts, compressed, and its type.
    Compressed(ContentCoding, HeaderValue, Vec<u8>),
}

impl Content {
    /// Returns a text and its type.
    fn text(&self) -> Option<(&str, HeaderValue)> {
        match self {
            Content::Json(text) => Some((text, JSON)),
            Content::Problem(text) => Some((text, PROBLEM)),
            Content::Text(text) => Some((text, TEXT)),
            Content::Html(text) => Some((text, HTML)),
            Content::Yaml(text) => Some((text, YAML)),
            Content::Metrics(text) => Some((text, METRICS)),
            Content::Nothing | Content::Events(_) | Content::Compressed(..) => None,
        }
    }
}

impl Answer {
    pub(crate) fn new(status: StatusCode, content: Content) -> Answer {
        Answer { status, content, headers: Vec::new() }
    }

    /// Answers 200 with JSON that is written already.
    pub(crate) fn json(json: String) -> Answer {
        Answer::new(StatusCode::OK, Content::Json(json))
    }

    /// Answers 200 with a view.
    pub(crate) fn view(view: &impl Serialize) -> Result<Answer, Problem> {
        let json = serde_json::to_string(view).map_err(|error| {
            Problem::new(ProblemType::Internal, format!("the answer cannot be written as JSON: {error}"))
        })?;
        Ok(Answer::json(json))
    }

    /// Returns the JSON of an answer that is made of another.
    pub(crate) fn json_text(&self) -> &str {
        match &self.content {
            Content::Json(text) => text,
            Content::Nothing
            | Content::Problem(_)
            | Content::Text(_)
            | Content::Html(_)
            | Content::Yaml(_)
            | Content::Metrics(_)
            | Content::Events(_)
            | Content::Compressed(..) => "null",
        }
    }

    #[must_use]
    pub(crate) fn with_status(self, status: StatusCode) -> Answer {
        Answer { status, ..self }
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Answer {
        self.headers.push((name, value));
        self
    }

    /// Adds a header whose value is made of ids and numbers; one that is no valid value is left out.
    #[must_use]
    pub(crate) fn with_text_header(self, name: HeaderName, value: &str) -> Answer {
        match HeaderValue::from_str(value) {
            Ok(value) => self.with_header(name, value),
            Err(_) => self,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns how many bytes there are to compress; none where that would gain nothing or hold up what is told as it happens.
    pub(crate) fn compressible_bytes(&self) -> Option<usize> {
        let (text, _) = self.content.text()?;
        Some(text.len()).filter(|bytes| *bytes >= LEAST_COMPRESSED)
    }

    /// Compresses a long text; anything else stays as it is.
    #[must_use]
    pub(crate) fn compress(mut self, coding: ContentCoding) -> Answer {
        if self.compressible_bytes().is_some()
            && let Some((text, kind)) = self.content.text()
            && let Ok(bytes) = coding.compress(text.as_bytes())
        {
            self.content = Content::Compressed(coding, kind, bytes);
        }
        self
    }

    pub(crate) fn into_response(mut self) -> Response {
        if self.content.text().is_some() || matches!(self.content, Content::Compressed(..)) {
            self.headers.push((header::VARY, HeaderValue::from_static("accept-encoding")));
        }
        let (kind, body) = match self.content {
            Content::Nothing => (None, Body::empty()),
            Content::Json(text) => (Some(JSON), Body::from(text)),
            Content::Problem(text) => (Some(PROBLEM), Body::from(text)),
            Content::Text(text) => (Some(TEXT), Body::from(text)),
            Content::Html(text) => (Some(HTML), Body::from(text)),
            Content::Yaml(text) => (Some(YAML), Body::from(text)),
            Content::Metrics(text) => (Some(METRICS), Body::from(text)),
            Content::Events(body) => (Some(EVENTS), body),
            Content::Compressed(coding, kind, bytes) => {
                self.headers.push((header::CONTENT_ENCODING, HeaderValue::from_static(coding.name())));
                (Some(kind), Body::from(bytes))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.extend(self.headers);
        if let Some(kind) = kind {
            headers.insert(header::CONTENT_TYPE, kind);
        }
        response
    }
}
