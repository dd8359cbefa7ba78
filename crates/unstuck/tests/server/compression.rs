//! Answers are compressed for whoever takes that, and bodies may come compressed.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::support::Server;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("it is written to memory");
    encoder.finish().expect("it is written to memory")
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 3).expect("it is written to memory")
}

/// Asks with this `Accept-Encoding`, and returns the answer and its body as it came.
fn get(server: &Server, path: &str, accepted: &str) -> (Answer, Vec<u8>) {
    let mut connection = server.connect();
    let request = Request::new("GET", path).header("Accept-Encoding", accepted);
    connection.send(&request.bytes()).expect("it is sent");
    connection.read_answer_and_bytes().expect("it is answered")
}

/// What a compressed body says.
fn decode(coding: Option<&str>, body: &[u8]) -> String {
    let mut text = String::new();
    match coding {
        None => text = String::from_utf8(body.to_vec()).expect("it is a text"),
        Some("gzip") => drop(GzDecoder::new(body).read_to_string(&mut text).expect("it is gzip")),
        Some("zstd") => {
            text = String::from_utf8(zstd::decode_all(body).expect("it is zstd")).expect("a text");
        }
        Some(other) => panic!("what is {other}?"),
    }
    text
}

#[test]
fn long_answers_are_compressed_for_whoever_takes_that() {
    let server = Server::start();
    let input = json!({"text": "x".repeat(200_000)});
    let run = server.post("/v1/runs", &json!({"flow": "quick", "input": input})).with(201);
    let payload = format!("/v1/runs/{}/payload?of=input", run["run"].as_str().expect("it is an id"));
    for (accepted, wanted) in [
        ("gzip", Some("gzip")),
        ("zstd", Some("zstd")),
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip;q=1, zstd;q=0.1", Some("gzip")),
        ("br", None),
        ("identity", None),
    ] {
        for path in [payload.as_str(), "/openapi.json", "/docs", "/metrics"] {
            let (answer, body) = get(&server, path, accepted);
            let coding = answer.header("content-encoding");
            assert_eq!((answer.status, coding), (200, wanted), "{path} {accepted}");
            assert_eq!(answer.header("vary"), Some("accept-encoding"), "{path} {accepted}");
            let whole = server.get(path);
            assert_eq!(answer.header("content-type"), whole.header("content-type"));
            let text = decode(coding, &body);
            // Metrics have another value each time.
            assert!(path == "/metrics" || text == whole.body, "{path} {accepted}");
            assert!(wanted.is_none() || body.len() * 2 < text.len(), "{path} {accepted}: {}", body.len());
        }
    }
}

#[test]
fn short_answers_and_streams_of_events_are_not_compressed() {
    let server = Server::start();
    for path in ["/health/live", "/v1/runs/run_0000000000000", "/v1/flows"] {
        let (answer, body) = get(&server, path, "gzip, zstd");
        assert_eq!(answer.header("content-encoding"), None, "{path}");
        assert!(serde_json::from_slice::<Value>(&body).is_ok(), "{path}");
    }
    let mut connection = server.connect();
    let request = Request::new("GET", "/v1/events").header("Accept-Encoding", "gzip, zstd");
    connection.send(&request.bytes()).expect("it is sent");
    let (_, headers) = connection.read_head().expect("it is answered");
    assert!(headers.iter().all(|(name, _)| name != "content-encoding"), "{headers:?}");
    let chunk = connection.read_chunk().expect("it goes on").expect("it goes on");
    assert!(String::from_utf8_lossy(&chunk).contains("event: hello"));
}

#[test]
fn bodies_may_come_compressed_and_limits_count_what_they_become() {
    let server = Server::start();
    let start = |coding: &str, body: Vec<u8>| {
        let request = Request::new("POST", "/v1/runs").header("Content-Encoding", coding);
        server.ask(&request.body("application/json", body))
    };
    let body = json!({"flow": "quick", "key": "same", "input": {"text": "x".repeat(100_000)}}).to_string();
    let plain = start("identity", body.clone().into_bytes()).with(201);
    for (coding, compressed) in [("gzip", gzip(body.as_bytes())), ("zstd", zstd(body.as_bytes()))] {
        let again = start(coding, compressed.clone()).with(200);
        assert_eq!(again["run"], plain["run"], "{coding}");
        let cut = compressed[..compressed.len() - 3].to_vec();
        assert_eq!(start(coding, cut).problem().1, "bad-request", "{coding}");
        let (status, kind, detail) = start(coding, body.clone().into_bytes()).problem();
        assert_eq!((status, kind.as_str()), (400, "bad-request"), "{detail}");
        assert!(detail.contains(coding), "{detail}");
    }
    // A few kilobytes that would become 100 MB.
    let spaces = vec![b' '; 100 << 20];
    let before = server.resident_memory();
    for (coding, compressed) in [("gzip", gzip(&spaces)), ("zstd", zstd(&spaces))] {
        let refused = start(coding, compressed);
        assert_eq!((refused.status, &refused.json()["max"]), (413, &json!(4 << 20)), "{coding}");
    }
    let grown = server.resident_memory().saturating_sub(before) >> 10;
    assert!(grown < 64, "{grown} MiB");
    for coding in ["br", "deflate", "gzip, zstd", "nonsense"] {
        let (status, kind, detail) = start(coding, b"{}".to_vec()).problem();
        assert_eq!((status, kind.as_str()), (415, "unsupported-media-type"), "{detail}");
    }
}
