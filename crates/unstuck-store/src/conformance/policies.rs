//! Policies: all of them are kept at once, with who changed what, and what each has done is counted.

use std::sync::Arc;

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::error::Error;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::policy::{Criteria, PoliciesPaused, Policy, PolicySwitch, SwitchState};
use unstuck_core::time::Millis;

use crate::conformance::driver::{Driver, put_policies, user};
use crate::conformance::flows::{action, sequence};
use crate::conformance::restarts::settle_all;
use crate::conformance::{TestStore, settle};
use crate::contract::{AuditId, PolicyAudit, PolicyAuditKind, PolicyChange, PolicyHits, StoreError};

/// What was put last is there, the oldest first, and every change is remembered, newest first, in pages of any size.
pub fn policies_are_kept_with_their_changes<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    assert_eq!(driver.store.policies(), Ok(vec![]));
    assert_eq!(driver.store.policy_audit(None, 9), Ok(vec![]));
    let (old, new) = (policy("old", 1, "reset"), policy("new", 2, "timeout"));
    put(&mut driver, vec![new.clone(), old.clone()], &[PolicyAuditKind::Added, PolicyAuditKind::Added]);
    assert_eq!(driver.store.policies(), Ok(vec![old.clone(), new.clone()]));
    let off = Policy { enabled: false, version: 2, ..new };
    put(&mut driver, vec![old, off.clone()], &[PolicyAuditKind::Disabled]);
    put(&mut driver, vec![off.clone()], &[PolicyAuditKind::Deleted]);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.policies(), Ok(vec![off]), "also after a restart");
    let all = driver.store.policy_audit(None, 9).expect("reads");
    let kinds: Vec<PolicyAuditKind> = all.iter().map(|(_, audit)| audit.what).collect();
    assert_eq!(
        kinds,
        [PolicyAuditKind::Deleted, PolicyAuditKind::Disabled, PolicyAuditKind::Added, PolicyAuditKind::Added]
    );
    assert!(all.is_sorted_by(|(newer, _), (older, _)| newer > older));
    for limit in 0..5 {
        let mut before = None;
        let mut found: Vec<(AuditId, PolicyAudit)> = Vec::new();
        loop {
            let page = driver.store.policy_audit(before, limit).expect("reads");
            assert!(page.len() <= limit);
            before = page.last().map(|(id, _)| *id);
            found.extend(page);
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found.len(), if limit == 0 { 0 } else { all.len() }, "in pages of {limit}");
        assert!(all.starts_with(&found));
    }
}

/// Two policies of the same id or name are refused, and so is a change while a transaction is open; nothing is changed.
pub fn what_does_not_go_together_is_refused<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let kept = policy("a", 1, "reset");
    put(&mut driver, vec![kept.clone()], &[PolicyAuditKind::Added]);
    let other = policy("b", 2, "timeout");
    let cases = [
        ("the same id", Policy { id: kept.id.clone(), ..other.clone() }),
        ("the same name", Policy { name: kept.name.clone(), ..other.clone() }),
    ];
    for (what, other) in cases {
        let changes = vec![audit(&driver, &other, PolicyAuditKind::Added)];
        let policies = vec![kept.clone(), other];
        let change =
            PolicyChange { policies, switch: PolicySwitch::default(), changes, ..PolicyChange::default() };
        let refused = put_policies(&mut driver.store, change);
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{what}: {refused:?}");
    }
    let change = PolicyChange {
        policies: vec![other],
        switch: PolicySwitch::default(),
        changes: vec![],
        ..PolicyChange::default()
    };
    let newest = driver.store.versions().expect("reads").policies;
    for made_on in [newest + 1, newest.wrapping_sub(1)] {
        let refused = driver.store.put_policies(change.clone(), made_on);
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "made of another version: {refused:?}");
    }
    driver.begin().expect("begins");
    let refused = driver.store.put_policies(change, newest);
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "in a transaction: {refused:?}");
    driver.rollback();
    assert_eq!(driver.store.policies(), Ok(vec![kept]));
    assert_eq!(driver.store.policy_audit(None, 9).map(|all| all.len()), Ok(1));
}

/// Policies are durable when they have been put: what fails before or after that does not take them with it.
pub fn policies_are_durable_at_once<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = driver.start(&flow);
    let kept = policy("a", 1, "reset");
    put(&mut driver, vec![kept.clone()], &[PolicyAuditKind::Added]);
    if driver.store.fail_next(&StoreError::Away("the disk".into())) > 0 {
        assert_eq!(driver.store.run(run), Ok(None));
    }
    assert_eq!(driver.store.policies(), Ok(vec![kept.clone()]));
    driver.store.settle(false);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.policies(), Ok(vec![kept]));
    assert_eq!(driver.store.policy_audit(None, 9).map(|all| all.len()), Ok(1));
}

