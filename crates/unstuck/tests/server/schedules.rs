//! Schedules of a server: runs that the clock starts, over restarts and kills, and what people do to them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::{Server, Store, wait_until};

const EVERY_SECOND: &str = "flow: tick\nschedule: every 1s\nsteps: [{id: only, set: 1}]\n";
const NIGHTLY: &str = "\
flow: nightly
schedule: {cron: 0 3 * * *, timeZone: Europe/Berlin, input: {full: true}}
steps: [{id: only, set: '${input.full}'}]
";

/// The keys of all runs of a flow, each with how many runs have it.
fn keys(server: &Server, flow: &str) -> BTreeMap<String, usize> {
    let page = server.get(&format!("/v1/runs?flow={flow}&limit=1000")).with(200);
    let mut keys = BTreeMap::new();
    for run in page["runs"].as_array().expect("it is a list") {
        *keys.entry(run["key"].as_str().expect("it has a key").to_owned()).or_default() += 1;
    }
    keys
}

#[test]
fn each_time_has_one_run_however_often_the_server_is_killed() {
    let store = Store::new();
    let server = Server::start_on(&store, &[]);
    server.apply(EVERY_SECOND).with(200);
    server.kill();
    let mut seen = 0;
    for kill in 0..6 {
        let server = Server::start_on(&store, &[]);
        wait_until("one more run", || keys(&server, "tick").len() > seen);
        // Around the moment at which the next one is due, earlier or later each time.
        std::thread::sleep(Duration::from_millis(kill * 170));
        seen = keys(&server, "tick").len();
        server.kill();
    }
    let server = Server::start_on(&store, &[]);
    wait_until("one more run", || keys(&server, "tick").len() > seen);
    let keys = keys(&server, "tick");
    assert!(keys.iter().all(|(key, count)| key.starts_with("schedule:") && *count == 1), "{keys:?}");
    let shown = server.get("/v1/schedules/tick").with(200);
    let fired = shown["fired"].as_u64().expect("a count");
    assert!(fired >= keys.len() as u64, "none is lost: {shown}");
    assert_eq!(shown["spec"], "every 1s");
    server.stop().assert_clean();
}

#[test]
fn schedules_are_listed_and_shown_with_their_next_ten_times() {
    let server = Server::start();
    assert_eq!(server.get("/v1/schedules").with(200), json!({"schedules": [], "next": null}));
    let applied = server.apply(NIGHTLY).with(200);
    assert!(applied["flows"][0]["next"].is_string(), "{applied}");
    let shown = server.get("/v1/schedules/nightly").with(200);
    let fields = ["flow", "spec", "timeZone", "overlap", "paused", "last", "fired", "missed", "input"];
    let told: Vec<&Value> = fields.iter().map(|field| &shown[field]).collect();
    let wanted = json!(["nightly", "0 3 * * *", "Europe/Berlin", "skip", null, null, 0, 0, {"full": true}]);
    assert_eq!(json!(told), wanted);
    assert_eq!(shown["catchUp"], json!({"limit": 1, "within": null}));
    let next = shown["next"].as_array().expect("it is a list");
    assert_eq!(next.len(), 10);
    assert!(
        next.iter().all(|at| at.as_str().is_some_and(|at| at.contains("T01:00") || at.contains("T02:00")))
    );
    let listed = server.get("/v1/schedules?limit=1").with(200);
    assert_eq!(listed["schedules"][0]["flow"], "nightly");
    assert_eq!(server.get("/v1/flows/nightly").with(200)["schedule"], "0 3 * * * Europe/Berlin");
    assert_eq!(server.get("/v1/flows/quick").with(200).get("schedule"), None);
    for path in ["/v1/schedules/quick", "/v1/schedules/gone"] {
        let refused = server.get(path).with(404);
        assert_eq!(refused["type"], "/problems/not-found", "{refused}");
    }
}

