//! Flows over HTTP: applied, listed, shown, deleted, and refused.

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::{Server, Store};

fn versions(server: &Server) -> Vec<(Value, Value)> {
    let listed = server.get("/v1/flows/order/versions").with(200);
    let lines = listed["versions"].as_array().expect("it is a list");
    lines.iter().map(|line| (line["version"].clone(), line["deleted"].clone())).collect()
}

const SECOND: &str = "flow: order\nversion: '2'\nsteps:\n  - {id: total, set: 1}\n";

#[test]
fn versions_are_added_shown_and_deleted() {
    let server = Server::start();
    let tried = server.ask(&Request::new("POST", "/v1/flows?dryRun=true").body("application/yaml", SECOND));
    let tried = tried.with(200);
    assert_eq!((&tried["dryRun"], &tried["flows"][0]["what"]), (&json!(true), &json!("changed")));
    assert_eq!(versions(&server), [(json!("1"), json!(false))]);
    assert_eq!(server.apply(SECOND).with(200)["flows"][0]["what"], "changed");
    assert_eq!(server.apply(SECOND).with(200)["flows"][0]["what"], "unchanged");
    assert_eq!(versions(&server), [(json!("2"), json!(false)), (json!("1"), json!(false))]);
    assert_eq!(server.get("/v1/flows/order").with(200)["version"], "2");
    let first = server.get("/v1/flows/order?version=1").with(200);
    assert_eq!(
        (&first["labels"], &first["definition"]["flow"]),
        (&json!({"team": "billing"}), &json!("order"))
    );

    let deleted = server.delete("/v1/flows/order?version=2&reason=wrong");
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    assert_eq!(versions(&server), [(json!("2"), json!(true)), (json!("1"), json!(false))]);
    assert_eq!(server.get("/v1/flows/order").with(200)["version"], "1");
    let (status, kind, _) = server.post("/v1/runs", &json!({"flow": "order", "version": "2"})).problem();
    assert_eq!((status, kind.as_str()), (404, "not-found"));
    assert_eq!(server.get("/v1/flows/nothing").problem().1, "not-found");
    assert_eq!(server.get("/v1/flows/order?version=9").problem().1, "not-found");
}

#[test]
fn flows_are_listed_by_name_page_by_page() {
    let server = Server::start();
    server.start_order("o-1");
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/flows?limit=3&after={after}")).with(200);
        let lines = page["flows"].as_array().expect("it is a list").clone();
        names.extend(lines.into_iter().map(|line| (line["flow"].clone(), line["open"].clone())));
        let Some(next) = page["next"].as_str() else { break };
        next.clone_into(&mut after);
    }
    let wanted = [("broken", 0), ("held", 0), ("order", 1), ("quick", 0)];
    assert_eq!(names, wanted.map(|(name, open)| (json!(name), json!(open))));
}

#[test]
fn flows_are_found_by_their_labels() {
    let server = Server::start();
    for (flow, labels) in [("a", "{team: x, tier: '1'}"), ("b", "{team: y}"), ("c", "{team: x}"), ("d", "{}")]
    {
        server.apply(&format!("flow: {flow}\nlabels: {labels}\nsteps: [{{id: only, set: 1}}]\n")).with(200);
    }
    for (filter, wanted, next) in [
        ("label=team:x", vec!["a", "c"], None),
        ("label=team:x&label=team:y", vec!["a", "b", "c"], None),
        ("label=team:x&label=tier:1", vec!["a"], None),
        ("label=team:z", vec![], None),
        ("label=team:x&limit=1", vec!["a"], Some("a")),
        ("label=team:x&limit=1&after=a", vec!["c"], Some("c")),
        ("label=team:y&limit=1", vec!["b"], Some("b")),
    ] {
        let page = server.get(&format!("/v1/flows?{filter}")).with(200);
        let names: Vec<_> =
            page["flows"].as_array().expect("a list").iter().map(|line| &line["flow"]).collect();
        assert_eq!((json!(names), page["next"].as_str()), (json!(wanted), next), "{filter}");
    }
    assert_eq!(server.get("/v1/flows?label=team").problem().1, "bad-request");
}

#[test]
fn a_flow_that_open_runs_need_is_not_deleted() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let (status, kind, _) = server.delete("/v1/flows/order").problem();
    assert_eq!((status, kind.as_str()), (409, "in-use"));
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).with(200);
    assert_eq!(server.delete("/v1/flows/order").status, 204);
    assert_eq!(server.post("/v1/runs", &json!({"flow": "order"})).problem().1, "not-found");
    assert_eq!(server.get(&format!("/v1/runs/{run}")).with(200)["flow"], "order");
}

#[test]
fn a_file_is_applied_as_a_whole_or_not_at_all() {
    let server = Server::start();
    let (status, kind, _) = server.apply(&SECOND.replace("'2'", "'1'")).problem();
    assert_eq!((status, kind.as_str()), (409, "version-taken"));
    let bad =
        format!("flow: fine\nsteps:\n  - {{id: a, set: 1}}\n---\n{}", SECOND.replace("set: 1", "sett: 1"));
    let answer = server.apply(&bad);
    assert_eq!((answer.status, answer.problem().1.as_str()), (422, "invalid"));
    let problem = answer.json()["problems"][0].clone();
    assert_eq!((&problem["line"], &problem["severity"]), (&json!(8), &json!("error")), "{problem}");
    assert_eq!(server.get("/v1/flows/fine").problem().1, "not-found");
    let as_json = json!({"flow": "fine", "steps": [{"id": "a", "set": 1}]});
    assert_eq!(server.post("/v1/flows", &as_json).with(200)["flows"][0]["what"], "added");
}

#[test]
fn commands_of_this_machine_are_executed_only_where_that_is_allowed() {
    let flow = "flow: shell\nsteps:\n  - {id: say, run: 'echo {\\\"n\\\": 1}'}\n";
    let server = Server::start();
    let (status, kind, detail) = server.apply(flow).problem();
    assert_eq!((status, kind.as_str()), (403, "not-enabled"));
    assert!(detail.contains("--allow-run"), "{detail}");
    drop(server);
    let store = Store::new();
    let allowed = Server::start_on(&store, &["--allow-run"]);
    allowed.apply(flow).with(200);
    let run = allowed.start_run("shell");
    assert_eq!(allowed.rest(&run)["output"], json!({"n": 1}));
    // What was applied while it was allowed is not executed by a server that does not allow it.
    let server = Server::start_on(&allowed.stop(), &[]);
    let (status, kind, _) = server.post("/v1/runs", &json!({"flow": "shell"})).problem();
    assert_eq!((status, kind.as_str()), (403, "not-enabled"));
}
