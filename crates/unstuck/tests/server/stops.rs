//! Servers that are told to stop: what they have acknowledged is there, and nothing becomes stuck.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::json;

use crate::client::{Connection, Request};
use crate::event_stream::EventStream;
use crate::support::{FLOWS, Server, Store, wait_until};

#[test]
fn whatever_was_acknowledged_before_it_stopped_is_there_afterwards() {
    let server = Server::start();
    let (address, is_stopped) = (server.address, AtomicBool::new(false));
    let (acknowledged, store) = thread::scope(|scope| {
        let starters: Vec<_> = (0..4)
            .map(|thread| {
                scope.spawn({
                    let is_stopped = &is_stopped;
                    move || start_until_refused(address, thread, is_stopped)
                })
            })
            .collect();
        wait_until("some runs are started", || {
            server.get("/v1/flows").with(200)["flows"][3]["flow"] == "quick"
                && server.get("/v1/runs?limit=50").with(200)["runs"]
                    .as_array()
                    .is_some_and(|runs| runs.len() == 50)
        });
        let store = server.stop();
        is_stopped.store(true, Ordering::Release);
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for starter in starters {
            all.extend(starter.join().expect("it ends"));
        }
        (all, store)
    });
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
    let server = Server::start_on(&store, &[]);
    for (key, run) in &acknowledged {
        assert_eq!(server.get(&format!("/v1/flows/quick/keys/{key}")).with(200)["id"], run.as_str());
    }
    server.stop().assert_clean();
}

/// Starts runs until the server is gone, and returns those that were acknowledged.
fn start_until_refused(
    address: std::net::SocketAddr,
    thread: usize,
    is_stopped: &AtomicBool,
) -> BTreeMap<String, String> {
    let mut acknowledged = BTreeMap::new();
    let mut number = 0;
    while !is_stopped.load(Ordering::Acquire) {
        let Ok(mut connection) = Connection::try_open(address) else { break };
        loop {
            number += 1;
            let key = format!("{thread}-{number}");
            let request = Request::new("POST", "/v1/runs").json(&json!({"flow": "quick", "key": key}));
            let Ok(answer) = connection.ask(&request) else { break };
            match answer.status {
                201 => {
                    let run = answer.json()["run"].as_str().expect("it is an id").to_owned();
                    acknowledged.insert(key, run);
                }
                503 => {
                    assert_eq!(answer.problem().1, "stopping");
                    assert!(
                        matches!(answer.header("retry-after"), Some("1" | "2")),
                        "a second, or up to two"
                    );
                }
                other => panic!("{other}: {}", answer.body),
            }
        }
    }
    acknowledged
}

#[test]
fn those_who_wait_or_listen_do_not_keep_a_server_from_stopping() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let mut stream = EventStream::open(&server, "", None);
    let mut waiting = server.connect();
    waiting.send(&Request::new("GET", &format!("/v1/runs/{run}?wait=60s")).bytes()).expect("it is sent");
    let mut starting = server.connect();
    let body = json!({"flow": "order", "input": {"amount": 1}, "key": "o-2"});
    starting.send(&Request::new("POST", "/v1/runs?wait=60s").json(&body).bytes()).expect("it is sent");
    wait_until("the second order is started", || server.get("/v1/flows/order/keys/o-2").status == 200);
    let idle = server.connect();
    let began = Instant::now();
    server.begin_to_stop();
    // A start that is durable is acknowledged, though its run does not rest yet.
    let started = starting.read_answer().expect("it is answered").with(201);
    assert_eq!(started["document"]["state"], "waiting");
    let status = waiting.read_answer().expect("it is answered").status;
    assert!(matches!(status, 200 | 503), "{status}");
    assert_eq!(std::iter::from_fn(|| stream.next()).last().map(|last| last.kind), Some("bye".to_owned()));
    let (code, stderr) = server.wait();
    assert_eq!((code, stderr.as_str()), (Some(0), "stopping (SIGTERM)\n"));
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    drop(idle);
}

#[test]
fn runs_go_on_after_a_restart() {
    let store = Store::new();
    let server = Server::start_on(&store, &[]);
    server.apply(FLOWS).with(200);
    server.apply("flow: slow\nsteps:\n  - {id: nap, wait: 300ms}\n  - {id: last, set: 2}\n").with(200);
    let run = server.post("/v1/runs", &json!({"flow": "slow"})).with(201)["run"].clone();
    let run = run.as_str().expect("it is an id").to_owned();
    let held = server.start_run("held");
    let server = Server::start_on(&server.stop(), &[]);
    assert_eq!(server.get(&format!("/v1/runs/{run}?wait=30s&until=final")).with(200)["output"], 2);
    assert_eq!(server.rest(&held)["state"], "held");
    server.stop().assert_clean();
}
