//! Runs over HTTP: started, found, explained, signalled, ended.

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::Server;

#[test]
fn a_run_is_started_with_a_key_once_and_completed_by_a_signal() {
    let server = Server::start();
    let body = json!({"flow": "order", "input": {"amount": 21}, "key": "o-1"});
    let first = server.post("/v1/runs", &body);
    let location = first.header("location").expect("it says where the run is").to_owned();
    let first = first.with(201);
    assert_eq!((&first["already"], &first["goOn"]), (&json!(false), &Value::Null));
    let run = first["run"].as_str().expect("it is an id");
    assert_eq!(location, format!("/v1/runs/{run}"));

    let again = server.post("/v1/runs", &body);
    assert_eq!(again.header("location"), Some(location.as_str()));
    let again = again.with(200);
    assert_eq!((&again["run"], &again["already"]), (&first["run"], &json!(true)));
    let other = server.post("/v1/runs", &json!({"flow": "order", "input": {"amount": 22}, "key": "o-1"}));
    let (status, kind, _) = other.problem();
    assert_eq!((status, kind.as_str(), &other.json()["run"]), (409, "key-taken", &first["run"]));

    let waiting = server.get("/v1/flows/order/keys/o-1").with(200);
    assert_eq!((&waiting["state"], &waiting["steps"][0]["output"]), (&json!("waiting"), &json!(42)));
    let body = json!({"flow": "order", "key": "o-1", "name": "approve", "payload": {"by": "ada"}});
    assert_eq!(server.post("/v1/signals", &body).with(200)["run"], first["run"]);
    let done = server.get(&format!("{location}?wait=30s&until=final")).with(200);
    assert_eq!((&done["state"], &done["output"]), (&json!("completed"), &json!({"by": "ada"})));
}

#[test]
fn a_start_that_waits_is_answered_with_the_run_at_rest() {
    let server = Server::start();
    let done = server.post("/v1/runs?wait=30s", &json!({"flow": "quick"})).with(201);
    assert_eq!((&done["state"], &done["document"]["output"]), (&json!("completed"), &json!(1)));
    let late = server.post("/v1/runs?wait=50ms", &json!({"flow": "order", "input": {"amount": 1}})).with(201);
    assert_eq!((&late["state"], &late["document"]["state"]), (&json!("waiting"), &json!("waiting")));
}

