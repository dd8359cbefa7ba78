//! Sends traces to a collector: OTLP over HTTP, in its JSON form. A collector that is slow or away costs spans, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unstuck_client::{Address, Client};
use unstuck_server::{AttributeValue, Span, SpanKind, SpanSink};

/// The port of a collector whose address names none.
const PORT: u16 = 4318;
/// Spans that wait to be sent, at most; more are dropped.
const WAITING: usize = 8_192;
/// Spans that are sent at once, at most.
const BATCH: usize = 512;
/// A span waits so long for others, at most.
const INTERVAL: Duration = Duration::from_secs(1);
/// Between two lines of the log about a collector that does not take what it is sent.
const BETWEEN_WARNINGS: Duration = Duration::from_mins(1);

/// Sends spans from a thread of its own. When it is dropped, what waits is sent first.
pub(crate) struct TraceExporter {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// Spans on their way to the thread that sends them.
struct Queue {
    sender: SyncSender<Message>,
    dropped: AtomicU64,
    /// Whether nothing more comes: then a collector that takes nothing is waited for once.
    is_ending: AtomicBool,
}

enum Message {
    Span(Box<Span>),
    /// Wakes the thread at the end.
    End,
}

impl SpanSink for Queue {
    fn record(&self, span: Span) {
        if self.sender.try_send(Message::Span(Box::new(span))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl TraceExporter {
    /// Starts to send to a collector, in the name of a server.
    pub(crate) fn start(endpoint: &str, name: &str) -> Result<TraceExporter, String> {
        let address: Address = with_port(endpoint).parse().map_err(|_| {
            format!("`{endpoint}` is not the address of a collector; write it as `http://127.0.0.1:{PORT}`")
        })?;
        let (sender, receiver) = sync_channel(WAITING);
        let queue = Arc::new(Queue { sender, dropped: AtomicU64::new(0), is_ending: AtomicBool::new(false) });
        let mut worker = Worker {
            client: Client::new(address, name),
            name: name.to_owned(),
            queue: queue.clone(),
            warned: None,
        };
        let thread = thread::Builder::new().name("unstuck-traces".to_owned());
        let thread = thread.spawn(move || worker.send_all(&receiver));
        let thread = thread.map_err(|error| format!("its thread cannot be started: {error}"))?;
        Ok(TraceExporter { queue, thread: Some(thread) })
    }

    /// Returns what takes spans.
    pub(crate) fn sink(&self) -> Arc<dyn SpanSink> {
        self.queue.clone()
    }
}

impl Drop for TraceExporter {
    fn drop(&mut self) {
        self.queue.is_ending.store(true, Ordering::Release);
        // Where there is no room for it, the thread has enough to wake it.
        let _ = self.queue.sender.try_send(Message::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Adds the port of collectors to an address that names none.
fn with_port(endpoint: &str) -> String {
    let endpoint = endpoint.strip_suffix('/').unwrap_or(endpoint);
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let after_brackets = host.rsplit(']').next().unwrap_or(host);
    if after_brackets.contains(':') { endpoint.to_owned() } else { format!("{endpoint}:{PORT}") }
}

/// What the thread has.
struct Worker {
    client: Client,
    name: String,
    queue: Arc<Queue>,
    /// When it was last told that the collector takes nothing.
    warned: Option<Instant>,
}

impl Worker {
    fn send_all(&mut self, receiver: &Receiver<Message>) {
        loop {
            let (batch, is_last) = self.collect(receiver);
            let is_taken = batch.is_empty() || self.send(&batch);
            if is_last || (!is_taken && self.queue.is_ending.load(Ordering::Acquire)) {
                return;
            }
        }
    }

    /// Waits for spans, and for more of them for a moment. Returns also whether they were the last.
    fn collect(&self, receiver: &Receiver<Message>) -> (Vec<Span>, bool) {
        let mut batch = Vec::new();
        let mut end = None;
        while batch.len() < BATCH {
            let is_ending = self.queue.is_ending.load(Ordering::Acquire);
            let wait = if is_ending { Duration::ZERO } else { INTERVAL };
            let wait =
                end.map_or(wait, |end: Instant| wait.min(end.saturating_duration_since(Instant::now())));
            match receiver.recv_timeout(wait) {
                Ok(Message::Span(span)) => {
                    end.get_or_insert_with(|| Instant::now() + INTERVAL);
                    batch.push(*span);
                }
                Ok(Message::End) => {}
                Err(RecvTimeoutError::Timeout) => return (batch, is_ending),
                Err(RecvTimeoutError::Disconnected) => return (batch, true),
            }
        }
        (batch, false)
    }

    /// Sends spans, and returns whether they were taken.
    fn send(&mut self, batch: &[Span]) -> bool {
        let document = build_document(&self.name, batch);
        let why = match self.client.post_document(&["v1", "traces"], &document) {
            Ok(200..=299) => return true,
            Ok(status) => format!("it answered with {status}"),
            Err(error) => error.sentence(),
        };
        if self.warned.is_none_or(|at| at.elapsed() >= BETWEEN_WARNINGS) {
            self.warned = Some(Instant::now());
            let dropped = self.queue.dropped.load(Ordering::Relaxed);
            tracing::warn!(%why, lost = batch.len(), dropped, "the collector of traces does not take them");
        }
        false
    }
}

/// Builds an `ExportTraceServiceRequest`.
fn build_document(name: &str, spans: &[Span]) -> Value {
    let resource = [
        ("service.name", AttributeValue::Text("unstuck".to_owned())),
        ("service.instance.id", AttributeValue::Text(name.to_owned())),
        ("service.version", AttributeValue::Text(env!("CARGO_PKG_VERSION").to_owned())),
    ];
    let spans: Vec<Value> = spans.iter().map(build_span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": build_attributes(&resource)},
        "scopeSpans": [{"scope": {"name": "unstuck", "version": env!("CARGO_PKG_VERSION")}, "spans": spans}],
    }]})
}

fn build_span(span: &Span) -> Value {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
    };
    let mut document = json!({
        "traceId": span.trace.to_string(),
        "spanId": span.id.to_string(),
        "name": span.name,
        "kind": kind,
        // Numbers of 64 bits are texts in this form.
        "startTimeUnixNano": span.begun.as_nanosecond().to_string(),
        "endTimeUnixNano": span.ended.as_nanosecond().to_string(),
        "attributes": build_attributes(&span.attributes),
    });
    if let Some(parent) = span.parent {
        document["parentSpanId"] = json!(parent.to_string());
    }
    if let Some((trace, id)) = span.link {
        document["links"] = json!([{"traceId": trace.to_string(), "spanId": id.to_string()}]);
    }
    if let Some(error) = &span.error {
        document["status"] = json!({"code": 2, "message": error});
    }
    document
}

fn build_attributes(attributes: &[(&str, AttributeValue)]) -> Value {
    let attribute = |(key, value): &(&str, AttributeValue)| match value {
        AttributeValue::Text(text) => json!({"key": key, "value": {"stringValue": text}}),
        AttributeValue::Number(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
    };
    attributes.iter().map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_has_that_of_collectors() {
        for (endpoint, wanted) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("http://collector", "http://collector:4318"),
            ("https://collector/", "https://collector:4318"),
            ("collector", "collector:4318"),
            ("http://[::1]", "http://[::1]:4318"),
            ("http://[::1]:9", "http://[::1]:9"),
        ] {
            assert_eq!(with_port(endpoint), wanted);
        }
        for wrong in ["ftp://collector", "http://a/v1/traces", "http://a:b"] {
            assert!(TraceExporter::start(wrong, "x").is_err(), "{wrong}");
        }
    }
}
