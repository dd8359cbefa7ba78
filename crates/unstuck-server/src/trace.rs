//! Spans of requests, for whoever collects traces; those of runs and their attempts are made by `trace_runs`. Without a collector
//! there is no tracer, and nothing of this is done.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use unstuck_core::id::RunId;

use crate::answer::Answer;
use crate::route::Route;

/// The number of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The number of a span in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A request that was answered.
    Server,
    /// A run, or an attempt of a step.
    Internal,
}

/// What is said about a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    Text(String),
    Number(i64),
}

/// Something that took time and has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub begun: Timestamp,
    pub ended: Timestamp,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// A span of another trace that it has to do with.
    pub link: Option<(TraceId, SpanId)>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// Takes spans and brings them to a collector. It must not wait: whoever calls has other things to do.
pub trait SpanSink: Send + Sync {
    fn record(&self, span: Span);
}

/// Makes spans.
#[derive(Clone)]
pub(crate) struct Tracer {
    pub(crate) sink: Arc<dyn SpanSink>,
    /// Of a hundred traces that begin here, so many are recorded.
    percent: u64,
}

/// Who calls, by the header `traceparent` of W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    trace: TraceId,
    span: SpanId,
    /// Whether the caller records its part.
    is_sampled: bool,
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.trace, self.span)
    }
}

impl TraceParent {
    /// Reads the header; one that is not as the recommendation says is as good as none.
    pub(crate) fn read(headers: &HeaderMap) -> Option<TraceParent> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let is_plain = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let lengths = (version.len(), trace.len(), span.len(), flags.len());
        // Later versions may have more after that.
        let is_known = version != "ff" && (version != "00" || parts.next().is_none());
        if lengths != (2, 32, 16, 2)
            || !is_known
            || ![version, trace, span, flags].iter().all(|part| is_plain(part))
        {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(TraceParent {
            trace: TraceId(trace.to_be_bytes()),
            span: SpanId(span.to_be_bytes()),
            is_sampled: flags & 1 != 0,
        })
    }
}

/// A request that is being answered.
pub(crate) struct RequestTrace {
    trace: TraceId,
    parent: Option<SpanId>,
    begun: Timestamp,
}

impl Tracer {
    pub(crate) fn new(sink: Arc<dyn SpanSink>, percent: u64) -> Tracer {
        Tracer { sink, percent }
    }

    /// Whether a trace is recorded: the same for all of its spans.
    pub(crate) fn records(&self, trace: TraceId) -> bool {
        let [.., a, b] = trace.0;
        u64::from(u16::from_be_bytes([a, b])) * 100 < self.percent * 65_536
    }

    /// Begins the span of a request, if it is recorded: as its caller has decided, or else as it comes.
    pub(crate) fn begin_request(&self, headers: &HeaderMap) -> Option<RequestTrace> {
        let begun = Timestamp::now();
        if let Some(caller) = TraceParent::read(headers) {
            let parent = Some(caller.span);
            return caller.is_sampled.then_some(RequestTrace { trace: caller.trace, parent, begun });
        }
        let trace = TraceId(((u128::from(draw()) << 64) | u128::from(draw())).to_be_bytes());
        self.records(trace).then_some(RequestTrace { trace, parent: None, begun })
    }

    /// Records the span of a request that is answered.
    pub(crate) fn end_request(
        &self,
        request: &RequestTrace,
        route: &Route,
        answer: &Answer,
        id: &str,
        took: Duration,
    ) {
        let status = answer.status();
        let text = |text: &str| AttributeValue::Text(text.to_owned());
        let attributes = vec![
            ("http.request.method", text(route.verb.word())),
            ("http.route", text(route.path)),
            ("http.response.status_code", AttributeValue::Number(status.as_u16().into())),
            ("unstuck.request_id", text(id)),
        ];
        let is_start = route.operation == "startRun" && status.is_success();
        self.sink.record(Span {
            trace: request.trace,
            id: SpanId(draw().to_be_bytes()),
            parent: request.parent,
            name: format!("{} {}", route.verb.word(), route.path),
            kind: SpanKind::Server,
            begun: request.begun,
            ended: request.begun + took,
            attributes,
            link: is_start.then(|| started_run(answer)).flatten(),
            error: status.is_server_error().then(|| status.to_string()),
        });
    }
}

/// Returns the span of the run that was started, in its own trace: it goes on long after the request.
fn started_run(answer: &Answer) -> Option<(TraceId, SpanId)> {
    #[derive(Deserialize)]
    struct Started<'a> {
        run: &'a str,
    }
    let Started { run } = serde_json::from_str(answer.json_text()).ok()?;
    let run: RunId = run.parse().ok()?;
    Some((trace_of_run(run), span_of_run(run, 1)))
}

/// The trace of a root run and all below it. It follows from the run, so that every server knows it and nothing is stored.
pub(crate) fn trace_of_run(root: RunId) -> TraceId {
    let digest = Sha256::digest(format!("trace {root}"));
    TraceId(std::array::from_fn(|place| digest[place]))
}

/// The span of a generation of a run.
pub(crate) fn span_of_run(run: RunId, generation: u32) -> SpanId {
    digest_span(&format!("run {run} {generation}"))
}

pub(crate) fn digest_span(text: &str) -> SpanId {
    let digest = Sha256::digest(text);
    SpanId(std::array::from_fn(|place| digest[place]))
}

/// A number that nobody has had before, most likely.
fn draw() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_caller_is_read_from_its_header_or_ignored() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for (text, wanted) in [
            (good.to_owned(), Some(true)),
            (good.replace("-01", "-00"), Some(false)),
            (good.replace("-01", "-03"), Some(true)),
            (good.replacen("00", "cc", 1) + "-more", Some(true)),
            (good.to_owned() + "-more", None),
            (good.replacen("00", "ff", 1), None),
            (good.to_uppercase(), None),
            (good.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)), None),
            (good.replace("00f067aa0ba902b7", &"0".repeat(16)), None),
            (good.replace("4bf9", "4bf"), None),
            (good.replace("4bf9", "+bf9"), None),
            (String::new(), None),
            ("nonsense".to_owned(), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", HeaderValue::from_str(&text).expect("it is a text"));
            let read = TraceParent::read(&headers);
            assert_eq!(read.map(|caller| caller.is_sampled), wanted, "{text}");
        }
    }

    #[test]
    fn of_many_traces_a_share_is_recorded() {
        struct Nowhere;
        impl SpanSink for Nowhere {
            fn record(&self, _: Span) {}
        }
        for percent in [0, 1, 50, 100] {
            let tracer = Tracer::new(Arc::new(Nowhere), percent);
            let recorded = (0..10_000).filter(|run| tracer.records(trace_of_run(RunId(*run)))).count() as u64;
            assert!(recorded.abs_diff(percent * 100) < 200, "{percent}: {recorded}");
            assert!(percent != 0 || recorded == 0);
            assert!(percent != 100 || recorded == 10_000);
        }
    }
}
