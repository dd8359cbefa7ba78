//! Items of a `forEach`, single payloads, and how much of a run its document has.

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::Server;

const FAN: &str = "\
flow: fan
labels: {team: media}
steps:
  - {id: list, set: [10, 20, 30]}
  - {id: each, forEach: '${steps.list.output}', with: {n: '${item}'}, type: gpu, emulate: {sequence: [stall, pass]}, retryStrategy: hold}
  - {id: ask, needs: [], forEach: {items: [a, b, c], parallel: 1}, wait: 1h}
  - {id: last, needs: [ask], set: 1}
";

/// A run of the flow with three held items, of which the second is completed, and three that wait one after the other.
fn start_fan(server: &Server) -> String {
    server.apply(FAN).with(200);
    let run = server.start_run("fan");
    let choice = json!({"step": "each[1]", "choice": "retry"});
    server.post(&format!("/v1/runs/{run}/choose"), &choice).with(200);
    server.rest(&run);
    run
}

fn list(server: &Server, run: &str, filter: &str) -> Value {
    server.get(&format!("/v1/runs/{run}/items?{filter}")).with(200)
}

fn ids(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().expect("it is a list");
    items.iter().map(|item| item["id"].as_str().expect("it is a name")).collect()
}

#[test]
fn items_are_listed_by_step_and_state_page_by_page() {
    let server = Server::start();
    let run = start_fan(&server);
    for (filter, wanted) in [
        ("", vec!["each[0]", "each[1]", "each[2]", "ask[0]", "ask[1]", "ask[2]"]),
        ("step=each", vec!["each[0]", "each[1]", "each[2]"]),
        ("state=held", vec!["each[0]", "each[2]"]),
        ("state=pending", vec!["ask[1]", "ask[2]"]),
        ("state=waiting&state=completed", vec!["each[1]", "ask[0]"]),
        ("step=each&state=pending", vec![]),
    ] {
        let page = list(&server, &run, filter);
        assert_eq!((ids(&page), &page["next"]), (wanted, &Value::Null), "{filter}");
    }
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&server, &run, &format!("limit=4{after}"));
        all.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(all.len(), 6, "{all:?}");
    let item = &list(&server, &run, "step=each&limit=1")["items"][0];
    assert_eq!((&item["action"], &item["actionType"]), (&json!("fan.each"), &json!("gpu")));
    assert_eq!(item["attempts"][0]["round"], 1);
    for (path, wanted) in [
        ("items?step=last", (400, "bad-request")),
        ("items?step=lsat", (404, "not-found")),
        ("items?after=x", (400, "bad-cursor")),
        ("items?state=odd", (400, "bad-request")),
    ] {
        let (status, kind, detail) = server.get(&format!("/v1/runs/{run}/{path}")).problem();
        assert_eq!((status, kind.as_str()), wanted, "{path}: {detail}");
    }
}

#[test]
fn a_payload_is_answered_as_it_is() {
    let server = Server::start();
    let run = start_fan(&server);
    for (of, wanted) in [
        ("input", json!({"amount": 21})),
        ("list.output", json!([10, 20, 30])),
        ("each[2].input", json!({"n": 30})),
        ("list.input", json!({"amount": 21})),
    ] {
        assert_eq!(server.get(&format!("/v1/runs/{run}/payload?of={of}")).with(200), wanted, "{of}");
    }
    for (of, wanted) in [
        ("output", (404, "not-found")),
        ("last.output", (404, "not-found")),
        ("last.input", (404, "not-found")),
        ("ask[2].input", (404, "not-found")),
        ("each[3].output", (404, "not-found")),
        ("each.output", (404, "not-found")),
        ("nothing.output", (404, "not-found")),
        ("each.input", (409, "ambiguous")),
        ("each", (400, "bad-request")),
        ("", (400, "bad-request")),
    ] {
        let (status, kind, detail) = server.get(&format!("/v1/runs/{run}/payload?of={of}")).problem();
        assert_eq!((status, kind.as_str()), wanted, "{of}: {detail}");
    }
}

#[test]
fn a_document_has_as_much_as_is_asked_for() {
    let server = Server::start();
    let run = start_fan(&server);
    let steps = |query: &str| -> Vec<String> {
        let document = server.get(&format!("/v1/runs/{run}?{query}")).with(200);
        let steps = document["steps"].as_array().expect("it is a list").clone();
        steps.iter().map(|step| step["id"].as_str().expect("it is a name").to_owned()).collect()
    };
    assert_eq!(steps("items=1"), ["list", "each", "each[0]", "ask", "ask[0]", "last"]);
    assert_eq!(steps("items=0"), ["list", "each", "ask", "last"]);
    let shown = server.get(&format!("/v1/runs/{run}?payloads=false")).with(200);
    assert_eq!((&shown["input"], &shown["steps"][0]["output"]), (&Value::Null, &Value::Null));
    assert_eq!((&shown["steps"][1]["items"], &shown["priority"]), (&json!(3), &json!(0)));
    assert_eq!(shown["by"], "local");
}

#[test]
fn an_earlier_generation_is_shown_as_it_ended() {
    let server = Server::start();
    let run = server.start_run("held");
    server.post(&format!("/v1/runs/{run}/choose"), &json!({"step": "upload", "choice": "none"})).with(200);
    server.rest(&run);
    server.post(&format!("/v1/runs/{run}/rerun"), &json!({})).with(200);
    server.rest(&run);
    let first = server.get(&format!("/v1/runs/{run}?generation=1")).with(200);
    assert_eq!((&first["generation"], &first["state"]), (&json!(1), &json!("failed")));
    let now = server.get(&format!("/v1/runs/{run}?generation=2")).with(200);
    assert_eq!((&now["generation"], &now["state"]), (&json!(2), &json!("held")));
    let (status, kind, detail) = server.get(&format!("/v1/runs/{run}?generation=3")).problem();
    assert_eq!((status, kind.as_str()), (404, "not-found"), "{detail}");
}

#[test]
fn what_a_step_waits_for_and_who_acknowledged_its_error_is_shown() {
    let server = Server::start();
    let broken = server.start_run("broken");
    let ack = Request::new("POST", &format!("/v1/runs/{broken}/ack")).header("Unstuck-User", "grace");
    server.ask(&ack.json(&json!({"reason": "the disk"}))).with(200);
    let step = server.rest(&broken)["steps"][0].clone();
    assert_eq!(
        (&step["acknowledged"]["by"], &step["acknowledged"]["reason"]),
        (&json!("grace"), &json!("the disk"))
    );
    server.apply("flow: remote\nsteps: [{id: encode, action: Encode}]\n").with(200);
    let body = json!({"flow": "remote", "priority": 7, "deadline": "2h"});
    let queued = server.post("/v1/runs?wait=10ms", &body).with(201)["document"].clone();
    assert_eq!(queued["steps"][0]["waitingFor"], "waits for a worker that offers `Encode`");
    assert_eq!((&queued["priority"], queued["deadline"].is_string()), (&json!(7), true));
}
