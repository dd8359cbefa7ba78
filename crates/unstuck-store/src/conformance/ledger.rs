//! What is recorded of requests: keys that stand for what was done, and who changed what.

use std::sync::Arc;

use unstuck_core::command::Command;
use unstuck_core::event::Actor;
use unstuck_core::id::{AuditEntryId, RunId};
use unstuck_core::json::Json;
use unstuck_core::policy::PolicySwitch;
use unstuck_core::time::{Millis, Time};

use crate::conformance::driver::{Driver, put_policies, user};
use crate::conformance::flows::{action, sequence};
use crate::conformance::policies::{audit, policy};
use crate::conformance::restarts::settle_all;
use crate::conformance::{TestStore, settle};
use crate::contract::{
    AuditChange, AuditFilter, AuditId, AuditRecord, CallOrigin, CallOutcome, IDEMPOTENCY_RETENTION,
    IdempotencyKey, IdempotencyRecord, KeyUse, Ledger, PolicyAuditKind, PolicyChange, Stage, StageId,
    StoreError, Wants,
};

/// A key is recorded with its effect, found by the next batch at once and by readers when it is durable, and after a restart.
pub fn a_key_stands_for_what_was_done<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let record = used(&driver, "ada", "k", RunId(7));
    assert_eq!(driver.store.idempotency("ada", "k"), Ok(None));
    stage(&mut driver, vec![record.clone()], Vec::new()).expect("stages");
    assert_eq!(driver.store.idempotency("ada", "k"), Ok(Some(record.clone())), "the next batch sees it");
    let asked = [("ada", "k"), ("bob", "k"), ("ada", "l")];
    let idempotency = asked.iter().map(|(scope, key)| (Arc::from(*scope), Arc::from(*key))).collect();
    let loaded = driver.load(&Wants { now: driver.now, idempotency, ..Wants::default() }).expect("loads");
    assert_eq!(loaded.idempotency, [KeyUse::Used(record.clone()), KeyUse::Free, KeyUse::Free]);
    driver.abandon(Vec::new());
    settle_all(&mut driver);
    assert_eq!(driver.store.reader().idempotency("ada", "k"), Ok(Some(record.clone())));
    assert_eq!(driver.store.reader().idempotency("bob", "k"), Ok(None), "it is somebody else's");
    let (store, rest) = driver.split();
    let mut driver = rest.continue_with(store.reopen());
    assert_eq!(driver.store.idempotency("ada", "k"), Ok(Some(record.clone())));
    assert_eq!(driver.store.reader().idempotency("ada", "k"), Ok(Some(record)));
}

/// A key that stands for something makes a stage a conflict, which changes nothing; so does one that comes twice.
pub fn a_key_is_used_once<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = driver.start(&flow);
    let first = used(&driver, "ada", "k", run);
    stage(&mut driver, vec![first.clone()], Vec::new()).expect("stages");
    let other = used(&driver, "ada", "k", RunId(8));
    let twice = used(&driver, "ada", "twice", run);
    for records in [vec![other], vec![twice.clone(), twice]] {
        driver.begin().expect("begins");
        let command = Command::Pause { by: user(), reason: None };
        let ask = crate::conformance::driver::Ask { run, command, flow: None };
        let batch = driver.decide(vec![ask]).expect("decides");
        let refused = driver.stage(Stage { idempotency: records, ..batch.stage });
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
        assert!(driver.run(run).paused.is_none(), "nothing of it has happened");
    }
    assert_eq!(driver.store.idempotency("ada", "k"), Ok(Some(first)));
    assert_eq!(driver.store.idempotency("ada", "twice"), Ok(None));
    let again = used(&driver, "bob", "k", run);
    stage(&mut driver, vec![again], Vec::new()).expect("another scope is another key");
}

