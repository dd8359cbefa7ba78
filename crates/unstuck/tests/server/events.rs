//! Streams of events: nothing is missed between a list and its stream, over restarts, and by slow readers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::client::Request;
use crate::event_stream::{EventStream, name_of};
use crate::support::{Server, wait_until};

fn is_end(run: &str) -> impl Fn(&Value) -> bool + '_ {
    move |event| event["run"] == run && event["state"] == "completed"
}

/// Lets an order go through.
fn approve(server: &Server, run: &str) {
    server.post(&format!("/v1/runs/{run}/signal"), &json!({"name": "approve"})).with(200);
}

#[test]
fn a_stream_from_a_list_begins_where_the_list_ends() {
    let server = Server::start();
    let before = server.start_order("o-1");
    let list = server.get("/v1/runs");
    let cursor = list.header("unstuck-events").expect("it says where it ends").to_owned();
    // What happens before the stream is opened is told too.
    let after = server.start_order("o-2");
    approve(&server, &before);
    let mut stream = EventStream::open(&server, &format!("?after={cursor}"), None);
    let told = stream.until(is_end(&before));
    let seen: BTreeSet<(String, u64)> = told.iter().map(name_of).collect();
    assert_eq!(seen.len(), told.len(), "nothing comes twice");
    let wanted = |run: &str, from: u64| {
        let history = server.get(&format!("/v1/runs/{run}/history")).with(200);
        let events = history["events"].as_array().expect("it is a list").clone();
        let numbers = events.into_iter().filter_map(|event| event["number"].as_u64());
        numbers.filter(|number| *number >= from).map(|number| (run.to_owned(), number)).collect::<Vec<_>>()
    };
    // The list shows the first event of the first run, and nothing of the second.
    let all: BTreeSet<_> = wanted(&before, 2).into_iter().chain(wanted(&after, 1)).collect();
    assert_eq!(seen, all);
}

#[test]
fn a_place_that_others_have_read_past_is_told_to_its_end() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let mut first = EventStream::open(&server, &format!("?after={begin}"), None);
    let mut runs = Vec::new();
    // Each run is a page of its own for the one who follows.
    for number in 0..4 {
        let run = server.start_order(&format!("o-{number}"));
        first.until(|event| event["run"] == run.as_str());
        runs.push(run);
    }
    drop(first);
    // Nobody reads while this one begins.
    runs.push(server.start_order("o-last"));
    // Nothing happens any more, and still all of it is told, before `caughtUp`.
    let told = EventStream::open(&server, &format!("?after={begin}"), None).until_caught_up();
    let told: Vec<String> = told.iter().map(|event| name_of(event).0).collect();
    assert_eq!(told, runs);
}

#[test]
fn a_stream_is_resumed_after_the_server_was_restarted() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let mut stream = EventStream::open(&server, &format!("?after={begin}"), None);
    let first = server.start_order("o-1");
    let mut told = stream.until(|event| event["run"] == first.as_str());
    let stopped_at = stream.last_id.clone();
    // This is told while nobody reads.
    approve(&server, &first);
    let second = server.start_order("o-2");
    let store = server.stop();
    let last = std::iter::from_fn(|| stream.next()).last().expect("it said something");
    assert_eq!(last.kind, "bye", "{last:?}");

    let server = Server::start_on(&store, &[]);
    approve(&server, &second);
    let mut resumed = EventStream::open(&server, "?after=0.0.0", stopped_at.as_deref().or(Some(&begin)));
    told.extend(resumed.until(is_end(&second)));
    let mut by_run: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut contents: BTreeMap<(String, u64), Value> = BTreeMap::new();
    for event in &told {
        let (run, number) = name_of(event);
        by_run.entry(run.clone()).or_default().insert(number);
        let known = contents.entry((run, number)).or_insert_with(|| event.clone());
        assert_eq!(known, event, "what comes twice is the same");
    }
    for run in [first, second] {
        let history = server.get(&format!("/v1/runs/{run}/history")).with(200);
        let count = history["events"].as_array().expect("it is a list").len() as u64;
        assert_eq!(by_run[&run], (1..=count).collect(), "{run}");
    }
}

