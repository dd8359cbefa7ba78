//! Whatever is lost, nothing is acted on twice, and what is counted is what was done.

use unstuck_core::bulk::{BulkAction, BulkState, Pace};
use unstuck_core::model::run::RunState;
use unstuck_core::time::Millis;
use unstuck_engine::engine::NextStep;
use unstuck_store::contract::{Store as _, StoreError};
use unstuck_store::memory::MemoryStore;

use crate::support::{AT_ONCE, Bench, done};

/// A bulk action on nine runs, in waves of a canary of two.
fn begun() -> (Bench, Vec<unstuck_core::id::RunId>, unstuck_core::id::BulkId) {
    let mut bench = Bench::new(MemoryStore::deferred());
    let runs = bench.in_error(9);
    let bulk = bench.resume(&runs, Pace { canary: Some(2), ..AT_ONCE });
    (bench, runs, bulk)
}

/// Goes on to the end, whatever was going on.
fn finish(bench: &mut Bench, bulk: unstuck_core::id::BulkId) {
    for _ in 0..100 {
        bench.run();
        bench.work(|_| done());
        if bench.bulk(bulk).state == BulkState::Done {
            return;
        }
        // Attempts of an engine that died are tried again after a while.
        bench.pass(Millis::seconds(2));
    }
    panic!("it does not end: {:?}", bench.bulk(bulk));
}

#[test]
fn what_was_acted_on_and_not_durable_is_acted_on_once() {
    let (mut bench, runs, bulk) = begun();
    bench.step();
    assert_eq!(bench.engine.store().outstanding(), 1, "it is staged and not durable");
    let mut bench = bench.die_and_start();
    assert_eq!(bench.bulk(bulk).next, 0);
    finish(&mut bench, bulk);
    assert_eq!(bench.resumed(&runs), [1; 9]);
    assert_eq!(bench.counts(bulk), (9, 0, 0, 0));
}

#[test]
fn a_result_that_was_not_durable_comes_again() {
    let (mut bench, runs, bulk) = begun();
    bench.run();
    for attempt in std::mem::take(&mut bench.jobs) {
        bench.say(attempt, done());
    }
    bench.step();
    assert_eq!(bench.counts(bulk).0, 2);
    let mut bench = bench.die_and_start();
    assert_eq!(bench.counts(bulk), (0, 0, 0, 2), "resumed, and nobody knows yet how they came out");
    finish(&mut bench, bulk);
    assert_eq!(bench.resumed(&runs), [1; 9]);
    assert_eq!(bench.counts(bulk), (9, 0, 0, 0));
}

/// The process dies after every possible number of steps, with nothing, one stage or all of them durable.
#[test]
fn it_may_die_at_any_moment() {
    let mut longest = 0;
    for durable in [0, 1, 100] {
        for steps in 0..30 {
            let (mut bench, runs, bulk) = begun();
            for _ in 0..steps {
                bench.step();
                bench.engine.store().make_durable(durable);
                for attempt in std::mem::take(&mut bench.jobs) {
                    bench.say(attempt, done());
                }
            }
            longest = longest.max(bench.bulk(bulk).next);
            let mut bench = bench.die_and_start();
            finish(&mut bench, bulk);
            let told = format!("after {steps} steps, {durable} stages durable after each");
            assert_eq!(bench.resumed(&runs), [1; 9], "{told}");
            assert_eq!(bench.counts(bulk), (9, 0, 0, 0), "{told}");
            for run in runs {
                let state = bench.engine.store().run(run).expect("reads").expect("there").state();
                assert_eq!(state, RunState::Completed, "{told}");
            }
        }
    }
    assert_eq!(longest, 9, "the last of them die at the end");
}

/// Stages fail in the middle, with others on top of them.
#[test]
fn what_a_failed_stage_did_is_done_again() {
    for error in [StoreError::Away("the network".into()), StoreError::Full("the disk".into())] {
        for steps in 1..6 {
            let (mut bench, runs, bulk) = begun();
            for _ in 0..steps {
                bench.step();
            }
            bench.engine.store().fail_next(&error);
            bench.step();
            bench.pass(Millis::seconds(1));
            finish(&mut bench, bulk);
            assert_eq!(bench.resumed(&runs), [1; 9], "{error}, after {steps} steps");
            assert_eq!(bench.counts(bulk), (9, 0, 0, 0), "{error}, after {steps} steps");
        }
    }
}

#[test]
fn a_stage_that_was_refused_leaves_it_as_it_was() {
    let errors = [
        StoreError::Away("the network".into()),
        StoreError::Full("the disk".into()),
        StoreError::Conflict("somebody else".into()),
    ];
    for error in errors {
        let mut bench = Bench::new(MemoryStore::new());
        let runs = bench.in_error(3);
        let bulk = bench.begin(BulkAction::Acknowledge, &runs, AT_ONCE);
        bench.engine.store().refuse_stage(error.clone());
        bench.step();
        assert_eq!(bench.bulk(bulk).next, 0, "{error}");
        bench.pass(Millis::seconds(1));
        bench.run();
        assert_eq!(bench.counts(bulk), (3, 0, 0, 0), "{error}");
    }
}

#[test]
fn a_pause_outlives_a_restart() {
    let (mut bench, _, bulk) = begun();
    bench.run();
    bench.change(bulk, unstuck_engine::bulk::BulkCommand::Pause).expect("is paused");
    let mut bench = bench.die_and_start();
    bench.try_anew();
    bench.work(|_| done());
    bench.pass(Millis::seconds(60));
    bench.run();
    assert_eq!((bench.bulk(bulk).state, bench.bulk(bulk).next), (BulkState::Paused, 2));
    assert_eq!(bench.engine.next_step(), NextStep::Idle, "nothing is due while it is paused");
    bench.change(bulk, unstuck_engine::bulk::BulkCommand::Unpause).expect("goes on");
    finish(&mut bench, bulk);
    assert_eq!(bench.counts(bulk), (9, 0, 0, 0));
}
