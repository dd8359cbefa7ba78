//! Replay of what a disk gives back: what cannot be is refused with a sentence, and is never a panic.

use serde_json::{Value, json};
use unstuck_core::event::Event;
use unstuck_core::model::run::Run;
use unstuck_core::replay::replay_event;

fn event(seq: u64, facts: &Value) -> Event {
    let event = json!({ "seq": seq, "generation": 1, "at": 1000, "by": "Engine", "facts": facts });
    serde_json::from_value(event).expect("an event")
}

fn started() -> Value {
    json!({ "Started": { "run": 5, "flow": 1, "steps": 2, "input": { "Inline": null }, "origin": "Root", "root_flow": "f" } })
}

fn unit(step: u64, item: Option<u64>, fact: &Value) -> Value {
    json!({ "Unit": { "unit": { "step": step, "item": item }, "fact": fact } })
}

/// A run of two steps, the second of which has three items.
fn run() -> Option<Run> {
    let mut run = None;
    let items = json!({ "ItemsKnown": { "step": 1, "values": [{ "Inline": [1, 2, 3] }], "total": 3 } });
    let queued = unit(0, None, &json!({ "Queued": { "attempt": 1 } }));
    replay_event(&mut run, &event(1, &json!([started(), queued, items]))).expect("it is a history");
    run
}

#[test]
fn what_can_be_is_applied() {
    let mut run = run();
    let facts = json!([unit(1, Some(2), &json!({ "Queued": { "attempt": 1 } }))]);
    replay_event(&mut run, &event(2, &facts)).expect("it is a history");
    assert_eq!(run.map(|run| (run.seq, run.steps.len())), Some((2, 2)));
}

#[test]
fn what_cannot_be_is_refused() {
    let rerun = |generation: u64, steps: u64, keep: Value| {
        json!([{ "Reran": { "generation": generation, "flow": 1, "deadline": null, "steps": steps, "keep": keep,
            "keep_children": true, "serves": null, "limit": null } }])
    };
    let cases = [
        (3, json!(["Unpaused"]), "it has number 3, but 2 comes next"),
        (1, json!(["Unpaused"]), "it has number 1, but 2 comes next"),
        (2, json!([started()]), "it starts a run that already exists"),
        (2, json!([unit(2, None, &json!("Held"))]), "it names step #2, but the run has 2 steps"),
        (2, json!([unit(65_535, Some(0), &json!("Held"))]), "it names step #65535, but the run has 2 steps"),
        (2, json!([unit(1, Some(3), &json!("Held"))]), "it names item 3 of step #1, which has 3"),
        (2, json!([unit(1, Some(4_294_967_295), &json!("Held"))]), "it names item 4294967295 of step #1"),
        (
            2,
            json!([unit(0, None, &json!({ "Queued": { "attempt": 4_294_967_295_u64 } }))]),
            "it names attempt 4294967295 of step #0, which has had 1",
        ),
        (2, json!([{ "ItemsKnown": { "step": 9, "values": [], "total": 0 } }]), "it names step #9"),
        (
            2,
            json!([{ "ItemsKnown": { "step": 0, "values": [], "total": 70 } }]),
            "it names 70 items, but has only 0 parts of 64",
        ),
        (2, json!([{ "ItemsEnded": { "step": 2, "how": "Failed" } }]), "it names step #2"),
        (
            2,
            json!([{ "ItemsCompleted": { "step": 2, "output": { "Inline": null } } }]),
            "it names step #2, but the run has 2 steps",
        ),
        (2, rerun(2, 1, json!([1])), "it names step #1, but the run has 1 steps"),
        (2, rerun(2, 9, json!([7])), "it names step #7, but the run has 2 steps"),
        (2, rerun(4, 2, json!([])), "it starts generation 4 after generation 1"),
        (2, rerun(2, 2, json!([])), "it names generation 1, but belongs to generation 2"),
    ];
    for (seq, facts, says) in cases {
        let told = replay_event(&mut run(), &event(seq, &facts)).expect_err(says);
        assert!(told.contains(says), "{facts}: {told}");
    }
}

#[test]
fn a_history_begins_with_a_start() {
    for facts in [json!([]), json!(["Unpaused"])] {
        let told = replay_event(&mut None, &event(1, &facts)).expect_err("no start");
        assert!(told.contains("it does not start the run"), "{told}");
    }
}
