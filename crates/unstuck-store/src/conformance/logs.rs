//! Logs: what attempts printed comes with its stage, is kept within bounds, and goes with its run.

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::log::{AttemptLog, IgnoredLine, LogRecord, Tail};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;

use crate::conformance::driver::{Ask, Driver};
use crate::conformance::flows::{action, sequence};
use crate::conformance::restarts::settle_all;
use crate::conformance::{TestStore, settle};
use crate::contract::{RunLogs, Stage, StoreError};
use crate::logs::{MAX_LOG_BYTES_OF_RUN, MAX_LOGS_OF_RUN};

/// What was printed is read as it was, oldest first, and is there after a restart.
pub fn what_an_attempt_printed_is_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, run) = working(make());
    assert_eq!(driver.store.logs(run), Ok(RunLogs::default()), "who prints nothing has no log");
    let ignored = vec![IgnoredLine { line: 3, text: "progress".into(), why: "no JSON".into() }];
    let first = AttemptLog { stderr: tail("err \u{1F600}\n\"x\""), ignored, ..AttemptLog::default() };
    let second = AttemptLog { stdout: tail("out"), ..AttemptLog::default() };
    let attempt = driver.attempt(run, UnitRef::step(StepIndex(0)));
    driver.say(run, 0, Report::Log(Box::new(first.clone())));
    driver.say(run, 0, Report::Complete { output: Json::NULL });
    assert!(driver.run(run).is_final());
    driver.act(run, Command::Report { attempt, report: Report::Log(Box::new(second.clone())) });
    settle_all(&mut driver);
    let logs = |driver: &mut Driver<S>| driver.store.logs(run).expect("reads");
    let kept: Vec<AttemptLog> = logs(&mut driver).kept.into_iter().map(|record| record.log).collect();
    assert_eq!(kept, [first, second]);
    let before = logs(&mut driver);
    assert_eq!(before.dropped, 0);
    assert!(before.kept.iter().all(|record| record.attempt.attempt == 1 && record.attempt.run == run));
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(logs(&mut driver), before);
}

/// A run keeps so many logs and so many bytes; the oldest go first, and how many went is known.
pub fn the_oldest_logs_are_dropped<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, run) = working(make());
    let over = MAX_LOGS_OF_RUN + 5;
    for number in 0..over {
        driver.say(run, 0, log(&format!("{number}")));
    }
    let texts = |logs: &RunLogs| -> Vec<String> {
        logs.kept.iter().map(|record| record.log.stdout.text.to_string()).collect()
    };
    let logs = driver.store.logs(run).expect("reads");
    let wanted: Vec<String> = (5..over).map(|number| number.to_string()).collect();
    assert_eq!((logs.dropped, texts(&logs)), (5, wanted));
    // Now by their sizes: each takes a tenth of what there may be.
    let large = "x".repeat(MAX_LOG_BYTES_OF_RUN / 10);
    for _ in 0..15 {
        driver.say(run, 0, log(&large));
    }
    let logs = driver.store.logs(run).expect("reads");
    assert!(texts(&logs).iter().all(|text| *text == large), "the small ones are older");
    assert_eq!((logs.kept.len(), logs.dropped), (10, (over + 15 - 10) as u64));
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    assert_eq!(driver.continue_with(store.reopen()).store.logs(run), Ok(logs));
}

/// Each run has logs of its own, and a forgotten one takes its own with it.
pub fn a_forgotten_run_takes_its_logs_with_it<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, run) = working(make());
    let flow = driver.flows.values().next().expect("a flow").clone();
    let other = driver.start(&flow);
    driver.work(other, 0);
    driver.say(run, 0, log("mine"));
    driver.say(other, 0, log("theirs"));
    driver.say(run, 0, Report::Complete { output: Json::NULL });
    driver.begin().expect("begins");
    driver.lock(&[run]).expect("locks");
    let stage = Stage { at: driver.now, forgotten: vec![run], ..Stage::default() };
    driver.stage(stage).expect("it is final");
    assert_eq!(driver.store.logs(run), Ok(RunLogs::default()));
    assert_eq!(driver.store.logs(other).map(|logs| logs.kept.len()), Ok(1));
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.logs(run), Ok(RunLogs::default()));
    assert_eq!(driver.store.logs(other).map(|logs| logs.kept.len()), Ok(1));
}

/// A log comes with its run, and with its stage or not at all.
pub fn a_log_comes_with_its_stage<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, run) = working(make());
    settle_all(&mut driver);
    let unit = UnitRef::step(StepIndex(0));
    let attempt = AttemptId { run, generation: 1, unit, attempt: 1 };
    driver.begin().expect("begins");
    let record = LogRecord { attempt, at: Time(1), log: AttemptLog::default() };
    let result = driver.stage(Stage { at: driver.now, logs: vec![record], ..Stage::default() });
    assert!(matches!(result, Err(StoreError::Conflict(_))), "its run was not locked: {result:?}");
    assert_eq!(driver.store.logs(run), Ok(RunLogs::default()));
    let command = Command::Report { attempt, report: log("lost") };
    driver.begin().expect("begins");
    let batch = driver.decide(vec![Ask { run, command, flow: None }]).expect("decides");
    driver.stage(batch.stage).expect("is staged");
    if driver.store.fail_next(&StoreError::Full("no room".into())) > 0 {
        assert_eq!(settle(&mut driver.store, 1).len(), 1);
        assert_eq!(driver.store.logs(run), Ok(RunLogs::default()), "what failed is gone");
    }
}

/// A run of `f` whose attempt is under way.
fn working<S: TestStore>(store: S) -> (Driver<S>, RunId) {
    let mut driver = Driver::new(store);
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    driver.work(run, 0);
    (driver, run)
}

fn tail(text: &str) -> Tail {
    Tail { text: text.into(), bytes: text.len() as u64, cut: false }
}

fn log(text: &str) -> Report {
    Report::Log(Box::new(AttemptLog { stdout: tail(text), ..AttemptLog::default() }))
}
