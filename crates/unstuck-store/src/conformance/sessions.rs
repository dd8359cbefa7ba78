//! Sessions: what a server finds of those before it, and of others beside it.

use unstuck_core::command::{Command, Report};
use unstuck_core::downtime::{Downtime, MAX_DOWNTIMES};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::{Millis, Time};

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, worker};
use crate::conformance::flows::{action, sequence};
use crate::conformance::restarts::settle_all;
use crate::contract::{EndedSession, NewSession, Session, Stage};

/// A session of a server on this machine, which would sign with this key.
pub fn session(token_key: [u8; 32]) -> NewSession {
    NewSession { token_key, host: "here".into() }
}

/// Every session has an incarnation of its own; the key and the epoch stay.
pub fn each_session_has_an_incarnation_of_its_own<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    let first = store.open_session(session([7; 32])).expect("begins");
    let (lease, now) = (first.lease, first.now);
    assert_eq!(first, Session { epoch: 1, token_key: [7; 32], incarnation: 1, node: 0, lease, now });
    assert_eq!(store.renew_session(), Ok(()));
    store.end_session();
    let mut store = store.reopen();
    let second = store.open_session(session([9; 32])).expect("begins");
    assert_eq!(second, Session { incarnation: 2, ..first });
}

/// Attempts of a server's own executors are found once its session has ended, and nobody else's; a session is given its
/// own once.
pub fn attempts_of_executors_are_found<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a"), action("b")]));
    let unit = UnitRef::step(StepIndex(0));
    let mine = Worker { local: true, ..worker("mine") };
    let runs = [driver.start(&flow), driver.start(&flow), driver.start(&flow)];
    driver.claim(runs[0], 0);
    for run in &runs[1..] {
        driver.act(*run, Command::Claim { unit, worker: mine.clone() });
    }
    driver.say(runs[2], 0, Report::Complete { output: Json::NULL });
    let incarnation = mine.incarnation;
    let attempts = vec![(driver.attempt(runs[1], unit), mine)];
    let expected = vec![EndedSession { incarnation, is_on_this_host: true, attempts }];
    assert_eq!(driver.store.ended_sessions(), Ok(expected.clone()));
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.ended_sessions(), Ok(expected));
    driver.say(runs[1], 0, Report::Complete { output: Json::NULL });
    assert_eq!(driver.store.ended_sessions(), Ok(Vec::new()));
    settle_all(&mut driver);
}

/// The last downtimes are kept, in order.
pub fn downtimes_are_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    assert_eq!(driver.store.downtimes(), Ok(Vec::new()));
    let all: Vec<Downtime> = (0..80).map(|n| Downtime { from: Time(n * 10), to: Time(n * 10 + 5) }).collect();
    for downtime in &all {
        driver.begin().expect("begins");
        let stage = Stage { at: driver.now, downtime: Some(*downtime), ..Stage::default() };
        driver.stage(stage).expect("stages");
    }
    let last = all[all.len() - MAX_DOWNTIMES..].to_vec();
    assert_eq!(driver.store.downtimes(), Ok(last.clone()));
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.downtimes(), Ok(last));
}

/// When an engine was last alive is the time of its last stage, or later if it said so.
pub fn the_last_sign_of_life_is_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    assert_eq!(driver.store.last_seen(), Ok(None), "nobody was ever here");
    // Later than any clock that a file could tell.
    driver.now = Time(2_100_000_000_000);
    let flow = driver.keep(sequence("f", vec![action("a")]));
    driver.start(&flow);
    settle_all(&mut driver);
    assert_eq!(driver.store.last_seen(), Ok(Some(driver.now)));
    let later = driver.now + Millis::minutes(3);
    driver.store.record_alive(later);
    driver.store.record_alive(driver.now);
    assert_eq!(driver.store.last_seen(), Ok(Some(later)));
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(driver.store.last_seen(), Ok(Some(later)));
    assert_eq!(driver.store.last_time(), Ok(Some(driver.now)));
}
