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

use crate::support::{BEGIN, Bench, draft, load, user};

const MINUTE: Millis = Millis::seconds(60);

#[test]
fn an_error_is_resumed_when_it_is_due_and_not_before() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    bench.order(load([draft("p", "reset", 60)], false)).expect("loads");
    let run = bench.failed("connection reset");
    assert_eq!(bench.scheduled(), [(run, Some((BEGIN + MINUTE, "p".to_owned())))]);
    bench.pass(Millis(59_999));
    assert_eq!(bench.jobs.len(), 0);
    bench.pass(Millis(1));
    assert_eq!(bench.jobs.len(), 1);
    assert_eq!(bench.open(), []);
    let history = bench.engine.store().history(run, 0, 99).expect("reads");
    let last = history.last().expect("there is a history");
    let by_policy = |fact: &Fact| {
        matches!(fact, Fact::Unit { fact: UnitFact::Resumed { by: ResumedBy::Policy, .. }, .. })
    };
    assert!(last.facts.iter().any(by_policy), "{last:?}");
    bench.fail("connection reset");
    bench.pass(MINUTE);
    bench.fail("connection reset");
    assert_eq!(bench.scheduled(), [(run, None)], "three rounds are the most");
    let recorded = bench.engine.store().errors(&ErrorFilter::default(), None, 99).expect("reads");
    let rounds: Vec<(u32, bool)> =
        recorded.iter().map(|(_, error)| (error.rounds, error.policy.is_some())).collect();
    assert_eq!(rounds, [(1, true), (2, true), (3, false)]);
    let hits = bench.engine.store().policy_hits().expect("reads");
    assert_eq!((hits[0].hits, hits[0].last, hits[0].scheduled), (2, Some(BEGIN + MINUTE), 0));
}

#[test]
fn policies_and_schedules_survive_a_restart() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    bench.order(load([draft("p", "reset", 60)], false)).expect("loads");
    let scheduled = bench.failed("connection reset");
    let before = bench.scheduled();
    let mut bench = bench.die_and_start();
    assert_eq!(bench.scheduled(), before);
    let other = bench.failed("connection reset");
    assert_eq!(bench.scheduled()[1], (other, before[0].1.clone()), "what fails now is taken too");
    bench.pass(MINUTE);
    let mut runs: Vec<_> = bench.jobs.iter().map(|job| job.attempt.run).collect();
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
        let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
        bench.order(load([draft("p", "reset", 60)], false)).expect("loads");
        let run = bench.failed("connection reset");
        let before = bench.scheduled();
        for order in orders {
            bench.order(order).expect("is done");
        }
        assert_eq!(bench.scheduled(), before, "{what}");
        bench = bench.die_and_start();
        bench.pass(MINUTE);
        assert_eq!(bench.jobs.len(), usize::from(is_resumed), "{what}");
        let expected = waits_for.map(|name| (BEGIN + MINUTE + Millis::seconds(5), name.to_owned()));
        let expected = if is_resumed { vec![] } else { vec![(run, expected)] };
        assert_eq!(bench.scheduled(), expected, "{what}");
    }
}

#[test]
fn each_branch_in_error_has_a_schedule_of_its_own() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    let one = PolicyDraft { max_attempts: Some(9), ..draft("one", "reset", 60) };
    bench.order(load([one, draft("two", "refused", 120)], false)).expect("loads");
    let run = bench.start("both");
    bench.fail("connection reset");
    bench.fail("connection refused");
    let due = |minutes: u64| BEGIN + Millis::seconds(60 * minutes);
    let both = [(run, Some((due(1), "one".to_owned()))), (run, Some((due(2), "two".to_owned())))];
    assert_eq!(bench.scheduled(), both);
    bench.pass(MINUTE);
    assert_eq!(bench.jobs.len(), 1, "only the step that is due is resumed");
    assert_eq!(bench.scheduled(), both[1..]);
    let (unit, by) = (Some(bench.open()[0].record.unit), user());
    bench.command(run, Command::Acknowledge { unit, by, reason: None });
    bench.pass(MINUTE);
    assert_eq!(bench.jobs.len(), 1, "what is acknowledged is not resumed");
    let groups = bench.engine.store().error_groups(&GroupFilter::default(), 9).expect("reads");
    let counts: Vec<_> = groups.iter().map(|group| (group.count, group.open, group.acknowledged)).collect();
    assert_eq!(counts.iter().fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2)), (2, 0, 1));
}

#[test]
fn runs_from_before_open_errors_were_kept_are_looked_at() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    let resting = bench.failed("connection reset");
    let both = bench.start("both");
    bench.fail("connection reset");
    bench.start("one");
    let before = bench.open();
    assert_eq!(before.iter().map(|error| error.record.run).collect::<Vec<_>>(), [resting, both]);
    let mut store = bench.engine.into_store().crash();
    store.lose_open_errors();
    assert_eq!(store.needs_backfill(None, 9).expect("reads").len(), 3);
    let mut bench = Bench::new(store, BEGIN);
    assert_eq!(bench.open(), before);
    assert_eq!(bench.engine.store().needs_backfill(None, 9), Ok(vec![]));
}

#[test]
fn resumes_that_wait_for_another_home_keep_nothing_from_being_done() {
    // More than a batch has room for.
    const AWAY: usize = 600;
    let mut bench = Bench::at(MemoryStore::deferred(), BEGIN, Some("away"));
    bench.order(load([draft("p", "reset", 60)], false)).expect("loads");
    for _ in 0..AWAY {
        bench.start_at("one", Some("away"));
        bench.fail("connection reset");
    }
    bench.now = bench.now + Millis(1);
    let here = bench.failed("connection reset");
    // Another command has the store, long after they were due.
    let mut bench = Bench::at(bench.engine.into_store().crash(), BEGIN + MINUTE + MINUTE, Some("here"));
    bench.go();
    let resumed: Vec<_> = bench.jobs.iter().map(|job| job.attempt.run).collect();
    assert_eq!(resumed, [here], "what is due and behind all of them is done");
    let next = bench.engine.next_step();
    assert!(matches!(next, NextStep::At(at) if at > bench.now), "nothing is looked for in vain: {next:?}");
    let waits = |bench: &mut Bench| {
        let open = bench.engine.store().open_errors(&OpenErrorFilter::default(), None, 9_999).expect("reads");
        open.into_iter().filter(|error| error.resume.is_some()).count()
    };
    assert_eq!(waits(&mut bench), AWAY, "they are in error, and scheduled");
    // Their own command goes on, and what was due is done.
    let mut bench = Bench::at(bench.engine.into_store().crash(), bench.now, Some("away"));
    bench.go();
    assert_eq!(waits(&mut bench), 0);
}
