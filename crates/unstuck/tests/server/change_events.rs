//! What schedules and bulk actions do by themselves, in streams of events.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::event_stream::EventStream;
use crate::events::facts_after;
use crate::support::{Server, Store, wait_until};

/// A run a second, of which the first never ends.
const BLOCKED: &str = "\
flow: blocked
schedule: {every: 1s, overlap: skip}
steps: [{id: approve, signal: approve}]
";
const EVERY_SECOND: &str = "flow: tick\nschedule: every 1s\nsteps: [{id: only, set: 1}]\n";

fn cursor(server: &Server) -> String {
    server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned()
}

/// The next message of this class.
fn next_of(stream: &mut EventStream, class: &str) -> Value {
    let mut messages = std::iter::from_fn(|| stream.next());
    messages.find(|message| message.kind == class).expect("the stream goes on").data
}

#[test]
fn what_a_schedule_starts_and_leaves_out_is_told_as_it_happens() {
    let server = Server::start_on(&Store::new(), &[]);
    let begin = cursor(&server);
    let mut live = EventStream::open(&server, &format!("?after={begin}&class=schedule"), None);
    server.apply(BLOCKED).with(200);
    let fired = next_of(&mut live, "schedule");
    let told = [&fired["facts"], &fired["flow"], &fired["by"], &fired["id"]];
    let run = server.get("/v1/runs?flow=blocked").with(200)["runs"][0].clone();
    assert_eq!(json!(told), json!([["schedule.fired"], "blocked", "engine", run["id"]]));
    let at = run["key"].as_str().and_then(|key| key.strip_prefix("schedule:")).expect("it has a key");
    let run = fired["run"].as_str().expect("it is an id");
    assert_eq!(fired["what"], json!([format!("the schedule of flow `blocked` started {run} for {at}")]));
    let skipped = next_of(&mut live, "schedule");
    assert_eq!((&skipped["facts"], &skipped["by"]), (&json!(["schedule.skipped"]), &json!("engine")));
    let sentence = skipped["what"][0].as_str().expect("it is a text");
    assert!(
        sentence.starts_with("the schedule of flow `blocked` skipped 1 time, the last for 20"),
        "{sentence}"
    );
    let audit = server.get("/v1/audit?what=schedule.skipped").with(200);
    assert_eq!(audit["entries"][0]["by"], "engine", "{audit}");
}

#[test]
fn what_people_do_to_a_schedule_is_told_and_what_it_missed() {
    let store = Store::new();
    let server = Server::start_on(&store, &[]);
    server.apply(EVERY_SECOND).with(200);
    let begin = cursor(&server);
    for verb in ["pause", "fire", "unpause"] {
        let answer = server.post(&format!("/v1/schedules/tick/{verb}"), &json!({"reason": "a test"}));
        assert!(matches!(answer.status, 200 | 201), "{}", answer.body);
    }
    let told = EventStream::open(&server, &format!("?after={begin}&class=schedule"), None).until_caught_up();
    let by_people: Vec<&Value> = told.iter().filter(|event| event["by"] == "user").collect();
    let facts: Vec<&Value> = by_people.iter().map(|event| &event["facts"][0]).collect();
    assert_eq!(json!(facts), json!(["schedule.paused", "schedule.fired", "schedule.unpaused"]));
    assert!(by_people[1]["run"].is_string() && by_people.iter().all(|event| event["flow"] == "tick"));
    server.kill();
    // Of the times that pass meanwhile, all but the last are missed.
    thread::sleep(Duration::from_millis(2_500));
    let server = Server::start_on(&store, &[]);
    wait_until("it is told", || !facts_after(&server, &begin, "fact=schedule.missed").is_empty());
    assert!(facts_after(&server, &begin, "flow=tick&class=schedule").len() > 4);
}

#[test]
fn waves_and_ends_of_bulk_actions_are_told() {
    let server = Server::start();
    server.apply("flow: hopeless\nsteps:\n  - {id: fetch, emulate: {sequence: [stall]}}\n").with(200);
    for flow in ["broken", "broken", "broken", "hopeless", "hopeless"] {
        server.start_run(flow);
    }
    let begin = cursor(&server);
    let resume = |flow: &str| {
        let order = json!({"action": "resume", "flow": flow, "canary": 1});
        server.post("/v1/bulk", &order).with(202)["bulk"].as_str().expect("it is an id").to_owned()
    };
    let bulk = resume("broken");
    let wanted = ["bulk.begun", "bulk.wave", "bulk.done"];
    wait_until("it is done", || facts_after(&server, &begin, "class=bulk").len() >= wanted.len());
    assert_eq!(facts_after(&server, &begin, "class=bulk"), wanted);
    let done = format!("?after={begin}&fact=bulk.done");
    let done = EventStream::open(&server, &done, None).until_caught_up();
    let sentence = format!("bulk action {bulk} is done: 3 passed, 0 failed again, 0 refused");
    assert_eq!((&done[0]["what"], &done[0]["bulk"]), (&json!([sentence]), &json!(bulk)));
    let begin = cursor(&server);
    let bulk = resume("hopeless");
    wait_until("it stops", || facts_after(&server, &begin, "fact=bulk.stopped").len() == 1);
    let stopped = format!("?after={begin}&fact=bulk.stopped");
    let stopped = EventStream::open(&server, &stopped, None).until_caught_up();
    let sentence = format!(
        "bulk action {bulk} stopped: 1 step of wave 1 failed again; the remaining 1 were not changed"
    );
    assert_eq!((&stopped[0]["what"], &stopped[0]["by"]), (&json!([sentence]), &json!("engine")));
}