#[test]
fn a_schedule_is_paused_unpaused_and_fired_by_hand_once() {
    let server = Server::start();
    server.apply(NIGHTLY).with(200);
    let paused = server.post("/v1/schedules/nightly/pause", &json!({"reason": "moving"})).with(200);
    assert_eq!((&paused["already"], &paused["paused"]["reason"]), (&json!(false), &json!("moving")));
    assert_eq!(paused["next"], json!([]));
    assert_eq!(server.post("/v1/schedules/nightly/pause", &json!({})).with(200)["already"], true);
    let fire = Request::new("POST", "/v1/schedules/nightly/fire")
        .json(&json!({"reason": "a test"}))
        .header("Idempotency-Key", "once");
    let (first, again) = (server.ask(&fire), server.ask(&fire));
    let (first, again) = (first.with(201), again.with(201));
    assert_eq!(first["run"], again["run"], "a repeat starts nothing");
    let run = server.rest(first["run"].as_str().expect("it is an id"));
    assert_eq!((&run["state"], &run["output"]), (&json!("completed"), &json!(true)));
    assert!(run["key"].as_str().is_some_and(|key| key.starts_with("schedule:")), "{run}");
    assert_eq!(server.post("/v1/schedules/nightly/unpause", &json!({})).with(200)["already"], false);
    let shown = server.get("/v1/schedules/nightly").with(200);
    assert_eq!((&shown["fired"], &shown["last"]["run"]), (&json!(1), &first["run"]));
    let audit = server.get("/v1/audit").with(200);
    let what = |entry: &Value| (entry["what"].clone(), entry["reason"].clone());
    let told: Vec<(Value, Value)> =
        audit["entries"].as_array().expect("a list").iter().map(what).take(3).collect();
    let wanted = [
        ("schedule.unpause", Value::Null),
        ("schedule.fire", json!("a test")),
        ("schedule.pause", json!("moving")),
    ];
    assert_eq!(told, wanted.map(|(what, reason)| (json!(what), reason)));
    let refused = server.post("/v1/schedules/quick/fire", &json!({})).with(404);
    assert!(refused["detail"].as_str().is_some_and(|said| said.contains("has no schedule")), "{refused}");
}

#[test]
fn a_schedule_goes_with_its_flow() {
    let server = Server::start();
    server.apply(NIGHTLY).with(200);
    server.post("/v1/schedules/nightly/pause", &json!({})).with(200);
    server.apply(&NIGHTLY.replace("0 3 * * *", "30 4 * * *")).with(200);
    let shown = server.get("/v1/schedules/nightly").with(200);
    assert_eq!(shown["spec"], "30 4 * * *");
    assert!(shown["paused"].is_object(), "a new version does not end the pause: {shown}");
    assert_eq!(server.delete("/v1/flows/nightly").status, 204);
    assert_eq!(server.get("/v1/schedules").with(200)["schedules"], json!([]));
    server.stop().assert_clean();
}

#[test]
fn commands_show_the_same_on_a_store_and_on_its_server() {
    let store = Store::new();
    std::fs::write(store.folder().join("nightly.yaml"), NIGHTLY).expect("written");
    let (code, said) = store.run(&["check", "nightly.yaml"]);
    assert!(code == 0 && said.contains("`nightly` is scheduled (0 3 * * * Europe/Berlin); next: "), "{said}");
    let (code, said) = store.run(&["flow", "apply", "nightly.yaml"]);
    assert!(code == 0 && said.contains("A server starts its next run by its schedule at "), "{said}");
    let (_, said) = store.run(&["schedule", "show", "nightly"]);
    assert!(said.contains("No server has taken up this schedule yet"), "{said}");
    let (code, said) = store.run(&["schedule", "pause", "nightly", "--reason", "moving"]);
    assert!(
        code == 0 && said.starts_with("Paused the schedule.") && said.contains("by ada: moving"),
        "{said}"
    );
    let list = store.run(&["schedule", "list"]);
    assert!(list.1.contains("nightly") && list.1.contains("paused"), "{}", list.1);
    let server = Server::start_on(&store, &[]);
    let url = format!("http://{}", server.address);
    let remote = store.run(&["schedule", "list", "--server", &url]);
    assert_eq!(remote, list);
    let (code, said) = store.run(&["schedule", "unpause", "nightly", "--server", &url]);
    assert!(code == 0 && said.starts_with("The schedule continues."), "{said}");
    let (code, said) = store.run(&["schedule", "fire", "nightly", "--server", &url]);
    assert!(code == 0 && said.starts_with("Started a run."), "{said}");
    let (code, said) = store.run(&["schedule", "fire", "nothing"]);
    assert!(code == 5 && said.contains("there is no flow `nothing`"), "{code} {said}");
    server.stop().assert_clean();
}
