//! States that are kept beside a history: what is read is what was written, or is refused with a sentence, and is never a
//! panic.

use serde_json::{Value, json};
use unstuck_core::event::Event;
use unstuck_core::model::run::Run;
use unstuck_core::replay::replay_event;
use unstuck_core::snapshot::{SNAPSHOT_FORMAT, read_snapshot, write_snapshot};

fn unit(step: u64, item: Option<u64>, fact: &Value) -> Value {
    json!({ "Unit": { "unit": { "step": step, "item": item }, "fact": fact } })
}

/// A run of three steps: the first has been tried once, the second has three items, one of them queued, and a signal has come.
fn run() -> Run {
    let worker = json!({ "name": "w", "incarnation": 1, "local": false });
    let facts = [
        json!([
            { "Started": { "run": 5, "flow": 1, "steps": 3, "input": { "Inline": null }, "origin": "Root", "root_flow": "f" } },
            unit(0, None, &json!({ "Queued": { "attempt": 1 } })),
        ]),
        json!([unit(0, None, &json!({ "Started": { "worker": worker } }))]),
        json!([
            unit(0, None, &json!({ "Ended": { "attempt": 1, "outcome": { "Stalled": { "cause": "no" } } } })),
            unit(0, None, &json!({ "Retry": { "due": 2000, "delay": 1000, "stalled": 1, "max": null } })),
        ]),
        json!([
            { "ItemsKnown": { "step": 1, "values": [{ "Inline": [1, 2, 3] }], "total": 3 } },
            unit(1, Some(0), &json!({ "Queued": { "attempt": 1 } })),
            { "SignalKept": { "name": "go", "payload": { "Stored": 7 } } },
        ]),
    ];
    let mut run = None;
    for (seq, facts) in (1u64..).zip(facts) {
        let event = json!({ "seq": seq, "generation": 1, "at": 1000, "by": "Engine", "facts": facts });
        let event: Event = serde_json::from_value(event).expect("an event");
        replay_event(&mut run, &event).expect("it is a history");
    }
    run.expect("it has started")
}

#[test]
fn what_was_kept_is_read_as_the_same() {
    let run = run();
    let kept = write_snapshot(&run).expect("it can be kept");
    assert_eq!(read_snapshot(&kept), Ok(run));
}

/// A state of another form must not be taken for one of this form.
#[test]
fn another_form_has_another_number() {
    let kept = write_snapshot(&run()).expect("it can be kept");
    let file = format!("{}/tests/snapshot/format-{SNAPSHOT_FORMAT}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        std::fs::write(&file, format!("{kept}\n")).expect("written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        kept,
        expected.trim_end(),
        "a run is kept in another form: raise SNAPSHOT_FORMAT, and make its file with UPDATE_SNAPSHOT=1"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let good: Value = serde_json::to_value(run()).expect("it can be kept");
    let (unit, items) = ("/steps/0/Single", "/steps/1/Items");
    let cases = [
        ("/seq".to_owned(), json!(0), "it is the state of a run that has not started"),
        ("/generation".to_owned(), json!(0), "it is the state of a run that has not started"),
        ("/steps".to_owned(), json!(7), "invalid type"),
        (format!("{unit}/attempts"), json!(u32::MAX), "step #0 has a count of 4294967295"),
        (format!("{unit}/round/stalled"), json!(u32::MAX), "step #0 has a count of 4294967295"),
        (format!("{items}/total"), json!(65), "step #1 has 65 items, but only 1 parts of 64"),
        (format!("{items}/total"), json!(0), "step #1 has 0 items, and item 0"),
        (format!("{items}/next"), json!(4), "step #1 has 3 items, and the next is 4"),
        (format!("{items}/in_motion"), json!(0), "step #1 has items that are counted wrongly"),
        (format!("{items}/tally/ready"), json!(2), "step #1 has items that are counted wrongly"),
        (format!("{items}/units/0/attempts"), json!(u32::MAX), "step #1 has a count of 4294967295"),
    ];
    for (place, value, says) in cases {
        let mut changed = good.clone();
        *changed.pointer_mut(&place).unwrap_or_else(|| panic!("{place}: {good}")) = value;
        let refused = read_snapshot(&changed.to_string()).expect_err(&place);
        assert!(refused.contains(says), "{place}: {refused}");
    }
}
