//! What policies do in an engine: schedules that fire, that survive restarts, and that follow what becomes of policies.

use unstuck_core::command::Command;
use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::model::attempt::ResumedBy;
use unstuck_core::policy::PolicyDraft;
use unstuck_core::time::Millis;
use unstuck_engine::engine::NextStep;
use unstuck_engine::policies::PolicyCommand;
use unstuck_store::contract::{ErrorFilter, GroupFilter, OpenErrorFilter, Store};
use unstuck_store::memory::MemoryStore;

use crate::support::{BEGIN, Life, draft, load, user};

const MINUTE: Millis = Millis::seconds(60);

#[test]
fn an_error_is_resumed_when_it_is_due_and_not_before() {
    let mut life = Life::new(MemoryStore::deferred(), BEGIN);
    life.order(load([draft("p", "reset", 60)], false)).expect("loads");
    let run = life.failed("connection reset");
    assert_eq!(life.scheduled(), [(run, Some((BEGIN + MINUTE, "p".to_owned())))]);
    life.pass(Millis(59_999));
    assert_eq!(life.jobs.len(), 0);
    life.pass(Millis(1));
    assert_eq!(life.jobs.len(), 1);
    assert_eq!(life.open(), []);
    let history = life.engine.store().history(run, 0, 99).expect("reads");
    let last = history.last().expect("there is a history");
    let by_policy = |fact: &Fact| {
        matches!(fact, Fact::Unit { fact: UnitFact::Resumed { by: ResumedBy::Policy, .. }, .. })
    };
    assert!(last.facts.iter().any(by_policy), "{last:?}");
    life.fail("connection reset");
    life.pass(MINUTE);
    life.fail("connection reset");
    assert_eq!(life.scheduled(), [(run, None)], "three rounds are the most");
    let recorded = life.engine.store().errors(&ErrorFilter::default(), None, 99).expect("reads");
    let rounds: Vec<(u32, bool)> =
        recorded.iter().map(|(_, error)| (error.rounds, error.policy.is_some())).collect();
    assert_eq!(rounds, [(1, true), (2, true), (3, false)]);
    let hits = life.engine.store().policy_hits().expect("reads");
    assert_eq!((hits[0].hits, hits[0].last, hits[0].scheduled), (2, Some(BEGIN + MINUTE), 0));
}

#[test]
fn policies_and_schedules_survive_a_restart() {
    let mut life = Life::new(MemoryStore::deferred(), BEGIN);
    life.order(load([draft("p", "reset", 60)], false)).expect("loads");
    let scheduled = life.failed("connection reset");
    let before = life.scheduled();
    let mut life = life.die_and_start();
    assert_eq!(life.scheduled(), before);
    let other = life.failed("connection reset");
    assert_eq!(life.scheduled()[1], (other, before[0].1.clone()), "what fails now is taken too");
    life.pass(MINUTE);
    let mut runs: Vec<_> = life.jobs.iter().map(|job| job.attempt.run).collect();
    runs.sort();
    assert_eq!(runs, [scheduled, other]);
}

#[test]
fn a_change_leaves_schedules_until_they_are_due() {
    let off = || PolicyCommand::Disable { names: vec!["p".into()], by: user() };
    let gone = || PolicyCommand::Delete { names: vec!["p".into()], by: user() };
    let sooner = || load([draft("p", "reset", 1)], true);
    // What is done meanwhile; whether it is resumed when it is due; what it waits for then.
    let cases = [
        ("off", vec![off()], false, None),
        ("gone", vec![gone()], false, None),
        (
            "off, and another one takes it",
            vec![off(), load([draft("q", "connection", 5)], false)],
            false,
            Some("q"),
        ),
        ("changed", vec![sooner()], true, None),
        (
            "off and on again",
            vec![off(), PolicyCommand::Enable { names: vec!["p".into()], by: user() }],
            true,
            None,
        ),
    ];
    for (what, orders, is_resumed, waits_for) in cases {
        let mut life = Life::new(MemoryStore::deferred(), BEGIN);
        life.order(load([draft("p", "reset", 60)], false)).expect("loads");
        let run = life.failed("connection reset");
        let before = life.scheduled();
        for order in orders {
            life.order(order).expect("is done");
        }
        assert_eq!(life.scheduled(), before, "{what}");
        life = life.die_and_start();
        life.pass(MINUTE);
        assert_eq!(life.jobs.len(), usize::from(is_resumed), "{what}");
        let expected = waits_for.map(|name| (BEGIN + MINUTE + Millis::seconds(5), name.to_owned()));
        let expected = if is_resumed { vec![] } else { vec![(run, expected)] };
        assert_eq!(life.scheduled(), expected, "{what}");
    }
}

