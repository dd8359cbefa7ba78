//! Traces: what a collector receives of requests, runs and attempts, and that one which is away costs nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::{FLOWS, Server, Store, wait_until};

/// A collector of OTLP over HTTP: it keeps the spans that come.
struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("it listens"));
        let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = spans.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.expect("it is accepted"));
                let (mut head, mut length) = (Vec::new(), 0);
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).expect("it comes");
                    let line = line.trim_end().to_ascii_lowercase();
                    if line.is_empty() {
                        break;
                    }
                    if let Some(given) = line.strip_prefix("content-length: ") {
                        length = given.parse().expect("it is a number");
                    }
                    head.push(line);
                }
                assert_eq!(head[0], "post /v1/traces http/1.1");
                assert!(head.contains(&"content-type: application/json".to_owned()), "{head:?}");
                let mut body = vec![0; length];
                stream.read_exact(&mut body).expect("it comes whole");
                let export: Value = serde_json::from_slice(&body).expect("it is JSON");
                keep_spans(&export, &mut kept.lock().expect("nobody panics"));
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
                stream.get_mut().write_all(answer.as_bytes()).expect("it is taken");
            }
        });
        Collector { address, spans }
    }

    /// The spans with this name.
    fn named(&self, name: &str) -> Vec<Value> {
        let spans = self.spans.lock().expect("nobody panics");
        spans.iter().filter(|span| span["name"] == name).cloned().collect()
    }
}

/// Takes the spans out of an export, each with its attributes by name.
fn keep_spans(export: &Value, spans: &mut Vec<Value>) {
    let resource = by_name(&export["resourceSpans"][0]["resource"]["attributes"]);
    assert_eq!(resource["service.name"], "unstuck");
    let scope = &export["resourceSpans"][0]["scopeSpans"][0];
    for span in scope["spans"].as_array().expect("it is a list") {
        let mut span = span.clone();
        span["attributes"] = by_name(&span["attributes"]);
        for (name, length) in [("traceId", 32), ("spanId", 16)] {
            assert_eq!(span[name].as_str().map(str::len), Some(length), "{span}");
        }
        assert!(time(&span, "startTimeUnixNano") <= time(&span, "endTimeUnixNano"), "{span}");
        spans.push(span);
    }
}

fn by_name(attributes: &Value) -> Value {
    let attributes = attributes.as_array().expect("it is a list").iter();
    let value =
        |value: &Value| value.get("stringValue").or(value.get("intValue")).expect("it has one").clone();
    attributes.map(|pair| (pair["key"].as_str().expect("a name").to_owned(), value(&pair["value"]))).collect()
}

fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().and_then(|time| time.parse().ok()).expect("it is a number in a text")
}

fn start(collector: &str, more: &[&str]) -> Server {
    let server = Server::start_on(&Store::new(), &[&["--traces-endpoint", collector], more].concat());
    server.apply(FLOWS).with(200);
    server
}

#[test]
fn requests_runs_and_attempts_are_spans() {
    const CALLER: (&str, &str) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let collector = Collector::start();
    let server = start(&collector.address, &[]);
    let request = Request::new("POST", "/v1/runs?wait=30s")
        .header("traceparent", &format!("00-{}-{}-01", CALLER.0, CALLER.1))
        .json(&json!({"flow": "broken"}));
    let answer = server.ask(&request);
    assert_eq!(answer.header("request-id"), Some(format!("{}-{}", CALLER.0, CALLER.1).as_str()));
    let run = answer.with(201)["run"].as_str().expect("it is an id").to_owned();
    server.post(&format!("/v1/runs/{run}/resume"), &json!({})).with(200);
    server.get(&format!("/v1/runs/{run}?wait=30s&until=final")).with(200);
    wait_until("the run is told", || !collector.named("run broken").is_empty());
    // What waits is sent when the server stops.
    assert_eq!(server.get("/v1/runs/run_0000000000000").status, 404);
    server.stop();
    let started = &collector.named("POST /v1/runs")[0];
    assert_eq!((&started["traceId"], &started["parentSpanId"]), (&json!(CALLER.0), &json!(CALLER.1)));
    assert_eq!(
        (&started["kind"], &started["attributes"]["http.response.status_code"]),
        (&json!(2), &json!("201"))
    );
    let ended = &collector.named("run broken")[0];
    let link = json!([{"traceId": ended["traceId"], "spanId": ended["spanId"]}]);
    assert_eq!(started["links"], link, "the request leads to its run");
    assert_eq!((&ended["attributes"]["unstuck.state"], ended.get("status")), (&json!("completed"), None));
    let attempts = collector.named("broken fetch");
    let told: Vec<Value> = attempts
        .iter()
        .map(|span| json!([span["attributes"]["unstuck.attempt"], span["attributes"]["unstuck.outcome"]]))
        .collect();
    assert_eq!(told, [json!(["1", "stalled"]), json!(["2", "completed"])]);
    for attempt in &attempts {
        assert_eq!((&attempt["traceId"], &attempt["parentSpanId"]), (&ended["traceId"], &ended["spanId"]));
        assert_eq!(attempt["attributes"]["unstuck.run"], run.as_str());
        assert!(time(attempt, "startTimeUnixNano") >= time(ended, "startTimeUnixNano"));
    }
    assert_eq!(attempts[0]["status"]["code"], 2);
    assert_ne!(attempts[0]["spanId"], attempts[1]["spanId"]);
    let refused = collector.named("GET /v1/runs/{run}");
    let refused = refused.iter().find(|span| span["attributes"]["http.response.status_code"] == "404");
    assert!(refused.expect("it is told").get("status").is_none(), "the server did as it should");
}

#[test]
fn the_caller_and_the_share_decide_what_is_recorded() {
    let collector = Collector::start();
    let server = start(&collector.address, &["--traces-percent", "0"]);
    let flags = |flags: &str| {
        let parent = format!("00-{}-{}-{flags}", "a".repeat(32), "b".repeat(16));
        let request = Request::new("GET", "/v1/flows").header("traceparent", &parent);
        server.ask(&request).with(200);
    };
    flags("00");
    flags("01");
    server.get("/v1/flows").with(200);
    server.start_run("quick");
    server.stop();
    let spans = collector.spans.lock().expect("nobody panics");
    assert_eq!(spans.len(), 1, "{spans:?}");
    assert_eq!(spans[0]["traceId"], "a".repeat(32));
}

#[test]
fn a_collector_that_is_away_costs_nothing_but_its_spans() {
    let server = start("http://127.0.0.1:1", &[]);
    for _ in 0..50 {
        server.start_run("quick");
    }
    assert_eq!(server.get("/health/ready").status, 200);
    server.begin_to_stop();
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the collector of traces does not take them"), "{said}");
    let refused = Store::new().run(&["serve", "--traces-endpoint", "http://collector/v1/traces"]);
    let wanted = "error: traces.endpoint (--traces-endpoint): `http://collector/v1/traces` is not the address of a collector; write it as `http://127.0.0.1:4318`\n";
    assert_eq!(refused, (5, wanted.to_owned()));
}