#[test]
fn a_run_is_listed_shown_and_explained() {
    let server = Server::start();
    let (order, held) = (server.start_order("o-1"), server.start_run("held"));
    let ids = |answer: &Value| -> Vec<String> {
        let runs = answer["runs"].as_array().expect("it is a list");
        runs.iter().map(|run| run["id"].as_str().expect("it is an id").to_owned()).collect()
    };
    let first = server.get("/v1/runs?limit=1").with(200);
    assert_eq!(ids(&first), std::slice::from_ref(&held));
    let next = first["next"].as_str().expect("there is more");
    let second = server.get(&format!("/v1/runs?limit=1&after={next}")).with(200);
    assert_eq!((ids(&second), &second["next"]), (vec![order.clone()], &Value::Null));
    for (filter, wanted) in [
        ("state=held", vec![held.clone()]),
        ("state=held&state=waiting", vec![held.clone(), order.clone()]),
        ("flow=order", vec![order.clone()]),
        ("key=o-1", vec![order.clone()]),
        ("label=team:billing", vec![order.clone()]),
        ("cause=emulated", vec![held.clone()]),
        ("since=1h&flow=held", vec![held.clone()]),
        ("until=1h", vec![]),
    ] {
        assert_eq!(ids(&server.get(&format!("/v1/runs?{filter}")).with(200)), wanted, "{filter}");
    }
    let explained = server.get(&format!("/v1/runs/{held}/explain")).with(200);
    assert_eq!(explained["state"], "held");
    let page = server.ask(
        &Request::new("GET", &format!("/v1/runs/{held}/explain?columns=80")).header("Accept", "text/plain"),
    );
    assert_eq!(page.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(page.body.contains("is held"), "{}", page.body);
    let status = server.get("/v1/status").with(200);
    assert_eq!((&status["needsPersonCount"], &status["open"]["waiting"]), (&json!(1), &json!(1)));
    assert_eq!(server.get(&format!("/v1/runs/{held}/logs")).with(200)["run"], held.as_str());
}

#[test]
fn what_can_be_done_about_a_run_is_told_as_calls_too() {
    let server = Server::start();
    for (flow, verb) in [
        ("broken", "resume"),
        ("broken", "ack"),
        ("broken", "complete"),
        ("broken", "skip"),
        ("held", "choose"),
        ("held", "cancel"),
        ("order", "signal"),
        ("order", "pause"),
    ] {
        let started = json!({"flow": flow, "input": {"amount": 1}});
        let run = server.post("/v1/runs?wait=100ms", &started).with(201)["run"].clone();
        let run = run.as_str().expect("it is an id");
        let can = server.get(&format!("/v1/runs/{run}/explain")).with(200)["can"].clone();
        let can = can.as_array().expect("it is a list");
        let path = format!("/v1/runs/{run}/{verb}");
        let call = can.iter().map(|possible| &possible["call"]).find(|call| call["path"] == path.as_str());
        let call = call.unwrap_or_else(|| panic!("{flow} {verb}: {can:?}"));
        let request = Request::new(call["method"].as_str().expect("it is a text"), &path).json(&call["body"]);
        assert_eq!(server.ask(&request).with(200)["already"], false, "{flow} {verb}");
    }
}

#[test]
fn a_history_has_every_event_once_page_by_page() {
    let server = Server::start();
    let run = server.start_run("held");
    let whole = server.get(&format!("/v1/runs/{run}/history")).with(200);
    let all = whole["events"].as_array().expect("it is a list");
    let numbers: Vec<u64> = all.iter().filter_map(|event| event["number"].as_u64()).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    let (mut paged, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = server.get(&format!("/v1/runs/{run}/history?limit=1&after={after}")).with(200);
        paged.extend(page["events"].as_array().expect("it is a list").clone());
        after = page["next"].clone();
    }
    assert_eq!(&paged, all);
}

#[test]
fn a_batch_is_answered_in_its_order_the_good_with_the_bad() {
    let server = Server::start();
    let body = json!({"runs": [
        {"flow": "quick", "key": "a"},
        {"flow": "nothing"},
        {"flow": "quick", "key": "a"},
        {"flow": "quick", "key": " "},
        {"flow": "quick", "key": "a", "input": {"other": 1}},
        {"flow": "quick", "deadline": "soon"},
        {"flow": "quick", "key": "b", "onDuplicate": "refuse"},
        {"flow": "quick", "key": "b", "onDuplicate": "refuse"},
    ]});
    let results = server.post("/v1/runs/batch", &body).with(200)["results"].clone();
    let results = results.as_array().expect("it is a list");
    let said: Vec<Value> = results
        .iter()
        .map(
            |result| {
                if result["type"].is_null() { result["already"].clone() } else { result["type"].clone() }
            },
        )
        .collect();
    assert_eq!(
        said,
        [
            json!(false),
            json!("/problems/not-found"),
            json!(true),
            json!("/problems/bad-request"),
            json!("/problems/key-taken"),
            json!("/problems/bad-request"),
            json!(false),
            json!("/problems/key-taken"),
        ]
    );
    assert_eq!(results[0]["run"], results[2]["run"]);
    assert_eq!(server.get("/v1/runs").with(200)["runs"].as_array().map(Vec::len), Some(2));
    let many: Vec<Value> =
        (0..1_000).map(|number| json!({"flow": "quick", "key": number.to_string()})).collect();
    let results = server.post("/v1/runs/batch", &json!({"runs": many})).with(200)["results"].clone();
    let results = results.as_array().expect("it is a list");
    assert!(results.len() == 1_000 && results.iter().all(|result| result["already"] == false));
    let last = server.get("/v1/flows/quick/keys/999").with(200);
    assert_eq!(last["id"], results[999]["run"]);
    let too_many: Vec<Value> = (0..1_001).map(|_| json!({"flow": "quick"})).collect();
    let (status, kind, _) = server.post("/v1/runs/batch", &json!({"runs": too_many})).problem();
    assert_eq!((status, kind.as_str()), (413, "too-large"));
}

#[test]
fn a_run_is_rerun_and_forgotten() {
    let server = Server::start();
    let run = server.start_run("quick");
    let again = server.post(&format!("/v1/runs/{run}/rerun"), &json!({"what": "all"})).with(200);
    assert_eq!((&again["run"], &again["already"]), (&json!(run), &json!(false)));
    let done = server.rest(&run);
    assert_eq!((&done["generation"], &done["state"]), (&json!(2), &json!("completed")));
    let (status, kind, _) =
        server.post(&format!("/v1/runs/{run}/rerun"), &json!({"what": "steps"})).problem();
    assert_eq!((status, kind.as_str()), (400, "bad-request"));
    let open = server.start_order("o-1");
    let (status, kind, _) = server.delete(&format!("/v1/runs/{open}")).problem();
    assert_eq!((status, kind.as_str()), (409, "wrong-state"));
    assert_eq!(server.delete(&format!("/v1/runs/{run}")).with(200), json!({"forgotten": [run]}));
    let (status, kind, _) = server.get(&format!("/v1/runs/{run}")).problem();
    assert_eq!((status, kind.as_str()), (404, "not-found"));
}
