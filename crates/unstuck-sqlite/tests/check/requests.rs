//! What is recorded of requests: each damage is found, and a copy has all of it or is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::api_token::{ApiToken, Role, SecretDigest};
use unstuck_core::event::Actor;
use unstuck_core::id::{FlowId, RunId, TokenId};
use unstuck_core::model::flow::Flow;
use unstuck_core::policy::PolicySwitch;
use unstuck_sqlite::verify::Promise;
use unstuck_sqlite::{SqliteStore, copy};
use unstuck_store::conformance::driver::{Driver, user};
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::contract::{
    AdminStore, Applied, AuditFilter, CallOutcome, FlowChange, FlowRecord, IdempotencyKey, IdempotencyRecord,
    PolicyAudit, PolicyAuditKind, PolicyChange, Stage, Store, TokensChange,
};

use crate::fixture::{Closed, Temporary};

/// A store with a key, entries of the audit, a token and a flow that was applied.
fn recorded() -> (Closed, BTreeMap<FlowId, Arc<Flow>>) {
    let mut driver = Driver::new(Temporary::new());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let record = driver.store.flow(flow.id).expect("reads").expect("is there");
    let applied = Some(Applied { at: driver.now, by: user() });
    let made_on = driver.store.versions().expect("reads").flows;
    let records = vec![FlowRecord { applied, ..record }];
    driver.store.change_flows(FlowChange { records, ..FlowChange::default() }, made_on).expect("changes");
    let audit = PolicyAudit {
        at: driver.now,
        by: Actor::User("ada".into()),
        policy: "".into(),
        name: "".into(),
        what: PolicyAuditKind::Paused,
        reason: None,
        before: None,
        after: None,
    };
    let change =
        PolicyChange { switch: PolicySwitch::default(), changes: vec![audit], ..PolicyChange::default() };
    driver.put_policies(change).expect("puts");
    let token = ApiToken {
        id: TokenId(5),
        name: "ops".into(),
        role: Role::Viewer,
        actions: Vec::new(),
        flows: Vec::new(),
        origin: None,
        payloads: true,
        created_at: driver.now,
        by: user(),
        expires_at: None,
        revoked_at: None,
        digest: SecretDigest([3; 32]),
        previous: None,
    };
    let change = TokensChange { tokens: vec![token], last_id: 5, ..TokensChange::default() };
    driver.store.put_tokens(change, 0).expect("puts");
    let key = IdempotencyKey { scope: "tok".into(), key: "nightly-17".into(), digest: [1; 32] };
    let outcome = CallOutcome::Started { run: RunId(7), already: false };
    let idempotency = vec![IdempotencyRecord { key, at: driver.now, outcome }];
    driver.begin().expect("begins");
    let uses = vec![(TokenId(5), driver.now)];
    let stage = Stage { at: driver.now, idempotency, token_uses: uses, ..Stage::default() };
    driver.stage(stage).expect("stages");
    let Driver { store, flows, .. } = driver;
    (store.close(), flows)
}

fn damage(closed: &Closed, sql: &str) {
    let connection = rusqlite::Connection::open(closed.file()).expect("opens");
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    connection.close().expect("closes");
}

#[test]
fn each_damage_is_found() {
    let damages = [
        (
            "UPDATE idempotency SET at = at + 1",
            Promise::Request,
            "idempotency key `nightly-17`: it is damaged: its checksum does not match its content",
        ),
        (
            "UPDATE audit SET body = replace(body, 'ada', 'eve')",
            Promise::Request,
            "audit entry aud_0000000000001: it is damaged: its checksum",
        ),
        (
            "DELETE FROM policy_audit",
            Promise::Request,
            "it leads to change 1 of the policies, which does not exist",
        ),
        (
            "UPDATE token SET body = replace(body, 'viewer', 'admin')",
            Promise::Request,
            "it is damaged: its checksum does not match its content; nobody is let in",
        ),
        (
            "INSERT INTO flow_status VALUES (99, NULL, NULL, 1, 0)",
            Promise::Flow,
            "who applied it is known, but the flow version does not exist",
        ),
        ("UPDATE flow_status SET deleted = 1", Promise::Flow, "who applied it is damaged"),
    ];
    for (sql, promise, said) in damages {
        let (closed, flows) = recorded();
        assert_eq!(closed.check(&flows).findings, [], "before: {sql}");
        damage(&closed, sql);
        let report = closed.check(&flows);
        assert!(!report.is_clean(), "nothing is found after: {sql}");
        assert!(report.findings.iter().all(|finding| finding.promise == promise), "{sql}: {report:#?}");
        let texts: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains(said)), "{sql}: no `{said}` in {texts:#?}");
    }
}

#[test]
fn a_copy_has_tokens_keys_and_the_audit_and_none_is_made_of_damaged_ones() {
    let (closed, _) = recorded();
    let folder = closed.file().parent().expect("a folder").to_owned();
    let there = folder.join("copy");
    let mut store = SqliteStore::open(&folder).expect("opens");
    copy(&folder, &there).expect("copies");
    let mut copied = SqliteStore::open(&there).expect("opens");
    assert_eq!(copied.tokens(), store.tokens());
    assert_eq!(copied.idempotency("tok", "nightly-17"), store.idempotency("tok", "nightly-17"));
    let (ours, theirs) = (store.reader(), copied.reader());
    let all = AuditFilter::default();
    assert_eq!(theirs.audit(&all, None, 9), ours.audit(&all, None, 9));
    assert_eq!(ours.audit(&all, None, 9).map(|entries| entries.len()), Ok(1));
    assert_eq!(theirs.token_uses(), ours.token_uses());
    assert_eq!(ours.token_uses().map(|uses| uses.len()), Ok(1));
    drop((store, copied));
    for (place, table) in ["idempotency", "audit", "token"].into_iter().enumerate() {
        let (closed, _) = recorded();
        damage(&closed, &format!("UPDATE {table} SET sum = sum + 1"));
        let folder = closed.file().parent().expect("a folder").to_owned();
        let there = folder.join(format!("copy-{place}"));
        let said = copy(&folder, &there).expect_err("is refused").to_string();
        assert!(said.starts_with("no copy was made: ") && said.contains("damaged"), "{said}");
    }
}
