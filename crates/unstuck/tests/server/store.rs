//! The store of a server: what it holds, checks of it, and copies, while the server works.

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::{FLOWS, Server, Store, wait_until};

/// Waits until a check or copy is over.
fn end_of(server: &Server, job: &Value) -> Value {
    let path = format!("/v1/store/jobs/{}", job["job"].as_str().expect("it has an id"));
    wait_until("it is over", || server.get(&path).with(200)["state"] != "running");
    server.get(&path).with(200)
}

#[test]
fn a_store_is_shown_and_checked_while_it_is_served() {
    let server = Server::start();
    server.start_order("o-1");
    let info = server.get("/v1/store").with(200);
    assert_eq!((&info["runs"]["waiting"], &info["owner"].is_u64()), (&json!(1), &true), "{info}");
    let answer = server.ask(&Request::new("POST", "/v1/store/checks").header("idempotency-key", "k-1"));
    let place = answer.header("location").map(str::to_owned);
    let begun = answer.with(202);
    assert_eq!(place, begun["job"].as_str().map(|job| format!("/v1/store/jobs/{job}")));
    let checked = end_of(&server, &begun);
    assert_eq!(
        (&checked["state"], &checked["what"], &checked["check"]["runs"], &checked["check"]["findings"]),
        (&json!("done"), &json!("check"), &json!(1), &json!([])),
        "{checked}"
    );
    assert!(checked["endedAt"].is_string(), "{checked}");
    // A repeat is the same job.
    let again = server.ask(&Request::new("POST", "/v1/store/checks").header("idempotency-key", "k-1"));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.with(202)["job"], begun["job"]);
    let other = Request::new("POST", "/v1/store/copies").header("idempotency-key", "k-1");
    let other = server.ask(&other.body("application/json", "{}"));
    assert_ne!(other.status, 202);
    assert_eq!(server.get("/v1/store/jobs/job_1").problem().1, "not-found");
}

#[test]
fn copies_are_made_only_where_a_folder_is_configured_and_are_whole() {
    let server = Server::start();
    let (status, kind, detail) = server.post("/v1/store/copies", &json!({})).problem();
    assert_eq!((status, kind.as_str()), (403, "not-enabled"), "{detail}");
    assert!(detail.contains("--copies FOLDER"), "{detail}");
    server.stop();

    let store = Store::new();
    let copies = store.folder().join("copies");
    let server = Server::start_on(&store, &["--copies", copies.to_str().expect("a plain path")]);
    server.apply(FLOWS).with(200);
    let run = server.start_order("o-1");
    let named = end_of(&server, &server.post("/v1/store/copies", &json!({"name": "monday"})).with(202));
    assert_eq!(named["state"], "done", "{named}");
    assert_eq!(named["copy"]["copy"], json!(copies.join("monday")));
    let unnamed = end_of(&server, &server.post("/v1/store/copies", &json!({})).with(202));
    assert_eq!(unnamed["state"], "done", "{unnamed}");
    for name in ["../away", "", ".hidden", "a/b", "a b"] {
        let (status, kind, detail) = server.post("/v1/store/copies", &json!({"name": name})).problem();
        assert_eq!((status, kind.as_str()), (400, "bad-request"), "{name}: {detail}");
    }
    let (status, kind, _) = server.post("/v1/store/copies", &json!({"name": "monday"})).problem();
    assert_eq!((status, kind.as_str()), (409, "in-use"));
    server.kill();
    let copy = copies.join("monday");
    let (code, said) = store.run(&["show", &run, "--store", copy.to_str().expect("a plain path")]);
    assert_eq!(code, 0, "{said}");
}
