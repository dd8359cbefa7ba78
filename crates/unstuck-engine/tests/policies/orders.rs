//! Orders about policies: done as a whole or not at all, and remembered with who gave them.

use std::sync::Arc;

use unstuck_core::policy::{Criteria, Policy, PolicyDraft};
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::{PolicyAudit, PolicyAuditKind, Store};
use unstuck_store::memory::MemoryStore;

use crate::support::{BEGIN, Bench, draft, load, user};

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().copied().map(Arc::from).collect()
}

/// What an engine decides by, which is what its store keeps; and what was ever changed.
fn kept(bench: &mut Bench) -> (Vec<Policy>, Vec<PolicyAudit>) {
    let kept = bench.engine.store().policies().expect("reads");
    let mut used: Vec<Policy> = bench.engine.policies().iter().map(|policy| (**policy).clone()).collect();
    used.sort_by_key(|policy| policy.age);
    assert_eq!(used, kept);
    let audit = bench.engine.store().policy_audit(None, 99).expect("reads");
    (kept, audit.into_iter().map(|(_, audit)| audit).collect())
}

fn bench() -> Bench {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    let a = PolicyDraft { id: Some("id-a".into()), ..draft("a", "reset", 60) };
    let b = PolicyDraft { priority: Some(7), enabled: Some(false), ..draft("b", "refused by peer", 60) };
    bench.order(load([a, b], false)).expect("loads");
    bench
}

#[test]
fn what_is_loaded_is_kept_over_restarts() {
    let mut bench = bench();
    let before = kept(&mut bench);
    let [a, b] = before.0.as_slice() else { panic!("{before:?}") };
    assert_eq!((&*a.id, &*a.name, a.priority, a.version, a.enabled), ("id-a", "a", 50, 1, true));
    assert_eq!((&*b.name, b.priority, b.is_priority_set, b.enabled), ("b", 7, true, false));
    assert!(b.id.starts_with("pol_"), "{}", b.id);
    let mut bench = bench.die_and_start();
    assert_eq!(kept(&mut bench), before);
}

#[test]
fn what_is_refused_changes_nothing_and_is_told_with_its_place() {
    let good = || draft("good", "something", 60);
    let nothing = PolicyDraft { criteria: Criteria::default(), ..draft("nothing", "", 60) };
    let by = user;
    let cases: Vec<(PolicyCommand, Vec<(usize, &str)>)> = vec![
        (load([good(), PolicyDraft::default()], false), vec![(1, "the policy has no name")]),
        (load([nothing, good()], false), vec![(0, "the policy would match every error")]),
        (load([good(), draft("a", "else", 60)], false), vec![(1, "the name `a` is taken by policy id-a")]),
        (
            load([PolicyDraft { id: Some("id-a".into()), ..good() }], false),
            vec![(0, "the id id-a is taken by policy `a`")],
        ),
        (load([draft("c", "reset", 60)], false), vec![(0, "it matches the same errors as policy `a`")]),
        (load([good(), good()], true), vec![(1, "the name `good` is taken")]),
        (load([draft("a", "x", 60), draft("a", "y", 60)], true), vec![(1, "the name `a` is taken")]),
        (
            load([PolicyDraft { id: Some("other".into()), ..draft("a", "else", 60) }], true),
            vec![(0, "it has the id other, but the policy with that name has the id id-a")],
        ),
        (
            PolicyCommand::Enable { names: names(&["a", "c", "d"]), by: by() },
            vec![(1, "there is no policy `c`"), (2, "there is no policy `d`")],
        ),
        (PolicyCommand::Disable { names: names(&["c"]), by: by() }, vec![(0, "there is no policy `c`")]),
        (PolicyCommand::Delete { names: names(&["a", "c"]), by: by() }, vec![(1, "there is no policy `c`")]),
    ];
    let mut bench = bench();
    let before = kept(&mut bench);
    for (order, expected) in cases {
        let refused = bench.order(order.clone());
        let Err(EngineError::BadPolicies(problems)) = &refused else { panic!("{order:?}: {refused:?}") };
        for (place, said) in expected {
            let found = problems.iter().any(|bad| bad.place == place && bad.to_string().contains(said));
            assert!(found, "{order:?}: no `{said}` at {place} in {problems:#?}");
        }
        assert!(problems.iter().all(|bad| !bad.problem.hint.is_empty()), "{problems:?}");
        assert_eq!(kept(&mut bench), before, "{order:?}");
    }
    let mut bench = bench.die_and_start();
    assert_eq!(kept(&mut bench), before, "nothing of it was kept");
}

