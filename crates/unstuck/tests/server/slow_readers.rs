//! Clients that take nothing of a long answer, or go away in the middle of one: they cost little and hold up nobody.

use serde_json::{Value, json};

use crate::client::{Connection, Request};
use crate::event_stream::EventStream;
use crate::support::{FLOWS, Server, Store, wait_until};

/// A server that gives up on those who take nothing, with a run that has a payload of a megabyte.
fn start() -> (Server, String) {
    let server = Server::start_on(&Store::new(), &["--limits-stall-time", "500ms"]);
    server.apply(FLOWS).with(200);
    let body = json!({"flow": "quick", "input": {"text": "x".repeat(1 << 20)}});
    let run = server.post("/v1/runs", &body).with(201)["run"].as_str().expect("it is an id").to_owned();
    (server, run)
}

/// Starts so many runs that their events are more than the sockets of those who take nothing can hold.
fn fill_log(server: &Server, batches: usize) {
    for batch in 0..batches {
        let runs: Vec<Value> =
            (0..1_000).map(|number| json!({"flow": "quick", "key": format!("{batch}-{number}")})).collect();
        server.post("/v1/runs/batch", &json!({"runs": runs})).with(200);
    }
}

#[test]
fn a_client_that_takes_nothing_of_its_answers_is_hung_up_on() {
    let (server, run) = start();
    let before = server.open_sockets();
    let request = Request::new("GET", &format!("/v1/runs/{run}/payload?of=input")).bytes();
    let mut silent: Vec<Connection> = (0..5).map(|_| server.connect()).collect();
    for connection in &mut silent {
        // Much more than the sockets of both sides hold.
        connection.send(&request.repeat(40)).expect("it is sent");
    }
    wait_until("they are served", || server.open_sockets() > before);
    assert_eq!(server.get("/health/ready").status, 200);
    wait_until("they are hung up on", || server.open_sockets() <= before);
    for connection in &mut silent {
        let answers = (0..40).take_while(|_| connection.read_answer().is_ok()).count();
        assert!(answers < 40, "{answers}");
    }
}

#[test]
fn a_client_may_go_away_in_the_middle_of_a_long_answer() {
    let (server, run) = start();
    let before = server.open_sockets();
    for path in [format!("/v1/runs/{run}/payload?of=input"), format!("/v1/runs/{run}"), "/docs".to_owned()] {
        for _ in 0..10 {
            let mut connection = server.connect();
            connection.send(&Request::new("GET", &path).bytes()).expect("it is sent");
            assert_eq!(connection.read_head().expect("it is answered").0, 200, "{path}");
        }
    }
    wait_until("nothing is left of them", || server.open_sockets() <= before);
    let whole = server.get(&format!("/v1/runs/{run}/payload?of=input")).with(200);
    assert_eq!(whole["text"].as_str().map(str::len), Some(1 << 20));
}

#[test]
fn a_reader_of_events_may_go_away_at_any_point_and_come_back() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    fill_log(&server, 1);
    let (mut seen, mut last_id) = (0, begin);
    // It takes a few events more at each time, and says with which it has ended.
    for count in (1..200).step_by(13) {
        let mut stream = EventStream::open(&server, "", Some(&last_id));
        for _ in 0..count {
            stream.next().expect("there is more");
        }
        seen += 1;
        last_id = stream.last_id.clone().expect("it came back with one");
    }
    assert!(seen > 10);
    let metrics = || server.get("/metrics").body;
    wait_until("their streams are closed", || metrics().contains("unstuck_event_streams 0\n"));
    let rest = EventStream::open(&server, "?class=run", Some(&last_id)).until_caught_up();
    assert_eq!(rest.last().expect("there is some")["state"], "completed");
}

#[test]
fn readers_of_events_that_take_nothing_cost_little_and_are_hung_up_on() {
    let (server, _) = start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    fill_log(&server, 20);
    let (sockets, memory) = (server.open_sockets(), server.resident_memory());
    let mut silent: Vec<Connection> = (0..40).map(|_| server.connect()).collect();
    for connection in &mut silent {
        let request = Request::new("GET", &format!("/v1/events?after={begin}"));
        connection.send(&request.bytes()).expect("it is sent");
    }
    wait_until("they are served", || server.open_sockets() >= sockets + 40);
    wait_until("they fall behind", || lag(&server) > 0.0);
    wait_until("they are hung up on", || server.open_sockets() <= sockets);
    // All that is to be told is 10 MB for each of them.
    let grown = server.resident_memory().saturating_sub(memory) >> 10;
    assert!(grown < 150, "{grown} MiB");
    wait_until("their streams are closed", || {
        server.get("/metrics").body.contains("unstuck_event_streams 0\n")
    });
    assert!(lag(&server).abs() < f64::EPSILON, "nobody is behind any more");
}

/// How far the slowest reader of events is behind.
fn lag(server: &Server) -> f64 {
    let metrics = server.get("/metrics").body;
    let lag = metrics.lines().find_map(|line| line.strip_prefix("unstuck_event_stream_lag_seconds "));
    lag.expect("it is there").parse().expect("it is a number")
}
