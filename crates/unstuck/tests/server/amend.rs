//! Changes of a run that is under way, and reruns: what is kept, what is refused, and who is named for it.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::support::Server;

fn patch(server: &Server, run: &str, body: &Value) -> Answer {
    server.ask(&Request::new("PATCH", &format!("/v1/runs/{run}")).json(body))
}

fn found_by(server: &Server, filter: &str) -> usize {
    server.get(&format!("/v1/runs?{filter}")).with(200)["runs"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_run_gets_another_priority_labels_and_deadline() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let body = json!({"priority": 7, "labels": {"tier": "gold", "team": "media"}, "deadline": "2h", "reason": "now"});
    assert_eq!(patch(&server, &run, &body).with(200)["already"], false);
    let shown = server.get(&format!("/v1/runs/{run}")).with(200);
    assert_eq!(
        (&shown["priority"], &shown["labels"]),
        (&json!(7), &json!({"team": "media", "tier": "gold"}))
    );
    assert!(shown["deadline"].is_string(), "{shown}");
    assert_eq!((found_by(&server, "label=team:media"), found_by(&server, "label=team:billing")), (1, 0));
    // A label that is removed gives way to that of the flow.
    let body = json!({"labels": {"team": null}, "deadline": "none"});
    patch(&server, &run, &body).with(200);
    assert_eq!(patch(&server, &run, &body).with(200)["already"], true);
    let shown = server.get(&format!("/v1/runs/{run}")).with(200);
    assert_eq!((&shown["labels"]["team"], &shown["deadline"]), (&json!("billing"), &Value::Null));
    assert_eq!((found_by(&server, "label=team:media"), found_by(&server, "label=team:billing")), (0, 1));
    let history = server.get(&format!("/v1/runs/{run}/history")).with(200);
    let fact = &history["events"][1]["facts"][0];
    assert_eq!(
        (&fact["type"], &fact["priority"], &fact["reason"]),
        (&json!("run.amended"), &json!(7), &json!("now"))
    );
    let audit = server.get("/v1/audit?what=run.amend").with(200);
    assert_eq!(audit["entries"].as_array().map(Vec::len), Some(2), "{audit}");
    let store = server.stop();
    store.assert_clean();
    let server = Server::start_on(&store, &[]);
    assert_eq!((found_by(&server, "label=tier:gold"), found_by(&server, "label=team:media")), (1, 0));
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).with(200);
    server.delete(&format!("/v1/runs/{run}")).with(200);
    assert_eq!(found_by(&server, "label=tier:gold"), 0);
    server.stop().assert_clean();
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let server = Server::start();
    let (open, done) = (server.start_order("o-1"), server.start_run("quick"));
    server.apply("flow: outer\nsteps: [{id: inner, flow: order}]\n").with(200);
    let parent = server.post("/v1/runs", &json!({"flow": "outer", "input": {"amount": 1}})).with(201);
    let parent = parent["run"].as_str().expect("it is an id");
    let child = server.rest_child(parent);
    for (run, body, wanted) in [
        (&open, json!({}), (400, "bad-request")),
        (&open, json!({"labels": {}}), (400, "bad-request")),
        (&open, json!({"prioriti": 1}), (400, "bad-request")),
        (&open, json!({"deadline": "soon"}), (400, "bad-request")),
        (&open, json!({"deadline": "2001-01-01T00:00:00Z"}), (400, "bad-request")),
        (&open, json!({"labels": {"team": " "}}), (400, "bad-request")),
        (&done, json!({"priority": 1}), (409, "final")),
        (&child, json!({"priority": 1}), (409, "belongs-to-run")),
    ] {
        let (status, kind, detail) = patch(&server, run, &body).problem();
        assert_eq!((status, kind.as_str()), wanted, "{body}: {detail}");
    }
    assert_eq!(
        server.get(&format!("/v1/runs/{open}/history")).with(200)["events"].as_array().map(Vec::len),
        Some(1)
    );
    patch(&server, parent, &json!({"priority": 3})).with(200);
    crate::support::wait_until("its child has its priority", || {
        server.get(&format!("/v1/runs/{child}")).with(200)["priority"] == 3
    });
    let shown = server.get(&format!("/v1/runs/{child}")).with(200);
    assert_eq!((&shown["parent"], &shown["root"]), (&json!(parent), &json!(parent)));
}

#[test]
fn a_rerun_is_tried_first_and_cancels_what_is_under_way() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let path = format!("/v1/runs/{run}/rerun");
    let (status, kind, _) = server.post(&path, &json!({})).problem();
    assert_eq!((status, kind.as_str()), (409, "wrong-state"));
    let body = json!({"what": "continue", "cancelFirst": true, "deadline": "2h"});
    let tried = server.post(&format!("{path}?dryRun=true"), &body).with(200);
    let wanted =
        json!({"run": run, "dryRun": true, "generation": 2, "again": ["approve", "ship"], "kept": ["total"]});
    assert_eq!(tried, wanted);
    assert_eq!(server.get(&format!("/v1/runs/{run}")).with(200)["generation"], 1);
    assert_eq!(server.post(&path, &body).with(200)["state"], "waiting");
    let shown = server.get(&format!("/v1/runs/{run}")).with(200);
    assert_eq!((&shown["generation"], shown["deadline"].is_string()), (&json!(2), true));
    let (status, kind, _) = server
        .post(&format!("{path}?dryRun=true"), &json!({"what": "steps", "steps": ["x"], "cancelFirst": true}))
        .problem();
    assert_eq!((status, kind.as_str()), (404, "not-found"));
}
