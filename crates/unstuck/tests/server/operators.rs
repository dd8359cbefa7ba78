//! What operators do over HTTP: to one run, and to many.

use serde_json::{Value, json};

use crate::support::{Server, wait_until};

#[test]
fn a_held_step_is_chosen_for() {
    let server = Server::start();
    let run = server.start_run("held");
    let chosen = server
        .post(&format!("/v1/runs/{run}/choose"), &json!({"step": "upload", "choice": "retry"}))
        .with(200);
    assert_eq!(chosen["already"], false);
    assert_eq!(server.rest(&run)["state"], "completed");
    let (status, kind, detail) = server
        .post(&format!("/v1/runs/{run}/choose"), &json!({"step": "upload", "choice": "none"}))
        .problem();
    assert_eq!((status, kind.as_str()), (409, "final"), "{detail}");
    let second = server.start_run("held");
    server.post(&format!("/v1/runs/{second}/choose"), &json!({"step": "upload", "choice": "none"})).with(200);
    assert_eq!(server.rest(&second)["state"], "failed");
}

#[test]
fn what_is_in_error_is_acknowledged_resumed_or_done_by_hand() {
    let server = Server::start();
    let run = server.start_run("broken");
    let needed = server.post(&format!("/v1/runs/{run}/ack"), &json!({})).problem();
    assert_eq!((needed.0, needed.1.as_str()), (400, "bad-request"), "{}", needed.2);
    server.post(&format!("/v1/runs/{run}/ack"), &json!({"reason": "the disk is being replaced"})).with(200);
    assert_eq!(server.get("/v1/status").with(200)["needsPersonCount"], 0);
    server.post(&format!("/v1/runs/{run}/resume"), &json!({"reason": "it is back"})).with(200);
    assert_eq!(server.rest(&run)["state"], "completed");
    let skipped = server.start_run("broken");
    server.post(&format!("/v1/runs/{skipped}/skip"), &json!({"step": "fetch"})).with(200);
    assert_eq!(server.rest(&skipped)["steps"][0]["state"], "skipped");
    let by_hand = server.start_run("broken");
    server
        .post(&format!("/v1/runs/{by_hand}/complete"), &json!({"step": "fetch", "output": {"n": 7}}))
        .with(200);
    assert_eq!(server.rest(&by_hand)["steps"][0]["output"], json!({"n": 7}));
    let (status, kind, detail) =
        server.post(&format!("/v1/runs/{by_hand}/skip"), &json!({"step": "fetsh"})).problem();
    assert_eq!((status, kind.as_str()), (404, "not-found"), "{detail}");
}

#[test]
fn a_run_is_paused_continued_and_cancelled() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let path = |verb: &str| format!("/v1/runs/{run}/{verb}");
    assert_eq!(server.post(&path("pause"), &json!({"reason": "look"})).with(200)["state"], "paused");
    assert_eq!(server.post(&path("pause"), &json!({})).with(200)["already"], true);
    server.post(&path("signal"), &json!({"name": "approve", "payload": 1})).with(200);
    assert_eq!(server.get(&format!("/v1/runs/{run}")).with(200)["state"], "paused");
    // A body may be left out where nothing in it is needed.
    server.ask(&crate::client::Request::new("POST", &path("unpause"))).with(200);
    assert_eq!(server.rest(&run)["state"], "completed");
    let (status, kind, _) = server.post(&path("cancel"), &json!({})).problem();
    assert_eq!((status, kind.as_str()), (409, "final"));
    let other = server.start_order("o-2");
    let cancelled =
        server.post(&format!("/v1/runs/{other}/cancel"), &json!({"reason": "not wanted"})).with(200);
    assert_eq!(cancelled["state"], "cancelled");
}

#[test]
fn whoever_does_something_is_named_in_the_history() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let request = crate::client::Request::new("POST", &format!("/v1/runs/{run}/pause"));
    server.ask(&request.header("Unstuck-User", "grace").json(&json!({}))).with(200);
    let history = server.get(&format!("/v1/runs/{run}/history")).with(200);
    let users: Vec<&Value> =
        history["events"].as_array().expect("it is a list").iter().map(|event| &event["user"]).collect();
    assert_eq!((users.first(), users.last()), (Some(&&json!("local")), Some(&&json!("grace"))));
}

#[test]
fn many_runs_are_resumed_by_one_order() {
    let server = Server::start();
    let runs: Vec<String> = (0..3).map(|_| server.start_run("broken")).collect();
    let order = json!({"action": "resume", "flow": "broken", "rate": 1000, "reason": "it is back"});
    let tried = server.post("/v1/bulk?dryRun=true", &order).with(200);
    assert_eq!((&tried["dryRun"], &tried["total"], &tried["bulk"]), (&json!(true), &json!(3), &Value::Null));
    assert!(runs.iter().all(|run| server.rest(run)["state"] == "error"));
    let begun = server.post("/v1/bulk", &order).with(202);
    assert_eq!((&begun["dryRun"], &begun["total"]), (&json!(false), &json!(3)));
    let bulk = begun["bulk"].as_str().expect("it is an id");
    wait_until("all targets have passed", || {
        server.get(&format!("/v1/bulk/{bulk}")).with(200)["settled"] == true
    });
    let targets = server.get(&format!("/v1/bulk/{bulk}/targets?limit=2")).with(200);
    assert_eq!(targets["targets"].as_array().map(Vec::len), Some(2));
    let rest = server.get(&format!("/v1/bulk/{bulk}/targets?limit=2&after={}", targets["next"])).with(200);
    assert_eq!((rest["targets"].as_array().map(Vec::len), &rest["next"]), (Some(1), &Value::Null));
    assert!(runs.iter().all(|run| server.rest(run)["state"] == "completed"));
    assert_eq!(server.get("/v1/bulk").with(200)["bulks"][0]["bulk"], bulk);
    assert_eq!(server.get("/v1/bulk?open=true").with(200)["bulks"], json!([]));
    let (status, kind, _) = server.post(&format!("/v1/bulk/{bulk}/cancel"), &json!({})).problem();
    assert_eq!((status, kind.as_str()), (409, "wrong-state"));
}

#[test]
fn an_order_for_many_runs_is_paused_and_cancelled() {
    let server = Server::start();
    for _ in 0..3 {
        server.start_run("broken");
    }
    // So slow that it is still at work when it is paused.
    let order = json!({"action": "resume", "flow": "broken", "rate": 1, "canary": 1});
    let begun = server.post("/v1/bulk", &order).with(202);
    let bulk = begun["bulk"].as_str().expect("it is an id").to_owned();
    let change = |verb: &str| server.post(&format!("/v1/bulk/{bulk}/{verb}"), &json!({})).with(200);
    assert_eq!((&change("pause")["already"], &change("pause")["already"]), (&json!(false), &json!(true)));
    assert_eq!(change("unpause")["already"], false);
    assert_eq!(change("cancel")["already"], false);
}
