//! Clients that go away at every point, send half of what they say, or say nothing: the server answers the others.

use std::thread;

use serde_json::{Value, json};

use crate::client::{Connection, Request};
use crate::support::Server;

fn start_request(key: &str) -> Request {
    Request::new("POST", "/v1/runs").json(&json!({"flow": "quick", "key": key}))
}

/// Every place in a request, but for most of the middle of a long head.
fn places(request: &Request) -> Vec<usize> {
    let (head, all) = (request.head_length(), request.bytes().len());
    (0..8).chain((8..head).step_by(17)).chain(head - 2..=all).collect()
}

#[test]
fn a_client_may_go_away_at_any_point_of_its_request() {
    let server = Server::start();
    let request = start_request("gone");
    for place in places(&request) {
        let mut connection = server.connect();
        connection.send(&request.bytes()[..place]).expect("it is sent");
        drop(connection);
    }
    assert_eq!(server.post("/v1/runs", &json!({"flow": "quick"})).status, 201);
    // The one that was sent whole may have been started, and once.
    let started = server.get("/v1/runs?key=gone").with(200);
    assert!(started["runs"].as_array().is_some_and(|runs| runs.len() <= 1));
}

#[test]
fn half_a_request_that_is_said_to_be_all_starts_nothing() {
    let server = Server::start();
    let request = start_request("half");
    for place in places(&request).into_iter().filter(|place| *place < request.bytes().len()) {
        let mut connection = server.connect();
        connection.send(&request.bytes()[..place]).expect("it is sent");
        connection.end_sending();
        let status = connection.read_answer().map(|answer| answer.status);
        assert!(matches!(status, Ok(400) | Err(_)), "after {place} bytes: {status:?}");
    }
    assert_eq!(server.get("/v1/runs?key=half").with(200)["runs"], json!([]));
}

#[test]
fn a_start_whose_answer_nobody_reads_is_started_once() {
    let server = Server::start();
    for number in 0..50 {
        let mut connection = server.connect();
        connection.send(&start_request(&format!("k-{number}")).bytes()).expect("it is sent");
        if number % 2 == 0 {
            // The server has begun to answer when this one goes away.
            let _ = connection.read_head();
        }
    }
    for number in 0..50 {
        server.ask(&start_request(&format!("k-{number}")));
        let found = server.get(&format!("/v1/runs?key=k-{number}")).with(200);
        assert_eq!(found["runs"].as_array().map(Vec::len), Some(1), "{number}");
    }
}

#[test]
fn many_connections_that_say_nothing_hold_up_nobody() {
    let server = Server::start();
    let silent: Vec<Connection> = (0..300).map(|_| server.connect()).collect();
    let half: Vec<Connection> = (0..300)
        .map(|_| {
            let mut connection = server.connect();
            connection.send(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Le").expect("it is sent");
            connection
        })
        .collect();
    let waiting: Vec<Connection> = (0..100)
        .map(|_| {
            let mut connection = server.connect();
            let head = "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
            connection.send(format!("{head}Content-Length: 1000\r\n\r\n{{").as_bytes()).expect("it is sent");
            connection
        })
        .collect();
    for _ in 0..20 {
        server.post("/v1/runs", &json!({"flow": "quick"})).with(201);
    }
    drop((silent, half, waiting));
    assert_eq!(server.get("/health/ready").status, 200);
}

#[test]
fn those_who_wait_for_runs_take_no_turns_from_others() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let mut waiting: Vec<Connection> = (0..200)
        .map(|_| {
            let mut connection = server.connect();
            let request = Request::new("GET", &format!("/v1/runs/{run}?wait=60s&until=final"));
            connection.send(&request.bytes()).expect("it is sent");
            connection
        })
        .collect();
    for _ in 0..20 {
        server.get("/v1/runs").with(200);
        server.post("/v1/runs", &json!({"flow": "quick"})).with(201);
    }
    server.post(&format!("/v1/runs/{run}/signal"), &json!({"name": "approve"})).with(200);
    for connection in &mut waiting {
        let answer = connection.read_answer().expect("it is answered");
        assert_eq!(answer.with(200)["state"], "completed");
    }
}

#[test]
fn requests_one_after_another_on_a_connection_are_answered_in_order() {
    let server = Server::start();
    let mut connection = server.connect();
    let all: Vec<u8> = (0..20).flat_map(|number| start_request(&format!("p-{number}")).bytes()).collect();
    connection.send(&all).expect("it is sent");
    for number in 0..20 {
        let answer = connection.read_answer().expect("it is answered").with(201);
        let run = server.get(&format!("/v1/flows/quick/keys/p-{number}")).with(200);
        assert_eq!(run["id"], answer["run"]);
    }
}

#[test]
fn what_is_no_http_is_refused() {
    let server = Server::start();
    for bytes in [
        &b"hello\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing of the kind, and long enough",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03],
    ] {
        let mut connection = server.connect();
        connection.send(bytes).expect("it is sent");
        connection.end_sending();
        let status = connection.read_answer().map(|answer| answer.status);
        assert!(matches!(status, Ok(400) | Err(_)), "{}: {status:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn many_at_once_start_one_run_for_one_key() {
    let server = Server::start();
    let started: Vec<Value> = thread::scope(|scope| {
        let ask = || server.ask(&start_request("same")).json();
        let asked: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|asked| asked.join().expect("it is answered")).collect()
    });
    assert!(started.iter().all(|answer| answer["run"] == started[0]["run"]));
    assert_eq!(started.iter().filter(|answer| answer["already"] == false).count(), 1);
}
