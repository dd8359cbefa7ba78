//! Changes that come twice, changes on a condition, and the record of both.

use std::thread;

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::support::Server;

fn start(server: &Server, key: &str, body: &Value) -> Answer {
    server.ask(&Request::new("POST", "/v1/runs").header("Idempotency-Key", key).json(body))
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == Some("true")
}

#[test]
fn a_repeat_does_nothing_and_gets_the_same_run_over_a_restart_too() {
    let server = Server::start();
    let body = json!({"flow": "quick"});
    let first = start(&server, "a", &body);
    assert!(!is_replayed(&first));
    let run = first.with(201)["run"].clone();
    let again = start(&server, "a", &body);
    assert!(is_replayed(&again));
    assert_eq!(again.with(201)["run"], run);
    let other = start(&server, "a", &json!({"flow": "quick", "priority": 1}));
    assert_eq!(other.problem().1, "idempotency-key-reused");
    let server = Server::start_on(&server.stop(), &[]);
    let later = start(&server, "a", &body);
    assert!(is_replayed(&later));
    assert_eq!(later.with(201)["run"], run);
    assert_ne!(start(&server, "b", &body).with(201)["run"], run, "another key is another run");
    assert_eq!(server.get("/v1/runs").with(200)["runs"].as_array().map(Vec::len), Some(2));
    server.stop().assert_clean();
}

#[test]
fn of_many_at_once_under_one_key_one_is_carried_out() {
    let server = Server::start();
    let runs: Vec<Value> = thread::scope(|threads| {
        let asking =
            |_| threads.spawn(|| start(&server, "once", &json!({"flow": "quick"})).with(201)["run"].clone());
        let all: Vec<_> = (0..8).map(asking).collect();
        all.into_iter().map(|asked| asked.join().expect("it is answered")).collect()
    });
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    assert_eq!(server.get("/v1/runs").with(200)["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_was_refused_is_decided_again() {
    let server = Server::start();
    let body = json!({"flow": "later"});
    assert_eq!(start(&server, "a", &body).status, 404);
    server.apply("flow: later\nsteps: [{id: only, set: 1}]\n").with(200);
    let started = start(&server, "a", &body);
    assert!(!is_replayed(&started));
    started.with(201);
    let bad = start(&server, "with spaces", &body);
    assert_eq!(bad.problem().1, "bad-request");
}

#[test]
fn every_kind_of_change_can_be_repeated() {
    let server = Server::start();
    let run = server.start_order("k");
    let policies = "name: resets\nerrorSubstring: reset\nmaxAttempts: 3\nbackOff: {delay: 1m}\n";
    let changes = [
        Request::new("POST", &format!("/v1/runs/{run}/pause")).json(&json!({"reason": "wait"})),
        Request::new("POST", &format!("/v1/runs/{run}/unpause")).json(&json!({})),
        Request::new("POST", &format!("/v1/runs/{run}/signal")).json(&json!({"name": "approve"})),
        Request::new("POST", "/v1/flows").body("application/yaml", "flow: new\nsteps: [{id: a, set: 1}]\n"),
        Request::new("POST", "/v1/policies").body("application/yaml", policies),
        Request::new("POST", "/v1/policies/resets/disable").json(&json!({})),
        Request::new("POST", "/v1/bulk")
            .json(&json!({"action": "cancel", "flow": "order", "state": "waiting"})),
        Request::new("DELETE", &format!("/v1/runs/{run}")),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        if place == 7 {
            server.rest(&run);
        }
        let keyed = change.header("Idempotency-Key", &format!("change-{place}"));
        let (first, second) = (server.ask(&keyed), server.ask(&keyed));
        assert_eq!((is_replayed(&first), is_replayed(&second)), (false, true), "{first:?}\n{second:?}");
        assert_eq!(first.status, second.status, "{first:?}\n{second:?}");
        assert!(first.status < 300, "{first:?}");
    }
    let history = server.get("/v1/audit?what=run.").with(200);
    let done: Vec<&Value> =
        history["entries"].as_array().expect("a list").iter().map(|entry| &entry["what"]).collect();
    assert_eq!(done, ["run.forget", "run.signal", "run.unpause", "run.pause"], "{history}");
}

#[test]
fn a_change_on_a_condition_is_made_only_if_nothing_has_happened_since() {
    let server = Server::start();
    let run = server.start_order("k");
    let path = format!("/v1/runs/{run}");
    let etag = |server: &Server| server.get(&path).header("etag").expect("a run has a tag").to_owned();
    let seen = etag(&server);
    let pause = |tag: &str| {
        let request = Request::new("POST", &format!("{path}/pause")).header("If-Match", tag).json(&json!({}));
        server.ask(&request)
    };
    assert_eq!(pause("\"1.999\"").problem().1, "changed");
    assert_eq!(pause("nonsense").problem().1, "bad-request");
    pause(&seen).with(200);
    assert_ne!(etag(&server), seen);
    let unpause = Request::new("POST", &format!("{path}/unpause")).header("If-Match", &seen).json(&json!({}));
    assert_eq!(server.ask(&unpause).problem().1, "changed", "it was paused since");
    assert_eq!(server.get(&path).with(200)["state"], "paused");
    let any = Request::new("POST", &format!("{path}/unpause")).header("If-Match", "*").json(&json!({}));
    server.ask(&any).with(200);
}

#[test]
fn the_audit_says_who_what_why_and_from_where() {
    let server = Server::start();
    let run = server.start_order("k");
    let cancel = Request::new("POST", &format!("/v1/runs/{run}/cancel"))
        .header("Unstuck-User", "ada")
        .header("Request-Id", "req-7")
        .json(&json!({"reason": "a mistake"}));
    server.ask(&cancel).with(200);
    let entries = server.get(&format!("/v1/audit?run={run}&what=run.cancel")).with(200);
    let entry = &entries["entries"][0];
    for (field, wanted) in [
        ("by", json!("ada")),
        ("what", json!("run.cancel")),
        ("run", json!(run)),
        ("reason", json!("a mistake")),
        ("from", json!("127.0.0.1")),
        ("requestId", json!("req-7")),
    ] {
        assert_eq!(entry[field], wanted, "{field}: {entry}");
    }
    let number = entry["event"].as_u64().expect("it names its event");
    let event = server.get(&format!("/v1/runs/{run}/history?after={}", number - 1)).with(200);
    assert!(event["events"][0].to_string().contains("a mistake"), "{event}");
    let flows = server.get("/v1/audit?what=flow.").with(200);
    assert_eq!(flows["entries"].as_array().map(Vec::len), Some(4), "{flows}");
    let refused = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).status;
    assert!(refused == 200 || refused == 409);
}
