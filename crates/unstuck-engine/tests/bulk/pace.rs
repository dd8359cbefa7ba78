//! How fast, in what waves, and what becomes of each target.

use unstuck_core::bulk::{BulkAction, BulkState, Pace, ResultKind, TargetResult};
use unstuck_core::clock::ClockCorrection;
use unstuck_core::command::Command;
use unstuck_core::event::Actor;
use unstuck_core::model::run::RunState;
use unstuck_core::time::Millis;
use unstuck_engine::engine::NextStep;
use unstuck_engine::request::Request;
use unstuck_store::contract::Store as _;
use unstuck_store::memory::MemoryStore;

use crate::support::{AT_ONCE, Bench, broken, done, resume};

#[test]
fn every_target_gets_an_honest_result() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(4);
    let gone = Command::Cancel { by: Actor::Engine, reason: None };
    bench.ask(|ticket| Request::Command { ticket, run: runs[2], command: gone });
    let bulk = bench.resume(&runs, AT_ONCE);
    bench.run();
    assert_eq!(bench.counts(bulk), (0, 0, 1, 3), "resumed is not yet passed");
    assert_eq!(bench.bulk(bulk).state, BulkState::Acted);
    bench.work(|run| if run == runs[1] { broken() } else { done() });
    assert_eq!(bench.bulk(bulk).state, BulkState::Done);
    assert_eq!(bench.counts(bulk), (2, 1, 1, 0));
    let results = bench.results(bulk);
    assert_eq!(results[1], TargetResult::FailedAgain { cause: "the archive is full".into() });
    assert!(
        matches!(&results[2], TargetResult::Refused { why } if why.contains("cancelled")),
        "{:?}",
        results[2]
    );
    assert_eq!([results[0].kind(), results[3].kind()], [ResultKind::Passed; 2]);
    assert_eq!(bench.resumed(&runs), [1, 1, 0, 1]);
}

#[test]
fn errors_are_acknowledged_and_runs_cancelled_in_bulk_too() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(3);
    let some = bench.begin(BulkAction::Acknowledge, &runs[..1], AT_ONCE);
    bench.run();
    let all = bench.begin(BulkAction::Acknowledge, &runs, AT_ONCE);
    bench.run();
    assert_eq!(bench.counts(some), (1, 0, 0, 0));
    assert_eq!(bench.counts(all), (2, 0, 1, 0));
    assert_eq!(bench.results(all)[0], TargetResult::Refused { why: "it was already acknowledged".into() });
    let mut and_one_that_is_not_there = runs.clone();
    and_one_that_is_not_there.push(unstuck_core::id::RunId(7));
    let cancelled = bench.begin(BulkAction::Cancel, &and_one_that_is_not_there, AT_ONCE);
    bench.run();
    assert_eq!((bench.counts(cancelled), bench.bulk(cancelled).state), ((3, 0, 1, 0), BulkState::Done));
    for run in runs {
        let state = bench.engine.store().run(run).expect("reads").expect("there").state();
        assert_eq!(state, RunState::Cancelled);
    }
}

#[test]
fn it_keeps_its_pace_and_the_engine_sleeps_in_between() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(4);
    let bulk = bench.resume(&runs, Pace { rate: 2, canary: None });
    let mut acted = Vec::new();
    for _ in 0..4 {
        bench.run();
        acted.push(bench.bulk(bulk).next);
        let next = bench.engine.next_step();
        let wanted = if acted.len() < 4 { NextStep::At(bench.now + Millis(500)) } else { next };
        assert_eq!(next, wanted, "it is due again when the pace allows it");
        bench.pass(Millis(500));
    }
    assert_eq!(acted, [1, 2, 3, 4]);
}

#[test]
fn a_canary_that_fails_stops_it() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(10);
    let bulk = bench.resume(&runs, Pace { canary: Some(2), ..AT_ONCE });
    bench.run();
    assert_eq!(bench.bulk(bulk).next, 2, "the others wait for the first two");
    bench.work(|run| if run == runs[0] { done() } else { broken() });
    let stopped = bench.bulk(bulk);
    let BulkState::Stopped { why } = &stopped.state else { panic!("{stopped:?}") };
    assert_eq!(&**why, "1 step of wave 1 failed again; the remaining 8 were not changed");
    bench.pass(Millis::seconds(100));
    bench.run();
    assert_eq!(bench.kinds(bulk)[2..], [ResultKind::Pending; 8]);
    assert_eq!(bench.resumed(&runs).iter().sum::<usize>(), 2);
}

#[test]
fn waves_that_pass_are_followed_by_larger_ones() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(10);
    let bulk = bench.resume(&runs, Pace { canary: Some(1), ..AT_ONCE });
    let mut waves = Vec::new();
    while bench.bulk(bulk).state != BulkState::Done && waves.len() < 9 {
        bench.run();
        waves.push(bench.jobs.len());
        bench.work(|_| done());
    }
    assert_eq!(waves, [1, 2, 4, 3]);
    assert_eq!(bench.counts(bulk), (10, 0, 0, 0));
}

#[test]
fn two_share_a_batch_and_an_error_is_resumed_by_one_of_them() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(700);
    let bulks = [bench.resume(&runs, AT_ONCE), bench.begin(resume(), &runs, AT_ONCE)];
    bench.step();
    let next = bulks.map(|bulk| bench.bulk(bulk).next);
    assert_eq!(next, [256, 256], "each has its share of a batch");
    bench.run();
    bench.work(|_| done());
    let counts = bulks.map(|bulk| bench.counts(bulk));
    assert_eq!(counts, [(700, 0, 0, 0), (0, 0, 700, 0)]);
    assert!(bench.resumed(&runs).iter().all(|times| *times == 1));
}

#[test]
fn a_clock_that_is_set_makes_a_bulk_action_no_faster_and_does_not_stop_it() {
    const HOUR: i64 = 3_600_000;
    for by in [HOUR, -HOUR] {
        let mut bench = Bench::new(MemoryStore::new());
        let runs = bench.in_error(6);
        let bulk = bench.resume(&runs, Pace { rate: 2, canary: None });
        bench.run();
        assert_eq!(bench.bulk(bulk).next, 1, "by {by}: the first at once");
        let (from, to) = (bench.now, bench.now.shifted(by));
        bench.engine.record_correction(ClockCorrection { from, to });
        bench.now = to;
        bench.run();
        assert_eq!(bench.bulk(bulk).next, 1, "by {by}: no time has passed");
        bench.pass(Millis(500));
        bench.run();
        assert_eq!(bench.bulk(bulk).next, 2, "by {by}: half a second has");
    }
}
