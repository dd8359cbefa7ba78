//! Damage to what is kept of errors and policies is found as what it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::clock::{ClockCorrection, ClockRecord};
use unstuck_core::command::{Command, Report};
use unstuck_core::id::FlowId;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::policy::{Criteria, Policy, PolicySwitch};
use unstuck_core::time::{Millis, Time};
use unstuck_sqlite::verify::Promise;
use unstuck_store::conformance::driver::{Driver, user};
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::contract::{PolicyAudit, PolicyAuditKind, PolicyChange};

use crate::fixture::{Closed, Temporary};

/// Two policies; a run in error that one will resume, one that rests and is acknowledged, one whose second try is under way.
fn world(parks: bool) -> (Closed, BTreeMap<FlowId, Arc<Flow>>) {
    let mut driver = Driver::new(if parks { Temporary::parking() } else { Temporary::new() });
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let policies: Vec<Policy> = [policy("p", 1, "reset"), policy("r", 2, "refused")].into();
    let changes = policies.iter().map(|policy| PolicyAudit {
        at: driver.now,
        by: user(),
        policy: policy.id.clone(),
        name: policy.name.clone(),
        what: PolicyAuditKind::Added,
        reason: None,
        before: None,
        after: Some(policy.clone()),
    });
    let changes = changes.collect();
    driver
        .put_policies(PolicyChange {
            policies,
            switch: PolicySwitch::default(),
            changes,
            ..PolicyChange::default()
        })
        .expect("kept");
    for cause in ["connection reset", "no such file", "out of luck"] {
        driver.pass(Millis(5));
        let run = driver.start(&flow);
        driver.work(run, 0);
        driver.say(run, 0, Report::Fail { error: Box::new(Error::new(cause)), fatal: false });
        let (by, reason, unit) = (user(), None, None);
        match cause {
            "no such file" => drop(driver.act(run, Command::Acknowledge { unit, by, reason })),
            "out of luck" => {
                driver.act(run, Command::Resume { unit, by, reason, changes: Box::default() });
                driver.work(run, 0);
            }
            _ => {}
        }
    }
    let Driver { store, flows, .. } = driver;
    (store.close(), flows)
}

fn policy(name: &str, age: u64, text: &str) -> Policy {
    Policy {
        id: format!("id-{name}").into(),
        name: name.into(),
        criteria: Criteria { error_substring: Some(text.into()), ..Criteria::default() },
        max_attempts: 3,
        priority: 50,
        is_priority_set: false,
        back_off: BackOff::fixed(Millis::seconds(60)),
        enabled: true,
        include_fatal: false,
        version: 1,
        age,
    }
}

#[test]
fn what_is_not_so_is_found() {
    use Promise::{Error, File, Policy};
    let damages = [
        ("DELETE FROM error WHERE id = 2", Error, "ended in error, which is not recorded"),
        ("UPDATE error SET body = '{' WHERE id = 2", Error, "its error 2 cannot be read"),
        ("UPDATE error SET at = at + 1 WHERE id = 2", Error, "its error 2 has search columns that do not match it"),
        ("UPDATE error SET grp = (SELECT grp FROM error WHERE id = 1) WHERE id = 2", Error, "search columns that do not match it"),
        (
            "INSERT INTO error SELECT 4, run, at + 10, grp, flow, action, body FROM error WHERE id = 1;
             UPDATE meta SET value = 4 WHERE name = 'last_error'; UPDATE error_group SET count = 9, last = last + 50;
             UPDATE error_group_flow SET count = 9",
            Error,
            "which ended differently, or it is recorded twice",
        ),
        ("INSERT INTO error SELECT 4, 77, at, grp, flow, action, body FROM error WHERE id = 3", Error, "the run does not exist"),
        ("UPDATE meta SET value = 1 WHERE name = 'last_error'", Error, "numbers would be used twice"),
        ("UPDATE meta SET value = 'x' WHERE name = 'last_error'", File, "it cannot be read"),
        ("DELETE FROM open_error WHERE acknowledged = 1", Error, "is in error, but is not stored as such"),
        ("UPDATE open_error SET acknowledged = 1", Error, "does not match the run"),
        ("UPDATE open_error SET policy = NULL", Error, "does not match the run"),
        ("UPDATE open_error SET body = json_set(body, '$.record.rounds', 7)", Error, "does not match the run"),
        ("UPDATE open_error SET body = '{'", Error, "one of its open errors cannot be read"),
        ("UPDATE open_error SET step = 1 WHERE acknowledged = 1", Error, "is stored as in error, but is not"),
        (
            "INSERT INTO open_error SELECT 77, step, item, grp, flow, action, 0, NULL, NULL, body FROM open_error LIMIT 1",
            Error,
            "the run does not exist",
        ),
        ("DELETE FROM error_group", Error, "its counts are too low"),
        ("UPDATE error_group SET count = 0", Error, "its counts are too low"),
        ("UPDATE error_group SET last = 5", Error, "its counts are too low"),
        ("DELETE FROM error_group_flow", Error, "do not match the counts by flow"),
        ("UPDATE policy SET body = '{' WHERE id = 'id-p'", Policy, "it cannot be read"),
        ("UPDATE policy SET name = 'other' WHERE id = 'id-p'", Policy, "under another id or name than its own, `p`"),
        (
            "UPDATE policy SET body = json_set(body, '$.errorSubstring', 'reset') WHERE id = 'id-r'",
            Policy,
            "they conflict with each other",
        ),
        ("UPDATE policy_audit SET body = '[]' WHERE id = 2", Policy, "change 2 of the policies"),
    ];
    for (sql, promise, said) in damages {
        for parks in [true, false] {
            let (closed, flows) = world(parks);
            assert_eq!(closed.check(&flows).findings, [], "before: {sql}");
            let connection = rusqlite::Connection::open(closed.file()).expect("opens");
            connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            // Without its checksum: what the rows say is looked at here.
            connection.execute_batch("UPDATE policy SET sum = NULL").expect("done");
            connection.close().expect("closes");
            let report = closed.check(&flows);
            let texts: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            assert!(texts.iter().any(|text| text.contains(said)), "{sql}: no `{said}` in {texts:#?}");
            assert!(report.findings.iter().all(|finding| finding.promise == promise), "{sql}: {report:#?}");
        }
    }
}

#[test]
fn errors_that_were_recorded_by_a_clock_that_was_ahead_are_as_promised_once_it_was_set_back() {
    let ahead = "UPDATE error SET at = at + 1000, body = json_set(body, '$.at', at + 1000) WHERE id = 1;
        UPDATE error_group SET last = last + 1000";
    for (was_set_back, wanted) in [(false, 1), (true, 0)] {
        let (closed, flows) = world(true);
        let connection = rusqlite::Connection::open(closed.file()).expect("opens");
        connection.execute_batch(ahead).expect("done");
        if was_set_back {
            let mut clock = ClockRecord::default();
            clock.record_correction(ClockCorrection { from: Time(2_000), to: Time(1_000) });
            let text = serde_json::to_string(&clock).expect("written");
            connection.execute("INSERT INTO meta (name, value) VALUES ('clock', ?1)", [text]).expect("done");
        }
        connection.close().expect("closes");
        let findings = closed.check(&flows).findings;
        assert_eq!(findings.len(), wanted, "{findings:#?}");
        assert!(findings.iter().all(|finding| finding.what.contains("older than the error before it")));
    }
}
