//! All automatic resumes are paused and unpaused: what comes due waits, spins nothing, and then resumes at a rate.

use unstuck_core::command::Command;
use unstuck_core::id::RunId;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::NextStep;
use unstuck_engine::policies::PolicyCommand;
use unstuck_store::contract::Store;
use unstuck_store::memory::MemoryStore;

use crate::support::{BEGIN, Bench, draft, load, user};

const MINUTE: Millis = Millis::seconds(60);

fn pause() -> PolicyCommand {
    PolicyCommand::Pause { reason: "the provider is down".into(), by: user() }
}

fn unpause(rate: u32) -> PolicyCommand {
    PolicyCommand::Unpause { rate, by: user() }
}

/// So many runs in error, which a policy resumes in a minute, and automatic resumes are paused.
fn paused(runs: usize) -> (Bench, Vec<RunId>) {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    bench.order(load([draft("p", "reset", 60)], false)).expect("loads");
    let runs = (0..runs).map(|_| bench.failed("connection reset")).collect();
    bench.order(pause()).expect("pauses");
    (bench, runs)
}

/// How many are resumed when so much time has passed, asked for every few milliseconds.
fn resumed_within(bench: &mut Bench, span: Millis) -> usize {
    let before = bench.open().len();
    for _ in 0..span.0 / 10 {
        bench.pass(Millis(10));
    }
    before - bench.open().len()
}

/// Whether the engine has nothing to do soon; limits of attempts under way are hours away.
fn is_asleep(bench: &mut Bench) -> bool {
    match bench.engine.next_step() {
        NextStep::Idle => true,
        NextStep::At(at) => at > bench.now + Millis::hours(1),
        NextStep::Now | NextStep::Settling => false,
    }
}

#[test]
fn while_paused_nothing_resumes_and_what_is_due_neither_spins_nor_is_in_the_way() {
    let (mut bench, runs) = paused(600);
    bench.pass(MINUTE);
    assert_eq!(bench.jobs.len(), 0);
    assert_eq!(bench.engine.next_step(), NextStep::Idle, "there is nothing to do, and nothing to wait for");
    assert_eq!(bench.engine.store().due(bench.now, 9).expect("reads"), [], "the page of what is due is free");
    let shown = bench.engine.store().timers(None, 9).expect("reads");
    assert!(shown.len() == 9 && shown.iter().all(|timer| timer.due <= bench.now), "they are shown as due");
    // What goes wrong meanwhile is matched as ever, and waits for its time, and then for the unpause.
    let due = bench.now + MINUTE;
    let run = bench.failed("connection reset");
    assert_eq!(bench.scheduled().len(), 99, "as many as are asked for");
    assert_eq!(bench.engine.next_step(), NextStep::At(due));
    bench.pass(MINUTE);
    assert_eq!((bench.jobs.len(), bench.engine.next_step()), (0, NextStep::Idle));
    // Somebody may resume them all the time.
    let resume = Command::Resume { unit: None, by: user(), reason: None, changes: Box::default() };
    for run in [runs[3], run] {
        bench.command(run, resume.clone());
    }
    assert_eq!(bench.jobs.len(), 2);
}

#[test]
fn after_the_unpause_what_is_due_resumes_in_order_and_at_the_rate() {
    let (mut bench, runs) = paused(5);
    bench.pass(MINUTE);
    bench.order(unpause(2)).expect("unpauses");
    bench.go();
    assert_eq!(bench.jobs.len(), 0, "not at once");
    assert_eq!(bench.engine.next_step(), NextStep::At(bench.now + Millis(500)), "it wakes up for the first");
    for resumed in 1..=5 {
        assert_eq!(resumed_within(&mut bench, Millis(490)), 0, "after {} runs", resumed - 1);
        assert_eq!(resumed_within(&mut bench, Millis(10)), 1, "run {resumed}");
    }
    let order: Vec<RunId> = bench.jobs.iter().map(|job| job.attempt.run).collect();
    assert_eq!(order, runs, "what was due first comes first");
    bench.pass(Millis(500));
    assert!(is_asleep(&mut bench));
    // What is due later goes on as ever.
    for _ in 0..5 {
        bench.fail("connection reset");
    }
    bench.pass(MINUTE);
    assert_eq!(bench.jobs.len(), 5);
}

#[test]
fn a_pause_and_an_unpause_survive_a_crash_and_the_rate_is_kept_over_it() {
    let (mut bench, _) = paused(6);
    bench.pass(MINUTE);
    let mut bench = bench.die_and_start();
    bench.go();
    assert_eq!((bench.jobs.len(), bench.engine.next_step()), (0, NextStep::Idle));
    let since = bench.engine.policies().switch().paused().map(|paused| paused.since);
    assert_eq!(since, Some(BEGIN));
    bench.order(unpause(2)).expect("unpauses");
    bench.go();
    assert_eq!(resumed_within(&mut bench, Millis(1_000)), 2);
    let mut bench = bench.die_and_start();
    bench.go();
    assert_eq!(bench.open().len(), 4, "the next engine does not begin with a burst");
    assert_eq!(resumed_within(&mut bench, Millis(400)), 0);
    assert_eq!(resumed_within(&mut bench, Millis(100)), 1);
    assert_eq!(resumed_within(&mut bench, Millis(10_000)), 3, "and all of them are resumed");
}

#[test]
fn paused_again_what_has_not_resumed_waits_again() {
    let (mut bench, _) = paused(4);
    bench.pass(MINUTE);
    bench.order(unpause(1)).expect("unpauses");
    bench.go();
    assert_eq!(resumed_within(&mut bench, Millis(1_000)), 1);
    bench.order(pause()).expect("pauses");
    assert_eq!(resumed_within(&mut bench, Millis(5_000)), 0);
    assert!(is_asleep(&mut bench));
    bench.order(unpause(1_000)).expect("unpauses");
    assert_eq!(resumed_within(&mut bench, Millis(100)), 3);
}

#[test]
fn whoever_asks_for_what_is_so_already_changes_nothing() {
    let mut bench = Bench::new(MemoryStore::deferred(), BEGIN);
    assert_eq!(bench.order(unpause(5)).expect("taken").changes, []);
    assert_eq!(bench.order(pause()).expect("pauses").changes.len(), 1);
    bench.now = Time(BEGIN.0 + 5);
    assert_eq!(bench.order(pause()).expect("taken").changes, []);
    let switch = bench.engine.store().policy_switch().expect("reads");
    assert_eq!((switch.version, switch.paused().map(|paused| paused.since)), (1, Some(BEGIN)));
    let audit = bench.engine.store().policy_audit(None, 9).expect("reads");
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].1.reason.as_deref(), Some("the provider is down"));
}

#[test]
fn a_clock_that_is_set_does_not_let_everything_go_at_once() {
    for by in [-7_200_000, 7_200_000] {
        let (mut bench, _) = paused(4);
        bench.pass(MINUTE);
        bench.order(unpause(1)).expect("unpauses");
        bench.go();
        assert_eq!(resumed_within(&mut bench, Millis(1_000)), 1);
        let to = Time(bench.now.0 + by);
        bench.engine.record_correction(unstuck_core::clock::ClockCorrection { from: bench.now, to });
        bench.now = to;
        bench.go();
        assert_eq!(resumed_within(&mut bench, Millis(990)), 0, "{by}");
        assert_eq!(resumed_within(&mut bench, Millis(10)), 1, "{by}");
        assert_eq!(resumed_within(&mut bench, Millis(2_000)), 2, "{by}");
    }
}
