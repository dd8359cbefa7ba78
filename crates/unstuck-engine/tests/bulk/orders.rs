//! Pausing, letting go on, cancelling: what is answered, and what comes of it.

use unstuck_core::bulk::{BulkState, Pace, ResultKind};
use unstuck_core::decide::Answer;
use unstuck_core::id::BulkId;
use unstuck_core::time::Millis;
use unstuck_engine::bulk::BulkCommand;
use unstuck_engine::request::EngineError;
use unstuck_store::memory::MemoryStore;

use crate::support::{AT_ONCE, Bench, broken, done};

/// One target a second.
const SLOW: Pace = Pace { rate: 1, canary: None };

#[test]
fn what_is_ordered_is_answered() {
    use BulkCommand::{Cancel, Pause, Unpause};
    let over = "has ended or does not exist, so it cannot be changed";
    let cases: [(&[BulkCommand], Result<Answer, &str>); 8] = [
        (&[Pause], Ok(Answer::Done)),
        (&[Pause, Pause], Ok(Answer::Already)),
        (&[Pause, Unpause], Ok(Answer::Done)),
        (&[Unpause], Ok(Answer::Already)),
        (&[Pause, Cancel], Ok(Answer::Done)),
        (&[Cancel, Cancel], Ok(Answer::Already)),
        (&[Cancel, Pause], Err("the bulk action is cancelled, so it cannot be paused")),
        (&[Cancel, Unpause], Err("the bulk action is cancelled, so it cannot continue")),
    ];
    for (commands, wanted) in cases {
        let mut bench = Bench::new(MemoryStore::new());
        let runs = bench.in_error(3);
        let bulk = bench.resume(&runs, SLOW);
        bench.run();
        let answers: Vec<_> = commands.iter().map(|command| bench.change(bulk, *command)).collect();
        let last = answers.last().expect("something was ordered").clone();
        assert_eq!(last, wanted.map_err(|said| EngineError::BadBulk(said.to_owned())), "{commands:?}");
    }
    let mut bench = Bench::new(MemoryStore::new());
    let refused = bench.change(BulkId(7), Pause).expect_err("there is none").to_string();
    assert!(refused.contains(over), "{refused}");
}

#[test]
fn nothing_is_acted_on_while_it_is_paused_and_all_is_when_it_goes_on() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(3);
    let bulk = bench.resume(&runs, SLOW);
    bench.run();
    bench.change(bulk, BulkCommand::Pause).expect("is paused");
    bench.pass(Millis::seconds(60));
    bench.work(|_| done());
    assert_eq!(
        (bench.bulk(bulk).next, bench.counts(bulk)),
        (1, (1, 0, 0, 0)),
        "what was under way is counted"
    );
    bench.change(bulk, BulkCommand::Unpause).expect("goes on");
    for _ in 0..3 {
        bench.pass(Millis::seconds(1));
        bench.run();
        bench.work(|_| done());
    }
    assert_eq!((bench.bulk(bulk).state, bench.counts(bulk)), (BulkState::Done, (3, 0, 0, 0)));
}

#[test]
fn a_cancelled_one_leaves_the_rest_alone_and_still_learns_its_results() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(3);
    let bulk = bench.resume(&runs, SLOW);
    bench.run();
    bench.change(bulk, BulkCommand::Cancel).expect("is cancelled");
    let mut bench = bench.die_and_start();
    bench.pass(Millis::seconds(60));
    bench.try_anew();
    bench.work(|_| broken());
    assert_eq!((bench.bulk(bulk).state, bench.counts(bulk)), (BulkState::Cancelled, (0, 1, 0, 0)));
    let kinds = [ResultKind::FailedAgain, ResultKind::Pending, ResultKind::Pending];
    assert_eq!(bench.kinds(bulk), kinds);
    assert_eq!(bench.resumed(&runs), [1, 0, 0]);
}

#[test]
fn one_that_has_stopped_can_go_on() {
    let mut bench = Bench::new(MemoryStore::new());
    let runs = bench.in_error(5);
    let bulk = bench.resume(&runs, Pace { canary: Some(1), ..AT_ONCE });
    bench.run();
    bench.work(|_| broken());
    assert!(matches!(bench.bulk(bulk).state, BulkState::Stopped { .. }));
    bench.change(bulk, BulkCommand::Unpause).expect("goes on");
    for _ in 0..3 {
        bench.run();
        bench.work(|_| done());
    }
    assert_eq!((bench.bulk(bulk).state, bench.counts(bulk)), (BulkState::Done, (4, 1, 0, 0)));
}
