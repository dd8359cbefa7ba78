//! Each damage to a store is found as what it is, and as nothing else.

use unstuck_sqlite::verify::{CheckReport, Promise};

use crate::world::World;

/// What somebody does to the file: SQL, the promise that it breaks, and what the finding says, at which run.
type Damage = (&'static str, Promise, &'static str);

/// Asserts that there are findings, all of this promise, and one that says this.
fn assert_found(report: &CheckReport, damage: &str, promise: Promise, said: &str) {
    assert!(!report.is_clean(), "nothing is found after: {damage}");
    assert!(report.findings.iter().all(|finding| finding.promise == promise), "{damage}: {report:#?}");
    let texts: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(texts.iter().any(|text| text.contains(said)), "{damage}: no `{said}` in {texts:#?}");
    assert!(report.findings.iter().all(|finding| !finding.hint.is_empty()), "{damage}");
}

fn assert_all_found(parks: bool, damages: &[Damage]) {
    for (sql, promise, said) in damages {
        let world = World::new(parks);
        assert_eq!(world.check().findings, [], "before: {sql}");
        world.damage(sql);
        assert_found(&world.check(), sql, *promise, said);
    }
}

#[test]
fn the_way_to_the_start() {
    assert_all_found(
        true,
        &[
            (
                "UPDATE event SET body = '{' WHERE pos = (SELECT head FROM run WHERE id = {napping})",
                Promise::History,
                "it cannot be read (EOF",
            ),
            (
                "UPDATE event SET body = x'00ff' WHERE pos = (SELECT head FROM run WHERE id = {napping})",
                Promise::History,
                "it cannot be read",
            ),
            (
                "DELETE FROM event WHERE run = {done} AND prev = 0",
                Promise::History,
                "of its history is missing: the run cannot be read",
            ),
            (
                "UPDATE event SET prev = 0 WHERE run = {done} AND pos = (SELECT head FROM run WHERE id = {done})",
                Promise::History,
                "it is where event 1 must be: the history has a gap or a duplicate",
            ),
            ("UPDATE event SET run = {napping} WHERE run = {queued}", Promise::History, "which belongs to run_"),
            (
                "UPDATE run SET head = (SELECT head FROM run WHERE id = {done}) WHERE id = {queued}",
                Promise::History,
                "its history leads to event row",
            ),
            (
                "INSERT INTO event (pos, run, prev, body) SELECT 9999, run, 0, body FROM event WHERE run = {done} AND prev = 0;
                 UPDATE meta SET value = 9999 WHERE name = 'flushed'",
                Promise::History,
                "event row 9999: no history leads to it",
            ),
        ],
    );
}

#[test]
fn events() {
    assert_all_found(
        true,
        &[
            (
                "UPDATE event SET body = json_set(body, '$.e.seq', 7) WHERE run = {napping}",
                Promise::History,
                "event 7 of run_",
            ),
            (
                "UPDATE event SET body = json_set(body, '$.e.generation', 3) WHERE run = {napping}",
                Promise::History,
                "it names generation 3, but belongs to generation 1",
            ),
            (
                "UPDATE event SET body = json_set(body, '$.e.facts[0].Started.run', 5) WHERE run = {napping}",
                Promise::History,
                "another run",
            ),
            (
                "UPDATE event SET body = json_remove(body, '$.e.facts[0]') WHERE run = {napping}",
                Promise::History,
                "it does not start the run",
            ),
            (
                "UPDATE event SET body = json_set(body, '$.e.facts[0].Started.steps', 0) WHERE run = {napping}",
                Promise::History,
                "it names step #0, but the run has 0 steps",
            ),
            (
                "UPDATE event SET body = json_set(body, '$.e.at', 1000) WHERE run = {done}
                 AND pos = (SELECT head FROM run WHERE id = {done})",
                Promise::Time,
                "but the event before it has",
            ),
            ("UPDATE meta SET value = 1000 WHERE name = 'last_time'", Promise::Time, "time would go back"),
            (
                "INSERT INTO event (pos, run, prev, body) SELECT 9999, run, pos, json_set(json_remove(body, '$.w'), '$.e.seq', \
                 json_extract(body, '$.e.seq') + 1, '$.e.facts', json('[\"Unpaused\"]')) FROM event \
                 WHERE pos = (SELECT head FROM run WHERE id = {done})",
                Promise::Final,
                "it changes generation 1, which was already final",
            ),
        ],
    );
}