#[test]
fn a_stream_tells_only_what_its_filters_let_through() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let (order, held) = (server.start_order("o-1"), server.start_run("held"));
    approve(&server, &order);
    server.rest(&order);
    let told = |filter: &str| -> Vec<Value> {
        EventStream::open(&server, &format!("?after={begin}&{filter}"), None).until_caught_up()
    };
    let all = told("");
    assert!(told(&format!("run={order}")).iter().all(|event| event["run"] == order.as_str()));
    assert!(told("flow=held").iter().all(|event| event["run"] == held.as_str()));
    assert_eq!(told("flow=held&flow=order").len(), all.len());
    assert_eq!(told("flow=nothing").len(), 0);
    let states: Vec<Value> = told("state=held").iter().map(|event| event["state"].clone()).collect();
    assert!(!states.is_empty() && states.iter().all(|state| state == "held"), "{states:?}");
    let with_fact = told("fact=run.completed");
    assert_eq!(with_fact.iter().map(|event| name_of(event).0).collect::<Vec<_>>(), [order.as_str()]);
    assert_eq!(server.get("/v1/events?state=hold").problem().0, 400);
    assert_eq!(server.get("/v1/events?run=run_0000000000000").problem().0, 404);
}

#[test]
fn two_readers_are_told_the_same() {
    let server = Server::start();
    let mut streams = [EventStream::open(&server, "", None), EventStream::open(&server, "", None)];
    let run = server.start_order("o-1");
    approve(&server, &run);
    let told = streams.each_mut().map(|stream| stream.until(is_end(&run)));
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].first().map(name_of), Some((run, 1)));
}

#[test]
fn a_reader_that_takes_nothing_holds_up_nobody() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let mut silent: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for connection in &mut silent {
        let request = Request::new("GET", &format!("/v1/events?after={begin}"));
        connection.send(&request.bytes()).expect("it is sent");
    }
    let mut reader = EventStream::open(&server, "", None);
    // More than the sockets of those who take nothing can hold.
    let filler = "x".repeat(100);
    for batch in 0..10 {
        let runs: Vec<Value> = (0..1_000)
            .map(|number| json!({"flow": "quick", "key": format!("{batch}-{number}-{filler}")}))
            .collect();
        server.post("/v1/runs/batch", &json!({"runs": runs})).with(200);
    }
    let run = server.start_order("last");
    approve(&server, &run);
    let told = reader.until(is_end(&run));
    let starts = told.iter().filter(|event| event["number"] == 1).count();
    assert_eq!(starts, 10_001);
    assert_eq!(server.get("/health/ready").status, 200);
}

#[test]
fn a_cursor_of_another_store_is_told_apart() {
    let server = Server::start();
    let other = Server::start();
    let cursor = other.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let mut stream = EventStream::open(&server, &format!("?after={cursor}"), None);
    assert_eq!(stream.next().map(|message| message.kind), Some("reset".to_owned()));
    assert!(stream.next().is_none());
}

#[test]
fn the_events_of_a_run_that_was_forgotten_are_left_out() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let forgotten = server.start_run("quick");
    let kept = server.start_run("quick");
    server.delete(&format!("/v1/runs/{forgotten}")).with(200);
    let told = EventStream::open(&server, &format!("?after={begin}"), None).until_caught_up();
    assert!(!told.is_empty() && told.iter().all(|event| event["run"] == kept.as_str()), "{told:?}");
}

/// The facts of what has happened after a cursor, by a filter.
pub(crate) fn facts_after(server: &Server, cursor: &str, filter: &str) -> Vec<String> {
    let told = EventStream::open(server, &format!("?after={cursor}&{filter}"), None).until_caught_up();
    let facts = told.iter().flat_map(|event| event["facts"].as_array().expect("it is a list").clone());
    facts.map(|fact| fact.as_str().expect("it is a text").to_owned()).collect()
}

