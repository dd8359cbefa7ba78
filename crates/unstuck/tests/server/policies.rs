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

fn put(server: &Server, path: &str, kind: &str, body: &str) -> crate::client::Answer {
    server.ask(&Request::new("PUT", path).body(kind, body))
}

#[test]
fn the_whole_set_is_replaced_if_it_is_still_as_it_was_seen() {
    let server = Server::start();
    load(&server, "", POLICIES).with(200);
    let seen = server.get("/v1/policies");
    let tag = seen.header("etag").expect("it has a tag").to_owned();
    assert_eq!(tag, format!("\"{}\"", seen.with(200)["version"]));
    let only = "- {name: later, errorSubstring: emulated, maxAttempts: 9, backOff: 2d}\n";
    let replace = |query: &str, tag: &str| {
        let request = Request::new("PUT", &format!("/v1/policies{query}")).header("If-Match", tag);
        server.ask(&request.body("application/yaml", only))
    };
    let tried = replace("?dryRun=true", &tag).with(200);
    let what = |changes: &Value| -> Vec<String> {
        let changes = changes["changes"].as_array().expect("it is a list").iter();
        changes.map(|change| format!("{} {}", change["policy"], change["what"]).replace('"', "")).collect()
    };
    assert_eq!(
        (&tried["dryRun"], what(&tried)),
        (&json!(true), vec!["never deleted".into(), "later changed".into()])
    );
    assert_eq!(names(&server.get("/v1/policies").with(200)), ["never", "later"], "nothing was changed");
    assert_eq!(what(&replace("", &tag).with(200)), ["never deleted", "later changed"]);
    assert_eq!(names(&server.get("/v1/policies").with(200)), ["later"]);
    for query in ["", "?dryRun=true"] {
        assert_eq!(replace(query, &tag).problem().1, "changed", "somebody has changed them: {query}");
    }
    assert_eq!(replace("", "12").problem().0, 400, "this is no tag");
    let known = server.get("/v1/policies").header("etag").expect("it has a tag").to_owned();
    let again = server.ask(&Request::new("GET", "/v1/policies").header("If-None-Match", &known));
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    // Nothing is left only where that is said.
    assert_eq!(put(&server, "/v1/policies", "application/yaml", "").problem().1, "invalid");
    assert_eq!(
        put(&server, "/v1/policies", "application/json", " []").with(200)["changes"][0]["what"],
        "deleted"
    );
    assert_eq!(names(&server.get("/v1/policies").with(200)), Vec::<&str>::new());
}

#[test]
fn one_policy_is_put_under_its_name_and_read_as_a_file() {
    let server = Server::start();
    let policy = "{name: later, errorSubstring: emulated, maxAttempts: 9, backOff: 1d}";
    let added = put(&server, "/v1/policies/later", "application/yaml", policy).with(200);
    assert_eq!(added["changes"][0]["what"], "added");
    let tag = server.get("/v1/policies/later").header("etag").expect("it has a tag").to_owned();
    let changed = policy.replace('9', "8");
    let request = Request::new("PUT", "/v1/policies/later").header("If-Match", &tag);
    let request = request.body("application/yaml", changed.as_str());
    assert_eq!(server.ask(&request).with(200)["changes"][0]["what"], "changed");
    assert_eq!(server.ask(&request).problem().1, "changed");
    let file = server.ask(&Request::new("GET", "/v1/policies/later").header("Accept", "application/yaml"));
    assert_eq!(
        put(&server, "/v1/policies/later", "application/yaml", &file.body).with(200)["unchanged"],
        json!(["later"])
    );
    for (path, body) in [("/v1/policies/other", policy), ("/v1/policies/later", POLICIES)] {
        assert_eq!(put(&server, path, "application/yaml", body).problem().0, 400, "{path}");
    }
    let problem = server.get("/v1/policies/latr").json();
    assert_eq!((&problem["what"], &problem["similar"]), (&json!("policy"), &json!(["later"])));
    for problem in [server.get("/v1/flows/brokn"), server.post("/v1/runs", &json!({"flow": "brokn"}))] {
        assert_eq!((problem.status, &problem.json()["similar"]), (404, &json!(["broken"])));
    }
}

