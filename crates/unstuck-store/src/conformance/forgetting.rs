//! Forgetting: a final run is removed for good, with all that is its own, and nothing else is touched.

use unstuck_core::command::{Command, Report, StartInput};
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::{Json, Payload};
use unstuck_core::time::Millis;

use crate::conformance::TestStore;
use crate::conformance::contents::contents;
use crate::conformance::driver::{Driver, large, user};
use crate::conformance::flows::{action, sequence};
use crate::conformance::restarts::settle_all;
use crate::contract::{RunFilter, Stage, StoreError};

/// Its state, history, payloads and key are gone, at once and after a restart; its neighbours are as they were.
pub fn a_forgotten_run_is_gone<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, run) = ended(make());
    let flow = driver.flows.values().next().expect("a flow").clone();
    let other = driver.start_with(&flow, |start| start.key = Some("other".into()));
    let Payload::Stored(payload) = driver.run(run).input else { panic!("a large input is stored") };
    settle_all(&mut driver);
    forget(&mut driver, run).expect("it is final");
    assert_gone(&mut driver, run, payload);
    assert_eq!(driver.store.run_of_key("f", "other"), Ok(Some(other)));
    settle_all(&mut driver);
    let before = contents(&mut driver.store, driver.flows.values());
    before.check();
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(contents(&mut driver.store, driver.flows.values()), before);
    assert_gone(&mut driver, run, payload);
    driver.work(other, 0);
    driver.say(other, 0, Report::Complete { output: Json::NULL });
    settle_all(&mut driver);
}

/// A new run may have the key that a forgotten one had, and goes its way, restarts included.
pub fn a_forgotten_key_is_free<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, run) = ended(make());
    forget(&mut driver, run).expect("it is final");
    let flow = driver.flows.values().next().expect("a flow").clone();
    let next = driver.start_with(&flow, |start| start.key = Some("k".into()));
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(Some(next)));
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(Some(next)));
    assert_eq!(driver.run(next).id, next);
    driver.work(next, 0);
    driver.say(next, 0, Report::Complete { output: Json::NULL });
    assert!(driver.run(next).is_final());
    settle_all(&mut driver);
}

/// What is not final stays, whoever asks.
pub fn only_a_final_run_is_forgotten<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    let before = driver.run(run);
    let result = forget(&mut driver, run);
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    assert_eq!(driver.run(run), before);
    driver.act(run, Command::Cancel { by: user(), reason: None });
    forget(&mut driver, run).expect("it is final now");
    assert_eq!(driver.store.run(run), Ok(None));
}

/// A run that was not locked is not forgotten, nor one that is not there.
pub fn only_a_locked_run_is_forgotten<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, run) = ended(make());
    let nobody = driver.new_id();
    for id in [run, nobody] {
        driver.begin().expect("begins");
        let stage = Stage { at: driver.now, forgotten: vec![id], ..Stage::default() };
        let result = driver.stage(stage);
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    }
    assert!(driver.run(run).is_final());
}

/// A run of `f` with the key `k` and a large input that has completed.
fn ended<S: TestStore>(store: S) -> (Driver<S>, RunId) {
    let mut driver = Driver::new(store);
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start_with(&flow, |start| {
        start.key = Some("k".into());
        start.input = StartInput::New(large("input"));
    });
    driver.pass(Millis(5));
    driver.work(run, 0);
    driver.say(run, 0, Report::Complete { output: large("output") });
    (driver, run)
}

pub(crate) fn forget<S: TestStore>(driver: &mut Driver<S>, run: RunId) -> Result<(), StoreError> {
    driver.begin()?;
    driver.lock(&[run])?;
    let stage = Stage { at: driver.now, forgotten: vec![run], ..Stage::default() };
    driver.stage(stage).map(|_| ())
}

fn assert_gone<S: TestStore>(driver: &mut Driver<S>, run: RunId, payload: PayloadId) {
    assert_eq!(driver.store.run(run), Ok(None));
    assert_eq!(driver.store.history(run, 0, 9), Ok(Vec::new()));
    assert_eq!(driver.store.payloads(&[payload]), Ok(vec![None]));
    assert_eq!(driver.store.run_of_key("f", "k"), Ok(None));
    let listed = driver.store.list(&RunFilter::default(), None, 9).expect("lists");
    assert!(listed.iter().all(|listed| listed.id != run));
}
