//! Policies and groups of errors over HTTP.

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::Server;

const POLICIES: &str = "\
- {name: later, errorSubstring: emulated, maxAttempts: 9, backOff: 1d}
- {name: never, flow: other, errorSubstring: emulated, maxAttempts: 3, backOff: 90s}
";

fn load(server: &Server, query: &str, policies: &str) -> crate::client::Answer {
    server.ask(&Request::new("POST", &format!("/v1/policies{query}")).body("application/yaml", policies))
}

fn names(policies: &Value) -> Vec<&str> {
    let policies = policies["policies"].as_array().expect("it is a list");
    policies.iter().map(|policy| policy["name"].as_str().expect("it is a text")).collect()
}

#[test]
fn policies_are_loaded_as_yaml_or_json_and_come_back_as_both() {
    let server = Server::start();
    let changes = load(&server, "", POLICIES).with(200);
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(2));
    let third =
        json!({"name": "third", "action": "broken.fetch", "maxAttempts": 2, "backOff": {"delay": 60}});
    server.post("/v1/policies", &third).with(200);
    let listed = server.get("/v1/policies").with(200);
    assert_eq!(names(&listed), ["never", "third", "later"]);
    let file = server.ask(&Request::new("GET", "/v1/policies").header("Accept", "application/yaml"));
    assert_eq!(file.header("content-type"), Some("application/yaml; charset=utf-8"));
    let again = load(&server, "?replace=true", &file.body).with(200);
    assert_eq!((&again["changes"], again["unchanged"].as_array().map(Vec::len)), (&json!([]), Some(3)));
    assert_eq!(server.get("/v1/policies/later").with(200)["place"], 3);
    server.delete("/v1/policies/third").with(200);
    let audit = server.get("/v1/policies/audit?name=third").with(200);
    let what: Vec<&Value> =
        audit["changes"].as_array().expect("it is a list").iter().map(|change| &change["what"]).collect();
    assert_eq!(what, ["deleted", "added"]);
}

#[test]
fn a_set_with_one_bad_policy_changes_nothing_and_says_all_that_is_wrong() {
    let server = Server::start();
    let bad = "- {name: good, flow: broken, maxAttempts: 2, backOff: 1s}\n- {name: bad, maxAttempts: 1, backOff: 1s}\n";
    let answer = load(&server, "", bad);
    let (status, kind, _) = answer.problem();
    assert_eq!((status, kind.as_str()), (422, "invalid"));
    let problems = answer.json()["problems"].clone();
    assert!(problems.as_array().is_some_and(|problems| problems.iter().all(|problem| problem["line"] == 2)));
    assert_eq!(names(&server.get("/v1/policies").with(200)), Vec::<&str>::new());
    load(&server, "", POLICIES).with(200);
    let taken = load(&server, "", "- {name: later, flow: broken, maxAttempts: 2, backOff: 1s}");
    assert_eq!(taken.problem().1, "invalid");
}

#[test]
fn what_policies_would_do_is_shown_and_then_done() {
    let server = Server::start();
    let run = server.start_run("broken");
    load(&server, "", POLICIES).with(200);
    let preview = server.post("/v1/policies/preview", &json!({"names": ["later"]})).with(200);
    let trial = &preview["trials"][0];
    assert_eq!((&trial["policy"], &trial["matched"]), (&json!("later"), &json!(1)));
    assert_eq!(trial["runs"][0]["run"], run.as_str());
    let mut draft = json!({"policies": [{"name": "draft", "flow": "broken", "errorSubstring": "emulated stall",
        "maxAttempts": 5, "backOff": {"delay": 1}}]});
    assert_eq!(server.post("/v1/policies/preview", &draft).with(200)["trials"][0]["matched"], 1);
    let past = json!({"names": ["later"], "since": "1h"});
    assert_eq!(server.post("/v1/policies/backtest", &past).with(200)["trials"][0]["matched"], 1);
    draft["since"] = json!("1h");
    assert_eq!(server.post("/v1/policies/backtest", &draft).with(200)["trials"][0]["matched"], 1);
    draft["since"] = json!(null);
    let (status, kind, detail) = server.post("/v1/policies/backtest", &draft).problem();
    assert_eq!((status, kind.as_str()), (400, "bad-request"), "{detail}");
    let applied = server.post("/v1/policies/apply", &json!({"names": ["later"]})).with(200);
    assert_eq!(applied["moved"], 1);
    assert_eq!(server.rest(&run)["nextAutoResumeReason"], "later");
    server.post("/v1/policies/later/disable", &json!({})).with(200);
    assert_eq!(server.get("/v1/policies/later").with(200)["enabled"], false);
    server.post("/v1/policies/later/enable", &json!({})).with(200);
    assert_eq!(server.get("/v1/policies/later").with(200)["enabled"], true);
}

#[test]
fn automatic_resumes_are_paused_as_a_whole() {
    let server = Server::start();
    load(&server, "", "- {name: soon, flow: broken, maxAttempts: 9, backOff: 1ms}").with(200);
    let (status, kind, _) = server.post("/v1/policies/pause", &json!({})).problem();
    assert_eq!((status, kind.as_str()), (400, "bad-request"));
    let paused = server.post("/v1/policies/pause", &json!({"reason": "look first"})).with(200);
    assert_eq!(
        (&paused["already"], &paused["policiesPaused"]["reason"]),
        (&json!(false), &json!("look first"))
    );
    let run = server.start_run("broken");
    let resting = server.rest(&run);
    assert_eq!((&resting["state"], &resting["policiesPaused"]["by"]), (&json!("error"), &json!("local")));
    server.post("/v1/policies/unpause", &json!({"rate": 100})).with(200);
    let done = server.get(&format!("/v1/runs/{run}?wait=30s&until=final")).with(200);
    assert_eq!(done["state"], "completed");
}

#[test]
fn a_group_of_errors_is_shown_and_a_policy_suggested_for_it() {
    let server = Server::start();
    let runs = [server.start_run("broken"), server.start_run("broken")];
    let groups = server.get("/v1/errors?flow=broken").with(200);
    let group = &groups["groups"][0];
    assert_eq!((&group["action"], &group["open"]), (&json!("broken.fetch"), &json!(2)));
    let name = group["group"].as_str().expect("it is a text");
    let shown = server.get(&format!("/v1/errors/{name}")).with(200);
    assert_eq!(shown["now"].as_array().map(Vec::len), Some(runs.len()));
    let suggested = server.ask(&Request::new("POST", &format!("/v1/errors/{name}/suggest"))).with(200);
    assert_eq!(suggested["trial"]["matched"], 2);
    assert_eq!(names(&server.get("/v1/policies").with(200)), Vec::<&str>::new());
    let yaml = suggested["yaml"].as_str().expect("it is a text");
    load(&server, "", yaml).with(200);
    assert_eq!(server.get("/v1/errors?flow=nothing").with(200)["groups"], json!([]));
    assert_eq!(server.get("/v1/errors/err_000000000000").problem().1, "not-found");
}
