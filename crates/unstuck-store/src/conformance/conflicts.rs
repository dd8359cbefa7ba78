//! Conflicts: what breaks an invariant is refused as a whole, and changes nothing.

use unstuck_core::command::StartInput;
use unstuck_core::event::{Event, Fact};
use unstuck_core::id::RunId;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::run::{Phase, RunOutcome};

use crate::conformance::TestStore;
use crate::conformance::contents::contents;
use crate::conformance::driver::{Ask, Driver, large, user};
use crate::conformance::steps::runs_of;
use crate::conformance::transactions::{busy_store, oldest, pause};
use crate::contract::{RunChange, Stage, StoreError};

/// The events of a run continue its numbering, without gaps and without repeats.
pub fn events_continue_the_numbering<S: TestStore>(make: &mut dyn FnMut() -> S) {
    refuses(make, "a gap", |driver| {
        let mut stage = paused(driver);
        stage.runs[0].events[0].seq += 1;
        stage.runs[0].run.seq += 1;
        stage
    });
    refuses(make, "a number that is taken", |driver| {
        let mut stage = paused(driver);
        stage.runs[0].events[0].seq -= 1;
        stage.runs[0].run.seq -= 1;
        stage
    });
    refuses(make, "two events of one number", |driver| {
        let mut stage = paused(driver);
        let again = stage.runs[0].events[0].clone();
        stage.runs[0].events.push(again);
        stage
    });
}

/// A final generation does not change: the first thing that may follow is the next generation.
pub fn a_final_generation_does_not_change<S: TestStore>(make: &mut dyn FnMut() -> S) {
    refuses(make, "a pause after the end", |driver| {
        let done = driver.store.run_of_key("busy", "done").expect("reads").expect("is there");
        let mut run = driver.run(done);
        driver.begin().expect("begins");
        driver.lock(&[done]).expect("locks");
        run.seq += 1;
        let facts = vec![Fact::Paused { by: unstuck_core::model::run::PausedBy::Operator, reason: None }];
        let event = Event {
            seq: run.seq,
            generation: run.generation,
            at: driver.now,
            clock: None,
            by: user(),
            facts,
        };
        let change = RunChange {
            run: Box::new(run),
            flow: "busy".into(),
            events: vec![event],
            payloads: vec![],
            wakeups: vec![],
            replaces_all: false,
            slot: unstuck_core::slot::SlotClaim::None,
            leases: vec![],
            open_errors: vec![],
        };
        Stage { at: driver.now, runs: vec![change], ..Stage::default() }
    });
}

pub fn a_run_is_made_once<S: TestStore>(make: &mut dyn FnMut() -> S) {
    refuses(make, "a new run with the id of an old one", |driver| {
        let old = some_run(driver);
        let mut stage = started(driver);
        set_id(&mut stage.runs[0], old);
        stage
    });
    refuses(make, "the same new run twice", |driver| {
        let mut stage = started(driver);
        let again = stage.runs[0].clone();
        stage.runs.push(again);
        stage
    });
    refuses(make, "a run that is not there and does not begin", |driver| {
        let nobody = driver.new_id();
        let mut stage = started(driver);
        stage.runs[0].events[0].facts.remove(0);
        set_id(&mut stage.runs[0], nobody);
        stage
    });
}

pub fn a_payload_is_written_once<S: TestStore>(make: &mut dyn FnMut() -> S) {
    refuses(make, "a payload that is there", |driver| {
        let done = driver.store.run_of_key("busy", "done").expect("reads").expect("is there");
        let Phase::Ended(ended) = driver.run(done).phase else { panic!("the run is final") };
        let RunOutcome::Completed { output: Payload::Stored(taken) } = ended.how else {
            panic!("it has a stored output")
        };
        let mut stage = paused(driver);
        stage.runs[0].payloads.push((taken, Json::NULL));
        stage
    });
    refuses(make, "one payload twice", |driver| {
        let id = unstuck_core::id::PayloadId(driver.new_id().0);
        let mut stage = paused(driver);
        stage.runs[0].payloads.extend([(id, Json::NULL), (id, Json::NULL)]);
        stage
    });
}

/// What was refused with something else has left nothing behind: without its fault it is staged.
pub fn what_was_refused_may_come_again<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy_store(make());
    let flow = driver.flows.values().next().expect("there is a flow").clone();
    let good = driver.start_of(&flow, |start| {
        start.key = Some("new".into());
        start.input = StartInput::New(large("input"));
    });
    let bad = driver.start_of(&flow, |start| start.key = Some("done".into()));
    let run = good.run;
    driver.begin().expect("begins");
    let mut stage = driver.decide(vec![good, bad]).expect("decides").stage;
    let result = driver.stage(stage.clone());
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    let payload = stage.runs[0].payloads[0].0;
    assert_eq!(driver.store.run(run), Ok(None));
    assert_eq!(driver.store.history(run, 0, 9), Ok(vec![]));
    assert_eq!(driver.store.payloads(&[payload]), Ok(vec![None]));
    assert_eq!(driver.store.run_of_key("busy", "new"), Ok(None));
    stage.runs.truncate(1);
    driver.begin().expect("begins");
    driver.stage(stage).expect("stages");
    assert_eq!(driver.store.payloads(&[payload]), Ok(vec![Some(large("input"))]));
    assert_eq!(driver.store.run_of_key("busy", "new"), Ok(Some(run)));
}

/// Stages what `tamper` makes, and checks that it is refused and that nothing has changed.
fn refuses<S: TestStore>(
    make: &mut dyn FnMut() -> S,
    what: &str,
    tamper: impl FnOnce(&mut Driver<S>) -> Stage,
) {
    let mut driver = busy_store(make());
    let before = contents(&mut driver.store, driver.flows.values());
    let stage = tamper(&mut driver);
    let result = driver.stage(stage);
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{what} is a conflict: {result:?}");
    assert_eq!(contents(&mut driver.store, driver.flows.values()), before, "{what} changes nothing");
    let run = some_run(&mut driver);
    driver.begin().expect("begins");
    let locked = driver.lock(&[run]).expect("locks");
    driver.abandon(runs_of(locked));
}

/// A queued run is paused; the transaction is open.
fn paused<S: TestStore>(driver: &mut Driver<S>) -> Stage {
    let run = some_run(driver);
    driver.begin().expect("begins");
    driver.decide(vec![Ask { run, command: pause(), flow: None }]).expect("decides").stage
}

/// A run is started; the transaction is open.
fn started<S: TestStore>(driver: &mut Driver<S>) -> Stage {
    let flow = driver.flows.values().next().expect("there is a flow").clone();
    let ask = driver.start_of(&flow, |_| {});
    driver.begin().expect("begins");
    driver.decide(vec![ask]).expect("decides").stage
}

fn some_run<S: TestStore>(driver: &mut Driver<S>) -> RunId {
    let states = contents(&mut driver.store, driver.flows.values()).states();
    oldest(&states.into_iter().map(|(id, _)| id).collect::<Vec<_>>())
}

fn set_id(change: &mut RunChange, id: RunId) {
    change.run.id = id;
    for fact in change.events.iter_mut().flat_map(|event| &mut event.facts) {
        if let Fact::Started(started) = fact {
            started.run = id;
        }
    }
    for ready in change.wakeups.iter_mut().filter_map(|(_, wakeup)| wakeup.ready.as_mut()) {
        ready.run = id;
    }
}