#[test]
fn what_happens_once() {
    let ended = "json_extract(body, '$.e.facts[0].Unit.fact.Ended') IS NOT NULL AND run = {done}";
    let cases = [
        (
            format!("UPDATE event SET body = json_insert(body, '$.e.facts[#]', json_extract(body, '$.e.facts[0]')) WHERE {ended}
                AND pos < (SELECT head FROM run WHERE id = {{done}})"),
            "step #0: it changes a step that had already completed",
        ),
        (
            format!("UPDATE event SET body = json_set(body, '$.e.facts[0].Unit.fact.Ended.attempt', 4) WHERE {ended}
                AND pos < (SELECT head FROM run WHERE id = {{done}})"),
            "step #0: it ends attempt 4, which had not started",
        ),
        (
            format!("UPDATE event SET body = json_set(body, '$.e.facts[1].Unit.fact.Queued.attempt', 2) WHERE {ended}
                AND pos < (SELECT head FROM run WHERE id = {{done}})"),
            "step #1: it queues attempt 2 after attempt 0",
        ),
    ];
    for (sql, said) in cases {
        let world = World::new(true);
        world.damage(&sql);
        assert_found(&world.check(), &sql, Promise::Once, said);
    }
}

#[test]
fn rows() {
    assert_all_found(
        true,
        &[
            (
                "UPDATE run SET state = 'failed' WHERE id = {done}",
                Promise::Row,
                "its state is failed, but by its history it is completed",
            ),
            ("UPDATE run SET parent = NULL WHERE id = {child}", Promise::Row, "its parent is none"),
            ("UPDATE run SET local = 1 WHERE id = {napping}", Promise::Row, "its work is local"),
            ("UPDATE run SET flow = 'other' WHERE id = {napping}", Promise::Row, "its flow is other"),
            ("UPDATE run SET head = 'x' WHERE id = {napping}", Promise::File, "it cannot be read"),
            ("UPDATE run SET version = version + 7 WHERE id = {napping}", Promise::Row, "its version is"),
            (
                "UPDATE run SET summary = json_set(summary, '$.g', 9) WHERE id = {napping}",
                Promise::Row,
                "its summary is",
            ),
        ],
    );
}

#[test]
fn counts_and_marks() {
    assert_all_found(
        true,
        &[
            (
                "UPDATE run_count SET count = count + 1 WHERE state = 'completed'",
                Promise::Row,
                "1 more runs that are completed are counted than there are rows",
            ),
            ("DELETE FROM run_count", Promise::Row, "are counted than there are rows"),
            (
                "INSERT INTO error_open VALUES ('err_1', 2, 0, 0)",
                Promise::Error,
                "2 more are counted than there are",
            ),
            (
                "INSERT INTO error_open_policy VALUES ('err_1', 'p', 1)",
                Promise::Error,
                "1 more are counted than there are (for policy p)",
            ),
            (
                "INSERT INTO event_mark (run, seq, pos) SELECT id, 64, head FROM run WHERE id = {napping}",
                Promise::History,
                "the mark of event 64 leads to another one",
            ),
        ],
    );
}

#[test]
fn wakeups_in_rows() {
    assert_all_found(
        true,
        &[
            (
                "DELETE FROM wake WHERE run = {napping}",
                Promise::Wakeup,
                "step `nap` needs a timer at 2023-11-14T22:13:20.710Z, but nothing is stored",
            ),
            (
                "UPDATE wake SET planned = planned + 1 WHERE run = {napping}",
                Promise::Wakeup,
                "but a timer at",
            ),
            (
                "UPDATE wake SET ready = json_set(ready, '$.queue', 'z') WHERE run = {queued}",
                Promise::Wakeup,
                "step `q` needs an entry in queue `q`, but an entry in queue `z` is stored",
            ),
            (
                "INSERT INTO wake SELECT {done}, step, item, due, planned, heard, ready FROM wake WHERE run = {napping}",
                Promise::Wakeup,
                "is stored for step `q`, which needs nothing",
            ),
            (
                "INSERT INTO wake SELECT 5, step, item, due, planned, heard, ready FROM wake WHERE run = {napping}",
                Promise::Wakeup,
                "it has a timer or queue entry, but no row",
            ),
            (
                "INSERT INTO wake VALUES (5, 0, -1, NULL, NULL, NULL, '{')",
                Promise::Wakeup,
                "it has a timer or queue entry, but no row",
            ),
            ("INSERT INTO lease VALUES (5, 0, -1, 1, 1, 1)", Promise::Wakeup, "it has a lease"),
            (
                "INSERT INTO lease SELECT run, step, item, due + 99, planned, due FROM wake WHERE run = {napping}",
                Promise::Wakeup,
                "the timer of step `nap` was set to 2023-11-14T22:13:20.710Z but is at 2023-11-14T22:13:20.809Z",
            ),
            (
                "UPDATE wake SET due = due + 1 WHERE run = {napping}",
                Promise::Wakeup,
                "but is at 2023-11-14T22:13:20.711Z",
            ),
            ("UPDATE wake SET due = NULL WHERE run = {napping}", Promise::Wakeup, "but nothing is stored"),
            ("UPDATE run SET slot = NULL WHERE id = {wants}", Promise::Wakeup, "its use of its limit is"),
            ("UPDATE wake SET ready = '{' WHERE run = {queued}", Promise::File, "a queue entry is damaged"),
        ],
    );
}

#[test]
fn wakeups_in_the_log() {
    let lost = "UPDATE event SET body = json_remove(body, '$.w') WHERE run = {napping}";
    let changed = "UPDATE event SET body = json_set(body, '$.w.l[0][2]', 5) WHERE run = {napping}";
    assert_all_found(
        false,
        &[
            (lost, Promise::Wakeup, "step `nap` needs a timer"),
            (changed, Promise::Wakeup, "step `nap` needs a timer"),
            (
                // No run has a row yet: what is said of payloads follows from that.
                "UPDATE meta SET value = 9999 WHERE name = 'flushed'; DELETE FROM payload",
                Promise::History,
                "no history leads to it",
            ),
        ],
    );
}

#[test]
fn runs_that_nothing_moves() {
    assert_all_found(
        true,
        &[(
            "UPDATE event SET body = json_set(body, '$.e.facts', json_array(json_extract(body, '$.e.facts[0]')))
             WHERE run = {queued};
             UPDATE run SET state = 'queued' WHERE id = {queued};
             DELETE FROM wake WHERE run = {queued}",
            Promise::Moved,
            "it is stuck in state `queued`: no timer, queue entry, attempt, notice or person",
        )],
    );
}

#[test]
fn keys() {
    assert_all_found(
        true,
        &[
            (
                "DELETE FROM run_key WHERE key = 'first'",
                Promise::Key,
                "leads to no run: a start would start a second one",
            ),
            (
                "UPDATE run_key SET run = {napping} WHERE key = 'first'",
                Promise::Key,
                "which does not have it",
            ),
            (
                "INSERT INTO run_key VALUES ('plain', 'third', {queued})",
                Promise::Key,
                "which does not have it",
            ),
            ("INSERT INTO run_key VALUES ('plain', 'third', 5)", Promise::Key, "which does not exist"),
        ],
    );
}

#[test]
fn labels() {
    assert_all_found(
        true,
        &[
            (
                "DELETE FROM run_label",
                Promise::Row,
                "its label `team=media` does not lead to it: lists by label leave it out",
            ),
            ("UPDATE run_label SET value = 'other'", Promise::Row, "which does not have it"),
            (
                "INSERT INTO run_label VALUES ('team', 'media', {queued})",
                Promise::Row,
                "which does not have it: lists by label would show it",
            ),
            ("INSERT INTO run_label VALUES ('tier', 'gold', 5)", Promise::Row, "which does not exist"),
            (
                "UPDATE run SET summary = json_remove(summary, '$.t') WHERE id = {done}",
                Promise::Row,
                "its row says that its summary is",
            ),
            (
                "UPDATE run SET summary = json_set(summary, '$.s', json_array(7)) WHERE id = {queued}",
                Promise::Row,
                "its row says that its summary is",
            ),
        ],
    );
}

#[test]
fn slots() {
    assert_all_found(
        true,
        &[(
            "UPDATE event SET body = replace(body, '\"max\":1', '\"max\":0') WHERE run = {has};
             UPDATE run SET slot = replace(slot, '\"max\":1', '\"max\":0') WHERE id = {has}",
            Promise::Slot,
            "limit `scarce`: 1 runs have a slot, but at most 0 may",
        )],
    );
}

#[test]
fn payloads() {
    let input = "(SELECT json_extract(body, '$.e.facts[0].Started.input.Stored') FROM event WHERE run = {done} AND prev = 0)";
    let cases = [
        (format!("DELETE FROM payload WHERE id = {input}"), "is missing, an input, output or signal"),
        (format!("UPDATE payload SET body = '{{' WHERE id = {input}"), "it cannot be read, so run_"),
        (
            format!("UPDATE payload SET body = '1' WHERE id = {input}"),
            "its input is not the input that it was started with",
        ),
        (
            "INSERT INTO payload (id, run, body) VALUES (7, 5, 'null')".to_owned(),
            "it belongs to run_0000000000005, which does not exist",
        ),
    ];
    for (sql, said) in cases {
        let world = World::new(true);
        world.damage(&sql);
        assert_found(&world.check(), &sql, Promise::Payload, said);
    }
}

#[test]
fn logs() {
    assert_all_found(
        true,
        &[
            (
                "INSERT INTO attempt_log (run, place, size, body) VALUES ({done}, 1, 1, '{')",
                Promise::Log,
                "it is damaged: EOF",
            ),
            (
                "INSERT INTO attempt_log (run, place, size, body, sum) VALUES ({done}, 1, 1, 'null', 7)",
                Promise::Log,
                "its checksum does not match its content",
            ),
            (
                "INSERT INTO attempt_log (run, place, size, body) VALUES (5, 1, 1, 'null')",
                Promise::Log,
                "run_0000000000005: it has logs, but the run does not exist",
            ),
        ],
    );
}

/// A run with a long history has its state in a row of its own, which is only a cache.
#[test]
fn states_that_are_kept() {
    let first = "WHERE run = {long} AND prev = 0";
    let other = "json_set(body, '$.e.facts[0].Started.root_flow', 'other')";
    let cases = [
        (
            format!("UPDATE event SET body = {other} {first}"),
            "is not what its history gives; no event is lost; stop the engine, make a copy",
        ),
        (
            "UPDATE run_snapshot SET sum = sum + 1".to_owned(),
            "its stored state cannot be read (its checksum does",
        ),
        ("UPDATE run_snapshot SET body = x'00ff'".to_owned(), "nothing is lost and nothing has to be done"),
        (
            "INSERT INTO run_snapshot (run, head, format, body, sum) VALUES (5, 1, 1, '{', 0)".to_owned(),
            "run_0000000000005: its state is stored, but it has no row",
        ),
    ];
    for (sql, said) in cases {
        let world = World::new(true);
        assert_eq!(world.check().findings, [], "before: {sql}");
        world.damage(&sql);
        assert_found(&world.check(), &sql, Promise::Snapshot, said);
    }
    let world = World::new(true);
    world.damage("UPDATE run_snapshot SET format = 99, body = 'of a newer version'");
    assert_eq!(world.check().findings, [], "it is not for this version");
}

#[test]
fn notices_and_children() {
    let start = "json_extract(body, '$.body.StartChild') IS NOT NULL";
    let cases = [
        (format!("DELETE FROM notice WHERE {start}"), Promise::Child, "step `child` waits forever for run_"),
        (
            "DELETE FROM notice WHERE json_extract(body, '$.body.CancelChild') IS NOT NULL".to_owned(),
            Promise::Child,
            "does not wait for it and has not cancelled it",
        ),
        (
            format!(
                "UPDATE notice SET body = json_set(body, '$.body.StartChild.origin.Child.parent', 5) WHERE {start}"
            ),
            Promise::Notice,
            "it starts a child of run_0000000000005, which does not exist",
        ),
        (
            "DELETE FROM run WHERE id = {gone}; DELETE FROM event WHERE run = {gone};
             DELETE FROM wake WHERE run = {gone}"
                .to_owned(),
            Promise::Child,
            "does not exist, so its result goes nowhere",
        ),
    ];
    for (sql, promise, said) in cases {
        let world = World::new(true);
        world.damage(&sql);
        assert_found(&world.check(), &sql, promise, said);
    }
    let world = World::new(true);
    world.damage("UPDATE notice SET body = '{' WHERE json_extract(body, '$.body.CancelChild') IS NOT NULL");
    let findings = world.check().findings;
    let promises: Vec<Promise> = findings.iter().map(|finding| finding.promise).collect();
    assert_eq!(
        promises,
        [Promise::Notice, Promise::Child],
        "one is lost, and the child is not told: {findings:#?}"
    );
    assert_eq!(findings[1].place, world.shown("left"));
}

#[test]
fn ids_and_flows() {
    assert_all_found(
        true,
        &[
            ("UPDATE meta SET value = 5 WHERE name = 'last_id'", Promise::Id, "ids would be used twice"),
            (
                "DELETE FROM flow WHERE name = 'nap'",
                Promise::Flow,
                "its flow version, flow_0000000000002, does not exist",
            ),
            ("UPDATE flow SET id = 9 WHERE name = 'scarce'", Promise::Flow, "it has number 9"),
            (
                "UPDATE flow SET name = 'nip' WHERE name = 'nap'",
                Promise::Flow,
                "its definition belongs to flow `nap`",
            ),
        ],
    );
    let mut world = World::new(true);
    let (nap, family) = (unstuck_core::id::FlowId(2), unstuck_core::id::FlowId(3));
    world.flows.remove(&nap);
    assert_found(
        &world.check(),
        "a flow that nobody can compile",
        Promise::Flow,
        "can no longer be used: nobody knows it",
    );
    let mut world = World::new(true);
    let other = world.flows[&unstuck_core::id::FlowId(1)].clone();
    world.flows.insert(
        family,
        std::sync::Arc::new(unstuck_core::model::flow::Flow { name: "family".into(), ..(*other).clone() }),
    );
    assert_found(
        &world.check(),
        "a flow with more steps",
        Promise::Flow,
        "its stored steps are `child`, but its definition gives `q`, `r`",
    );
}

/// What a disk does to data that can still be read: only checksums tell.
#[test]
fn bit_rot() {
    let damages = [
        (
            "UPDATE event SET body = json_set(body, '$.e.at', json_extract(body, '$.e.at') + 1) WHERE run = {napping}",
            Promise::History,
            "it cannot be read (its checksum does not match its content)",
        ),
        (
            "UPDATE payload SET body = replace(body, 'input', 'inqut') WHERE run = {done}",
            Promise::Payload,
            "it is damaged, the input of run_",
        ),
        (
            "UPDATE payload SET body = replace(body, 'output', 'outqut') WHERE run = {done}",
            Promise::Payload,
            "it is damaged, the output of step `q` of run_",
        ),
        ("UPDATE flow SET directory = 'x' WHERE id = 1", Promise::Flow, "its checksum does not match"),
        (
            "UPDATE notice SET body = replace(body, '\"to\":', '\"to\": ') WHERE id = (SELECT min(id) FROM notice)",
            Promise::Notice,
            "it cannot be read (its checksum does not match",
        ),
    ];
    for (sql, promise, said) in damages {
        let world = World::new(true);
        world.rot(sql);
        let report = world.check();
        let found: Vec<_> = report.findings.iter().filter(|finding| finding.promise == promise).collect();
        assert!(found.iter().any(|finding| finding.to_string().contains(said)), "{sql}: {report:#?}");
    }
}

/// A flow version whose steps are kept in another order than its definition gives is used in the order that is kept.
#[test]
fn the_order_of_steps() {
    let world = World::new(true);
    world.rot("UPDATE flow SET steps = '[\"r\",\"q\"]', sum = NULL WHERE name = 'plain'");
    let report = world.check();
    assert_found(
        &report,
        "the steps are kept in another order",
        Promise::Flow,
        "its runs would continue with the wrong steps",
    );
}