#[test]
fn flows_policies_and_bulk_actions_are_told_too_and_over_a_restart() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let mut live = EventStream::open(&server, "?class=policy", None);
    let policy = json!({"name": "later", "flow": "broken", "maxAttempts": 2, "backOff": {"delay": 86400}});
    server.post("/v1/policies", &policy).with(200);
    // Nothing else happens that would wake those who wait.
    let mut told = std::iter::from_fn(|| live.next()).skip_while(|message| message.kind == "caughtUp");
    let first = told.next().expect("it is told at once");
    assert_eq!((first.kind.as_str(), &first.data["policy"]), ("policy", &json!("later")));
    server.apply("flow: another\nsteps:\n  - {id: only, set: 1}\n").with(200);
    assert_eq!(server.delete("/v1/flows/another?reason=old").status, 204);
    server.start_run("broken");
    server.post("/v1/bulk", &json!({"action": "cancel", "flow": "broken"})).with(202);
    wait_until("it is done", || facts_after(&server, &begin, "class=bulk").len() == 2);
    server.post("/v1/policies/later/disable", &json!({})).with(200);
    server.delete("/v1/policies/later").with(200);
    let policies = ["policy.added", "policy.disabled", "policy.deleted"];
    let flows = ["flow.applied", "flow.deleted"];
    let check = |server: &Server| {
        assert_eq!(facts_after(server, &begin, "class=policy"), policies);
        assert_eq!(facts_after(server, &begin, "class=flow"), flows);
        assert_eq!(facts_after(server, &begin, "flow=another"), flows);
        assert_eq!(facts_after(server, &begin, "class=bulk"), ["bulk.begun", "bulk.done"]);
        assert_eq!(facts_after(server, &begin, "fact=policy.deleted"), ["policy.deleted"]);
        assert_eq!(facts_after(server, &begin, "class=flow&class=bulk").len(), 4);
        assert_eq!(facts_after(server, &begin, "class=policy&state=held").len(), 0);
        let deleted = EventStream::open(server, &format!("?after={begin}&fact=flow.deleted"), None);
        let deleted = { deleted }.until_caught_up();
        assert_eq!((&deleted[0]["reason"], &deleted[0]["by"]), (&json!("old"), &json!("user")));
    };
    check(&server);
    let server = Server::start_on(&server.stop(), &[]);
    check(&server);
    assert_eq!(server.get("/v1/events?class=polcy").problem().0, 400);
    for cursor in ["x", "1.2", "1.2.3.4.5", "1.2.3.x"] {
        assert_eq!(server.get(&format!("/v1/events?after={cursor}")).problem().1, "bad-cursor", "{cursor}");
    }
}

#[test]
fn events_of_steps_are_told_by_action_and_the_last_of_each_run_in_an_interval() {
    let server = Server::start();
    let begin = server.get("/v1/runs").header("unstuck-events").expect("it has one").to_owned();
    let (broken, held) = (server.start_run("broken"), server.start_run("held"));
    let runs = |filter: &str| -> BTreeSet<String> {
        let told = EventStream::open(&server, &format!("?after={begin}&{filter}"), None).until_caught_up();
        told.iter().map(|event| name_of(event).0).collect()
    };
    for action in ["fetch", "broken.fetch"] {
        assert_eq!(runs(&format!("action={action}")), [broken.clone()].into());
    }
    assert_eq!(runs("action=fetch&action=upload"), [broken.clone(), held.clone()].into());
    assert_eq!(runs("action=held.fetch").len(), 0);
    let query = format!("?after={begin}&coalesce=200ms");
    let mut stream = EventStream::open(&server, &query, None);
    let last = stream.until_caught_up();
    let wanted = [("error", &broken), ("held", &held)];
    assert_eq!(last.len(), wanted.len(), "one of each: {last:?}");
    for (event, (state, run)) in last.iter().zip(wanted) {
        assert_eq!((&event["state"], &event["run"]), (&json!(state), &json!(run)));
    }
    // It goes on, and where it says that it is, nothing before is missing.
    server.post(&format!("/v1/runs/{broken}/resume"), &json!({})).with(200);
    stream.until(is_end(&broken));
}

#[test]
fn a_page_of_runs_goes_on_only_by_a_cursor() {
    let server = Server::start();
    for after in ["nonsense", "page.x", "run_", "@latest2"] {
        let (status, kind, detail) = server.get(&format!("/v1/runs?after={after}")).problem();
        assert_eq!((status, kind.as_str()), (400, "bad-cursor"), "{after}: {detail}");
    }
}