/// After a day a key stands for nothing: it can be used again, and goes when others come.
pub fn a_key_is_free_after_a_day<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    for key in ["a", "b", "c"] {
        let record = used(&driver, "ada", key, RunId(1));
        stage(&mut driver, vec![record], Vec::new()).expect("stages");
    }
    let last = Millis(IDEMPOTENCY_RETENTION.0 - 1);
    driver.pass(last);
    let early = used(&driver, "ada", "a", RunId(2));
    assert!(stage(&mut driver, vec![early], Vec::new()).is_err(), "it stands for something");
    driver.pass(Millis(1));
    let fresh = used(&driver, "ada", "a", RunId(2));
    stage(&mut driver, vec![fresh.clone()], Vec::new()).expect("it is free");
    settle_all(&mut driver);
    let reader = driver.store.reader();
    assert_eq!(reader.idempotency("ada", "a"), Ok(Some(fresh)));
    assert_eq!(reader.idempotency("ada", "b"), Ok(None), "it was removed");
    assert_eq!(reader.idempotency("ada", "c"), Ok(None));
}

/// A stage that fails takes its keys and entries with it.
pub fn what_failed_is_not_recorded<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let (record, entry) = (used(&driver, "ada", "k", RunId(7)), entry(&driver, "run.cancel", Some(RunId(7))));
    stage(&mut driver, vec![record.clone()], vec![entry.clone()]).expect("stages");
    let failed = driver.store.fail_next(&StoreError::Away("gone".into()));
    if failed == 0 {
        return;
    }
    assert_eq!(settle(&mut driver.store, failed).len(), failed);
    assert_eq!(driver.store.idempotency("ada", "k"), Ok(None));
    stage(&mut driver, vec![record.clone()], vec![entry.clone()]).expect("it can be used");
    settle_all(&mut driver);
    let reader = driver.store.reader();
    assert_eq!(reader.idempotency("ada", "k"), Ok(Some(record)));
    let listed = reader.audit(&AuditFilter::default(), None, 9).expect("lists");
    assert_eq!(listed, [(AuditEntryId(1), entry)]);
    assert_eq!(reader.ends(), Ok((reader.cursor().expect("is there"), AuditEntryId(1))));
}

/// Entries are listed newest first, in pages and by what they have, and stay when their runs are forgotten.
pub fn who_changed_what_is_listed<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = driver.start(&flow);
    let mut entries = Vec::new();
    for what in ["run.start", "run.cancel", "flow.added", "run.pause", "token.created"] {
        driver.pass(Millis(10));
        let about = what.starts_with("run.").then_some(run);
        let by = if what == "run.pause" { Actor::User("bob".into()) } else { user() };
        let entry = AuditRecord { by, ..entry(&driver, what, about) };
        stage(&mut driver, Vec::new(), vec![entry.clone()]).expect("stages");
        entries.push(entry);
    }
    driver.act(run, Command::Cancel { by: user(), reason: None });
    driver.begin().expect("begins");
    driver.lock(&[run]).expect("locks");
    let stage = Stage { at: driver.now, forgotten: vec![run], ..Stage::default() };
    driver.stage(stage).expect("is forgotten");
    settle_all(&mut driver);
    let (store, rest) = driver.split();
    let mut driver = rest.continue_with(store.reopen());
    let reader = driver.store.reader();
    let list = |filter: &AuditFilter, before: Option<u64>, limit: usize| {
        let listed = reader.audit(filter, before.map(AuditEntryId), limit).expect("lists");
        assert!(
            listed.iter().all(|(id, entry)| *entry == entries[usize::try_from(id.0).expect("small") - 1])
        );
        listed.iter().map(|(id, _)| id.0).collect::<Vec<_>>()
    };
    let all = AuditFilter::default;
    assert_eq!(list(&all(), None, 9), [5, 4, 3, 2, 1]);
    assert_eq!(list(&all(), None, 2), [5, 4]);
    assert_eq!(list(&all(), Some(4), 2), [3, 2]);
    assert_eq!(list(&AuditFilter { run: Some(run), ..all() }, None, 9), [4, 2, 1]);
    assert_eq!(list(&AuditFilter { by: Some(Actor::User("bob".into())), ..all() }, None, 9), [4]);
    assert_eq!(list(&AuditFilter { what: Some("run.cancel".into()), ..all() }, None, 9), [2]);
    assert_eq!(list(&AuditFilter { what: Some("run.".into()), ..all() }, None, 9), [4, 2, 1]);
    assert_eq!(list(&AuditFilter { what: Some("run".into()), ..all() }, None, 9), Vec::<u64>::new());
    assert_eq!(list(&AuditFilter { since: Some(entries[2].at), ..all() }, None, 9), [5, 4, 3]);
    assert_eq!(
        list(&AuditFilter { since: Some(driver.now + Millis(1)), ..all() }, None, 9),
        Vec::<u64>::new()
    );
    let narrow = AuditFilter { by: Some(user()), run: Some(run), since: Some(entries[1].at), ..all() };
    assert_eq!(list(&narrow, None, 9), [2]);
}

