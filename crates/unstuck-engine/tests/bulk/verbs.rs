//! What bulk actions do besides resuming: each target has its honest result.

use unstuck_core::bulk::{BulkAction, BulkRerun, BulkState, Pace, ResultKind, TargetResult};
use unstuck_core::command::Report;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::error::Error;
use unstuck_core::model::run::RunState;
use unstuck_core::time::Millis;
use unstuck_store::contract::Store;
use unstuck_store::memory::MemoryStore;

use crate::support::{AT_ONCE, Bench, broken, done};

fn fatal() -> Report {
    Report::Fail { error: Box::new(Error::new("the file is empty")), fatal: true }
}

fn rerun() -> BulkAction {
    BulkAction::Rerun { again: BulkRerun::Continue, input: None, step_input: None }
}

/// So many runs that have failed.
fn failed(bench: &mut Bench, count: usize) -> Vec<RunId> {
    let runs = bench.start(count);
    bench.work(|_| fatal());
    runs
}

fn state(bench: &mut Bench, run: RunId) -> Option<RunState> {
    bench.engine.store().run(run).expect("reads").map(|run| run.state())
}

fn why(results: &[TargetResult], place: usize) -> &str {
    results[place].why().expect("it says why")
}

#[test]
fn runs_are_started_again_and_it_is_told_how_each_comes_out() {
    let mut bench = Bench::new(MemoryStore::new());
    let mut runs = failed(&mut bench, 3);
    runs.extend(bench.in_error(1));
    let bulk = bench.begin(rerun(), &runs, AT_ONCE);
    bench.run();
    assert_eq!(bench.counts(bulk), (0, 0, 1, 3));
    assert!(why(&bench.results(bulk), 3).contains("so it cannot be rerun"), "{:?}", bench.results(bulk));
    let (again, stalled) = (runs[1], runs[2]);
    bench.work(|run| {
        if run == again {
            fatal()
        } else if run == stalled {
            broken()
        } else {
            done()
        }
    });
    let kinds = [ResultKind::Passed, ResultKind::FailedAgain, ResultKind::FailedAgain, ResultKind::Refused];
    assert_eq!((bench.bulk(bulk).state, bench.kinds(bulk)), (BulkState::Done, kinds.to_vec()));
    assert_eq!(why(&bench.results(bulk), 1), "the file is empty");
    assert_eq!(why(&bench.results(bulk), 2), "the archive is full", "it rests in error, as it would before");
}

#[test]
fn a_canary_of_reruns_that_fails_stops_the_rest() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = failed(&mut bench, 4);
    let bulk = bench.begin(rerun(), &runs, Pace { canary: Some(1), ..AT_ONCE });
    bench.run();
    bench.work(|_| done());
    assert_eq!(bench.counts(bulk), (1, 0, 0, 2), "the next wave has begun");
    let mut bench = bench.die_and_start();
    bench.try_anew();
    bench.work(|_| fatal());
    let BulkState::Stopped { why } = bench.bulk(bulk).state else { panic!("{:?}", bench.bulk(bulk)) };
    assert!(why.ends_with("of wave 2 failed again; the remaining 1 were not changed"), "{why}");
    assert_eq!(bench.kinds(bulk)[3], ResultKind::Pending);
}

#[test]
fn final_runs_are_forgotten_and_their_results_stay() {
    let mut bench = Bench::new(MemoryStore::new());
    let gone = failed(&mut bench, 3);
    let open = bench.in_error(1);
    let targets = [gone.clone(), open.clone(), vec![RunId(7)]].concat();
    let bulk = bench.begin(BulkAction::Forget, &targets, AT_ONCE);
    bench.run();
    let results = bench.results(bulk);
    assert_eq!(results[..3], [TargetResult::Forgotten, TargetResult::Forgotten, TargetResult::Forgotten]);
    assert!(why(&results, 3).contains("so it cannot be forgotten"), "{results:?}");
    assert!(why(&results, 4).contains("there is no run"), "{results:?}");
    assert_eq!((bench.bulk(bulk).state, bench.counts(bulk)), (BulkState::Done, (3, 0, 2, 0)));
    for run in gone {
        assert_eq!(state(&mut bench, run), None);
    }
    assert_eq!(state(&mut bench, open[0]), Some(RunState::Error));
}

#[test]
fn what_was_not_durable_when_the_process_died_is_forgotten_by_the_next_one() {
    for durable in 0..3 {
        let mut bench = Bench::new(MemoryStore::deferred());
        let runs = failed(&mut bench, 4);
        let bulk = bench.begin(BulkAction::Forget, &runs, Pace { rate: 1, canary: None });
        for _ in 0..3 {
            bench.step();
            bench.pass(Millis::seconds(1));
        }
        bench.engine.store().make_durable(durable);
        let mut bench = bench.die_and_start();
        let counted = bench.counts(bulk).0;
        let left: Vec<_> = runs.iter().filter_map(|run| state(&mut bench, *run)).collect();
        assert_eq!(left.len() as u64, 4 - counted, "what is counted is gone, and nothing else is");
        for _ in 0..5 {
            bench.pass(Millis::seconds(1));
            bench.run();
        }
        assert_eq!((bench.bulk(bulk).state, bench.counts(bulk)), (BulkState::Done, (4, 0, 0, 0)));
        assert_eq!(runs.iter().filter_map(|run| state(&mut bench, *run)).count(), 0);
    }
}

#[test]
fn the_same_run_twice_is_forgotten_once() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = failed(&mut bench, 1);
    let bulk = bench.begin(BulkAction::Forget, &[runs[0], runs[0]], AT_ONCE);
    bench.run();
    assert_eq!(bench.kinds(bulk), [ResultKind::Forgotten, ResultKind::Refused]);
}

#[test]
fn a_step_is_skipped_or_completed_where_it_rests_under_the_name_that_was_given() {
    let mut bench = Bench::new(MemoryStore::new());
    let mut runs = bench.in_error(2);
    runs.extend(bench.start(1));
    let other = bench.begin(BulkAction::Skip { step: "b".into() }, &runs[..1], AT_ONCE);
    bench.run();
    assert!(why(&bench.results(other), 0).contains("`b` is another step"), "{:?}", bench.results(other));
    let bulk = bench.begin(BulkAction::Skip { step: "a".into() }, &runs[..1], AT_ONCE);
    let output = Json::parse("7").expect("is JSON");
    let complete = BulkAction::Complete { step: "a".into(), output };
    let completed = bench.begin(complete, &runs[1..], AT_ONCE);
    bench.run();
    assert_eq!(bench.kinds(bulk), [ResultKind::Skipped]);
    assert_eq!(bench.kinds(completed), [ResultKind::Completed, ResultKind::Refused]);
    assert!(why(&bench.results(completed), 1).contains("an attempt is running"));
    assert_eq!(state(&mut bench, runs[0]), Some(RunState::Completed));
    assert_eq!(state(&mut bench, runs[1]), Some(RunState::Completed));
}

#[test]
fn a_run_that_goes_on_is_sent_the_signal_and_a_final_one_is_not() {
    let mut bench = Bench::new(MemoryStore::new());
    let mut runs = bench.in_error(1);
    runs.extend(failed(&mut bench, 1));
    let signal = BulkAction::Signal { name: "go".into(), payload: Json::NULL };
    let bulk = bench.begin(signal, &runs, AT_ONCE);
    bench.run();
    assert_eq!(bench.kinds(bulk), [ResultKind::Signalled, ResultKind::Refused]);
}