#[test]
fn each_branch_in_error_has_a_schedule_of_its_own() {
    let mut life = Life::new(MemoryStore::deferred(), BEGIN);
    let one = PolicyDraft { max_attempts: Some(9), ..draft("one", "reset", 60) };
    life.order(load([one, draft("two", "refused", 120)], false)).expect("loads");
    let run = life.start("both");
    life.fail("connection reset");
    life.fail("connection refused");
    let due = |minutes: u64| BEGIN + Millis::seconds(60 * minutes);
    let both = [(run, Some((due(1), "one".to_owned()))), (run, Some((due(2), "two".to_owned())))];
    assert_eq!(life.scheduled(), both);
    life.pass(MINUTE);
    assert_eq!(life.jobs.len(), 1, "only the step that is due is resumed");
    assert_eq!(life.scheduled(), both[1..]);
    let (unit, by) = (Some(life.open()[0].record.unit), user());
    life.command(run, Command::Acknowledge { unit, by, reason: None });
    life.pass(MINUTE);
    assert_eq!(life.jobs.len(), 1, "what is acknowledged is not resumed");
    let groups = life.engine.store().error_groups(&GroupFilter::default(), 9).expect("reads");
    let counts: Vec<_> = groups.iter().map(|group| (group.count, group.open, group.acknowledged)).collect();
    assert_eq!(counts.iter().fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2)), (2, 0, 1));
}

#[test]
fn runs_from_before_open_errors_were_kept_are_looked_at() {
    let mut life = Life::new(MemoryStore::deferred(), BEGIN);
    let resting = life.failed("connection reset");
    let both = life.start("both");
    life.fail("connection reset");
    life.start("one");
    let before = life.open();
    assert_eq!(before.iter().map(|error| error.record.run).collect::<Vec<_>>(), [resting, both]);
    let mut store = life.engine.into_store().crash();
    store.lose_open_errors();
    assert_eq!(store.needs_backfill(None, 9).expect("reads").len(), 3);
    let mut life = Life::new(store, BEGIN);
    assert_eq!(life.open(), before);
    assert_eq!(life.engine.store().needs_backfill(None, 9), Ok(vec![]));
}

#[test]
fn resumes_that_wait_for_another_home_keep_nothing_from_being_done() {
    // More than a batch has room for.
    const AWAY: usize = 600;
    let mut life = Life::at(MemoryStore::deferred(), BEGIN, Some("away"));
    life.order(load([draft("p", "reset", 60)], false)).expect("loads");
    for _ in 0..AWAY {
        life.start_at("one", Some("away"));
        life.fail("connection reset");
    }
    life.now = life.now + Millis(1);
    let here = life.failed("connection reset");
    // Another command has the store, long after they were due.
    let mut life = Life::at(life.engine.into_store().crash(), BEGIN + MINUTE + MINUTE, Some("here"));
    life.go();
    let resumed: Vec<_> = life.jobs.iter().map(|job| job.attempt.run).collect();
    assert_eq!(resumed, [here], "what is due and behind all of them is done");
    let next = life.engine.next_step();
    assert!(matches!(next, NextStep::At(at) if at > life.now), "nothing is looked for in vain: {next:?}");
    let waits = |life: &mut Life| {
        let open = life.engine.store().open_errors(&OpenErrorFilter::default(), None, 9_999).expect("reads");
        open.into_iter().filter(|error| error.resume.is_some()).count()
    };
    assert_eq!(waits(&mut life), AWAY, "they are in error, and scheduled");
    // Their own command goes on, and what was due is done.
    let mut life = Life::at(life.engine.into_store().crash(), life.now, Some("away"));
    life.go();
    assert_eq!(waits(&mut life), 0);
}