/// Whether policies resume anything is kept with them, durable at once, with who changed it and why.
pub fn the_switch_is_of_the_same_snapshot_as_the_policies<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    assert_eq!(driver.store.policy_switch(), Ok(PolicySwitch::default()), "nobody has ever paused");
    let kept = policy("a", 1, "reset");
    put(&mut driver, vec![kept.clone()], &[PolicyAuditKind::Added]);
    let (since, reason): (_, Arc<str>) = (driver.now, "the provider is down".into());
    let paused = PoliciesPaused { since, by: user(), reason: reason.clone() };
    let switch = PolicySwitch { version: 1, state: SwitchState::Paused(paused) };
    let audit = PolicyAudit {
        policy: "".into(),
        name: "".into(),
        reason: Some(reason),
        after: None,
        ..audit(&driver, &kept, PolicyAuditKind::Paused)
    };
    let refused = vec![kept.clone(), Policy { name: "b".into(), ..kept.clone() }];
    let change = PolicyChange {
        policies: refused,
        switch: switch.clone(),
        changes: vec![audit.clone()],
        ..PolicyChange::default()
    };
    assert!(matches!(put_policies(&mut driver.store, change), Err(StoreError::Conflict(_))));
    assert_eq!(driver.store.policy_switch(), Ok(PolicySwitch::default()), "as a whole or not at all");
    let change = PolicyChange {
        policies: vec![kept.clone()],
        switch: switch.clone(),
        changes: vec![audit.clone()],
        ..PolicyChange::default()
    };
    driver.put_policies(change).expect("kept");
    driver.store.fail_next(&StoreError::Away("the disk".into()));
    driver.store.settle(false);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.policy_switch(), Ok(switch));
    assert_eq!(driver.store.policies(), Ok(vec![kept]));
    let newest = driver.store.policy_audit(None, 1).expect("reads").into_iter().next();
    assert_eq!(newest.map(|(_, audit)| audit), Some(audit));
}

/// How often a policy has taken an error, when it last did, and how many runs it will resume.
pub fn hits_are_counted<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let (first, second) = (policy("first", 1, "reset"), policy("second", 2, "broke"));
    put(&mut driver, vec![first, second], &[PolicyAuditKind::Added, PolicyAuditKind::Added]);
    assert_eq!(driver.store.policy_hits(), Ok(vec![]));
    let runs: Vec<RunId> = (0..3).map(|_| driver.start(&flow)).collect();
    fail(&mut driver, runs[0], "connection reset");
    driver.pass(Millis(10));
    fail(&mut driver, runs[1], "connection reset");
    let earlier = driver.now;
    driver.pass(Millis(10));
    fail(&mut driver, runs[2], "it broke");
    let last = driver.now;
    let hit = |policy: &str, hits, last, scheduled| PolicyHits {
        policy: format!("id-{policy}").into(),
        hits,
        last: Some(last),
        scheduled,
    };
    let both = |driver: &mut Driver<S>| driver.store.policy_hits().expect("reads");
    assert_eq!(both(&mut driver), [hit("first", 2, earlier, 2), hit("second", 1, last, 1)]);
    driver.act(runs[0], Command::Acknowledge { unit: None, by: user(), reason: None });
    driver.act(runs[2], Command::Resume { unit: None, by: user(), reason: None, changes: Box::default() });
    assert_eq!(both(&mut driver), [hit("first", 2, earlier, 1), hit("second", 1, last, 0)]);
    driver.pass(Millis(10));
    fail(&mut driver, runs[2], "it broke");
    let again = [hit("first", 2, earlier, 1), hit("second", 2, driver.now, 1)];
    assert_eq!(both(&mut driver), again, "a step that fails again is taken again");
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(both(&mut driver), again);
    for run in runs {
        driver.act(run, Command::Cancel { by: user(), reason: None });
    }
    let left: Vec<(u64, u64)> = both(&mut driver).iter().map(|hits| (hits.hits, hits.scheduled)).collect();
    assert_eq!(left, [(2, 0), (2, 0)]);
}

/// Hits of a stage that failed are gone with it.
pub fn hits_of_a_failed_stage_do_not_count<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    put(&mut driver, vec![policy("first", 1, "reset")], &[PolicyAuditKind::Added]);
    let run = driver.start(&flow);
    driver.work(run, 0);
    driver.store.make_durable(3);
    driver.say(run, 0, Report::Fail { error: Box::new(Error::new("connection reset")), fatal: false });
    let failed = driver.store.fail_next(&StoreError::Away("the disk".into()));
    if failed == 0 {
        return;
    }
    assert_eq!(settle(&mut driver.store, 3 + failed).len(), failed);
    assert_eq!(driver.store.policy_hits(), Ok(vec![]));
}

/// Puts policies, and notes that so much was done to the first of them.
fn put<S: TestStore>(driver: &mut Driver<S>, policies: Vec<Policy>, kinds: &[PolicyAuditKind]) {
    let changes = kinds.iter().map(|kind| audit(driver, &policies[0], *kind)).collect();
    driver
        .put_policies(PolicyChange {
            policies,
            switch: PolicySwitch::default(),
            changes,
            ..PolicyChange::default()
        })
        .expect("they are kept");
}

pub(crate) fn audit<S>(driver: &Driver<S>, policy: &Policy, what: PolicyAuditKind) -> PolicyAudit {
    PolicyAudit {
        at: driver.now,
        by: user(),
        policy: policy.id.clone(),
        name: policy.name.clone(),
        what,
        reason: None,
        before: None,
        after: Some(policy.clone()),
    }
}

/// The first step of a run fails.
pub(crate) fn fail<S: TestStore>(driver: &mut Driver<S>, run: RunId, cause: &str) {
    driver.work(run, 0);
    driver.say(run, 0, Report::Fail { error: Box::new(Error::new(cause)), fatal: false });
}

/// A policy for errors with this text, that resumes after a minute.
pub(crate) fn policy(name: &str, age: u64, text: &str) -> Policy {
    Policy {
        id: format!("id-{name}").into(),
        name: name.into(),
        criteria: Criteria { error_substring: Some(Arc::from(text)), ..Criteria::default() },
        max_attempts: 10,
        priority: 50,
        is_priority_set: false,
        back_off: BackOff::fixed(Millis::seconds(60)),
        enabled: true,
        include_fatal: false,
        version: 1,
        age,
    }
}

/// A run is done.
pub(crate) fn complete<S: TestStore>(driver: &mut Driver<S>, run: RunId) {
    driver.work(run, 0);
    driver.say(run, 0, Report::Complete { output: Json::NULL });
}