#[test]
fn a_policy_that_is_loaded_again_keeps_what_is_its_own() {
    let long = "something long that is searched for";
    let by_id = PolicyDraft { id: Some("id-a".into()), ..draft("renamed", "reset", 60) };
    let set = PolicyDraft { priority: Some(1), ..draft("b", "refused by peer", 60) };
    let cases = [
        ("other criteria, calculated again", draft("a", long, 60), ("a", 100, false, 2, true)),
        ("another delay", draft("a", "reset", 5), ("a", 50, false, 2, true)),
        ("another name", by_id, ("renamed", 50, false, 2, true)),
        ("nothing else", draft("a", "reset", 60), ("a", 50, false, 1, true)),
        ("other criteria, set by somebody", draft("b", long, 60), ("b", 7, true, 2, false)),
        ("another priority", set, ("b", 1, true, 2, false)),
        (
            "switched on",
            PolicyDraft { enabled: Some(true), ..draft("b", "refused by peer", 60) },
            ("b", 7, true, 2, true),
        ),
    ];
    for (what, draft, expected) in cases {
        let mut bench = bench();
        let (before, _) = kept(&mut bench);
        let place = usize::from(expected.0 == "b");
        let outcome = bench.order(load([draft], true)).expect("loads");
        let (after, audit) = kept(&mut bench);
        let policy = &after[place];
        let Policy { name, priority, is_priority_set, version, enabled, .. } = policy;
        assert_eq!((&**name, *priority, *is_priority_set, *version, *enabled), expected, "{what}");
        assert_eq!((&policy.id, policy.age), (&before[place].id, before[place].age), "{what}");
        assert_eq!(after[1 - place], before[1 - place], "{what}: the other one is as it was");
        let is_changed = *version > 1;
        assert_eq!(
            (outcome.changes.len(), outcome.unchanged.len()),
            if is_changed { (1, 0) } else { (0, 1) }
        );
        assert_eq!(audit.len(), 2 + usize::from(is_changed), "{what}");
        if is_changed {
            let kind =
                if what == "switched on" { PolicyAuditKind::Enabled } else { PolicyAuditKind::Changed };
            assert_eq!((audit[0].what, &audit[0].by, audit[0].at), (kind, &user(), BEGIN), "{what}");
            let told = (audit[0].before.as_ref(), audit[0].after.as_ref());
            assert_eq!(told, (Some(&before[place]), Some(policy)), "{what}");
        }
    }
}

#[test]
fn policies_are_switched_and_deleted_by_name() {
    let mut bench = bench();
    let by = user;
    let steps: [(PolicyCommand, &[PolicyAuditKind], &[&str]); 5] = [
        (
            PolicyCommand::Enable { names: names(&["a", "b", "b"]), by: by() },
            &[PolicyAuditKind::Enabled],
            &["a"],
        ),
        (
            PolicyCommand::Disable { names: names(&["b", "a"]), by: by() },
            &[PolicyAuditKind::Disabled, PolicyAuditKind::Disabled],
            &[],
        ),
        (PolicyCommand::Disable { names: names(&["a"]), by: by() }, &[], &["a"]),
        (PolicyCommand::Delete { names: names(&["a", "a"]), by: by() }, &[PolicyAuditKind::Deleted], &[]),
        (load([draft("a", "reset", 60)], false), &[PolicyAuditKind::Added], &[]),
    ];
    for (order, kinds, unchanged) in steps {
        let outcome = bench.order(order.clone()).expect("is done");
        assert_eq!(outcome.changes.iter().map(|change| change.what).collect::<Vec<_>>(), kinds, "{order:?}");
        assert_eq!(outcome.unchanged, names(unchanged), "{order:?}");
        kept(&mut bench);
    }
    let (policies, audit) = kept(&mut bench);
    let shown: Vec<_> =
        policies.iter().map(|policy| (&*policy.name, policy.version, policy.enabled)).collect();
    assert_eq!(shown, [("b", 3, false), ("a", 1, true)], "one that is loaded again is the youngest");
    assert_ne!(&*policies[1].id, "id-a", "and has an id of its own");
    assert_eq!(audit.len(), 7);
}