/// Every change of policies has an entry, which leads to what was changed; its key is recorded with the numbers.
pub fn changes_of_policies_have_entries<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let origin = CallOrigin { user: Some("ada".into()), from: Some("::1".into()), request_id: None };
    for round in 1..=2 {
        let kept = policy(&format!("p{round}"), round, "reset");
        let changes = vec![audit(&driver, &kept, PolicyAuditKind::Added)];
        let key = key("ops", &format!("k{round}"));
        let (policies, switch) = (vec![kept], PolicySwitch::default());
        let idempotency = Some((key, vec!["other".into()]));
        let change = PolicyChange { policies, switch, changes, origin: origin.clone(), idempotency };
        put_policies(&mut driver.store, change.clone()).expect("puts");
        let refused = put_policies(&mut driver.store, change);
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "its key was used: {refused:?}");
    }
    let mut store = driver.split().0.reopen();
    let reader = store.reader();
    let listed = reader.audit(&AuditFilter::default(), None, 9).expect("lists");
    let changes = reader.policy_audit(None, 9).expect("lists");
    assert_eq!((listed.len(), changes.len()), (2, 2));
    for ((_, entry), (id, change)) in listed.iter().zip(&changes) {
        assert_eq!(entry.change, AuditChange::Policy(*id));
        assert_eq!(*entry, AuditRecord::of_policy_change(change, *id, &origin));
        assert_eq!((&*entry.what, entry.thing.as_ref()), ("policy.added", Some(&change.name)));
    }
    let record = reader.idempotency("ops", "k2").expect("reads").expect("is there");
    let (changes, unchanged) = (vec![AuditId(2)], vec!["other".into()]);
    assert_eq!(record.outcome, CallOutcome::PoliciesChanged { changes, unchanged });
}

/// What comes to nothing is recorded all the same.
pub fn what_came_to_nothing_is_recorded<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let record = used(&driver, "ada", "k", RunId(7));
    let ledger = Ledger { idempotency: Some(record.clone()), audit: Vec::new() };
    driver.store.record(ledger.clone()).expect("is recorded");
    assert!(matches!(driver.store.record(ledger), Err(StoreError::Conflict(_))), "once");
    assert_eq!(driver.store.reader().idempotency("ada", "k"), Ok(Some(record.clone())));
    assert_eq!(driver.split().0.reopen().idempotency("ada", "k"), Ok(Some(record)));
}

fn stage<S: TestStore>(
    driver: &mut Driver<S>,
    idempotency: Vec<IdempotencyRecord>,
    audit: Vec<AuditRecord>,
) -> Result<StageId, StoreError> {
    driver.begin()?;
    driver.stage(Stage { at: driver.now, idempotency, audit, ..Stage::default() })
}

fn key(scope: &str, key: &str) -> IdempotencyKey {
    IdempotencyKey { scope: scope.into(), key: key.into(), digest: [7; 32] }
}

fn used<S>(driver: &Driver<S>, scope: &str, name: &str, run: RunId) -> IdempotencyRecord {
    let outcome = CallOutcome::Started { run, already: false };
    IdempotencyRecord { key: key(scope, name), at: driver.now, outcome }
}

fn entry<S>(driver: &Driver<S>, what: &str, run: Option<RunId>) -> AuditRecord {
    let at: Time = driver.now;
    let change = match run {
        Some(_) => AuditChange::Event(3),
        None => AuditChange::Values { before: None, after: Some(Json::parse(r#"{"a":1}"#).expect("JSON")) },
    };
    AuditRecord {
        at,
        by: user(),
        origin: CallOrigin { request_id: Some("r-1".into()), ..CallOrigin::default() },
        what: what.into(),
        run,
        thing: run.is_none().then(|| "thing".into()),
        reason: Some("because".into()),
        change,
    }
}