#[test]
fn policies_are_put_into_an_order_and_dry_runs_change_nothing() {
    let server = Server::start();
    load(&server, "", POLICIES).with(200);
    let order = |query: &str, names: &[&str]| {
        put(
            &server,
            &format!("/v1/policies/order{query}"),
            "application/json",
            &json!({"names": names}).to_string(),
        )
    };
    let listed =
        || names(&server.get("/v1/policies").with(200)).iter().map(ToString::to_string).collect::<Vec<_>>();
    order("?dryRun=true", &["later", "never"]).with(200);
    assert_eq!(listed(), ["never", "later"]);
    order("", &["later", "never"]).with(200);
    assert_eq!(listed(), ["later", "never"]);
    assert_eq!(order("", &["later"]).problem().1, "invalid");
    let tried =
        load(&server, "?dryRun=true", "{name: new, flow: broken, maxAttempts: 2, backOff: 1s}").with(200);
    assert_eq!(tried["changes"], json!([{"policy": "new", "id": null, "what": "added", "version": 1}]));
    assert_eq!(load(&server, "?dryRun=true", POLICIES).problem().1, "invalid", "they are there");
    let run = server.start_run("broken");
    server.post("/v1/policies/later/disable", &json!({"reason": "look first"})).with(200);
    load(&server, "", "{name: soon, flow: broken, priority: 99, maxAttempts: 2, backOff: 1d}").with(200);
    let tried = server.post("/v1/policies/apply?dryRun=true", &json!({})).with(200);
    assert_eq!((&tried["dryRun"], &tried["moved"], &tried["bulk"]), (&json!(true), &json!(1), &Value::Null));
    assert_eq!(server.rest(&run)["nextAutoResumeReason"], "later");
    let applied = server.post("/v1/policies/apply", &json!({"reason": "the new one"})).with(200);
    assert_eq!(applied["moved"], 1);
    assert_eq!(server.rest(&run)["nextAutoResumeReason"], "soon");
    let entries = server.get("/v1/audit?what=policy.applied").with(200);
    assert_eq!(entries["entries"][0]["reason"], "the new one");
    assert_eq!(server.get("/v1/policies/audit?name=later").with(200)["changes"][0]["reason"], "look first");
}

#[test]
fn what_is_in_error_and_the_errors_of_a_group_are_read_in_pages() {
    let server = Server::start();
    let mut runs: Vec<String> = (0..5).map(|_| server.start_run("broken")).collect();
    let groups = server.get("/v1/errors?open=true").with(200);
    let name = groups["groups"][0]["group"].as_str().expect("it is a text");
    let pages = |list: &str, query: &str| -> Vec<String> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/v1/errors/{name}/{list}?limit=2{query}{after}")).with(200);
            let lines = page[list].as_array().expect("it is a list");
            assert!(lines.len() <= 2);
            found.extend(lines.iter().map(|line| line["run"].as_str().expect("it is an id").to_owned()));
            let Some(next) = page["next"].as_str() else { return found };
            after = format!("&after={next}");
        }
    };
    assert_eq!(pages("open", ""), runs);
    runs.reverse();
    assert_eq!(pages("records", ""), runs, "newest first");
    assert_eq!(pages("records", "&since=1h"), runs);
    assert_eq!(pages("records", "&until=1h"), Vec::<String>::new());
    for list in ["open", "records"] {
        for after in ["x", "run_0000000000000", "1.2.3.4.5", "-1"] {
            let (status, kind, _) = server.get(&format!("/v1/errors/{name}/{list}?after={after}")).problem();
            assert_eq!((status, kind.as_str()), (400, "bad-cursor"), "{list} {after}");
        }
        assert_eq!(server.get(&format!("/v1/errors/err_000000000000/{list}")).problem().1, "not-found");
    }
    for run in &runs {
        server.post(&format!("/v1/runs/{run}/ack"), &json!({"reason": "known"})).with(200);
    }
    assert_eq!(server.get("/v1/errors?open=true").with(200)["groups"], json!([]));
    assert_eq!(pages("open", "").len(), 5, "they are in error still");
}
