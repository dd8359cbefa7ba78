//! Several handles on one store, as several servers have: what one has locked is busy for the others.
//!
//! These cases are for stores that can be shared. Which store is one is said by its type, so that no case can pass by
//! having nothing to do.

use unstuck_core::command::Command;

use crate::conformance::driver::{Driver, user};
use crate::conformance::flows::{action, sequence};
use crate::conformance::transactions::{pause, runs_of};
use crate::conformance::{TestStore, settle};
use crate::contract::{Locked, StoreError};
use crate::memory::{MemoryStore, SharedStore};

/// A store that several can have open.
pub trait SharedTestStore: TestStore {
    /// Another handle on the same data, as another server has.
    #[must_use]
    fn another(&mut self) -> Self;
}

impl SharedTestStore for SharedStore {
    fn another(&mut self) -> SharedStore {
        SharedStore::new_handle(self)
    }
}

impl TestStore for SharedStore {
    fn reopen(self) -> SharedStore {
        self.crash()
    }

    fn make_durable(&mut self, n: usize) {
        MemoryStore::make_durable(&mut self.store(), n);
    }

    fn fail_next(&mut self, error: &StoreError) -> usize {
        MemoryStore::fail_next(&mut self.store(), error)
    }

    fn refuse_stage(&mut self, error: StoreError) -> bool {
        MemoryStore::refuse_stage(&mut self.store(), error);
        true
    }
}

/// A run that another server has locked is busy, and is not waited for; nor does anybody get it twice.
pub fn a_run_that_somebody_else_has_is_busy<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    let mut other = driver.store.another();
    other.begin().expect("begins");
    let theirs = other.lock(&[first]).expect("locks");
    assert!(matches!(theirs[0], Locked::Here(_)));
    driver.store.begin().expect("begins");
    let ours = driver.store.lock(&[first, second]).expect("locks");
    assert_eq!(ours[0], Locked::Busy);
    assert!(matches!(ours[1], Locked::Here(_)));
    assert_eq!(other.lock(&[second]), Ok(vec![Locked::Busy]));
    driver.store.abandon(runs_of(ours));
    other.abandon(runs_of(theirs));
    driver.store.begin().expect("begins");
    let ours = driver.store.lock(&[first]).expect("locks");
    assert!(matches!(ours[0], Locked::Here(_)));
    driver.store.abandon(runs_of(ours));
}

/// Whoever reads a run that somebody else has locked sees it as it was before.
pub fn a_busy_run_is_read_as_it_was<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    let before = driver.run(run);
    let mut other = driver.store.another();
    other.begin().expect("begins");
    let theirs = other.lock(&[run]).expect("locks");
    assert_eq!(driver.run(run), before);
    assert_eq!(driver.store.list(&crate::contract::RunFilter::default(), None, 9), Ok(vec![before]));
    other.abandon(runs_of(theirs));
}

/// What one has staged the other sees; each is told what came of its own stages, and not of the other's.
pub fn each_is_told_of_its_own_stages<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    let (mut store, driver) = driver.split();
    let other = store.another();
    let mut driver = driver.continue_with(other);
    driver.act(run, pause());
    assert_eq!(store.run(run).expect("reads").map(|run| run.seq), Some(driver.run(run).seq));
    driver.store.make_durable(9);
    assert_eq!(settle(&mut driver.store, 1), []);
    assert_eq!(settle(&mut store, 1), []);
    assert!(store.settle(false).is_empty() && driver.store.settle(false).is_empty());
}

/// A server that dies lets go of what it has locked.
pub fn who_is_gone_holds_nothing<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    let mut other = driver.store.another();
    other.begin().expect("begins");
    assert!(matches!(other.lock(&[run]).expect("locks")[0], Locked::Here(_)));
    drop(other);
    driver.act(run, Command::Cancel { by: user(), reason: None });
}
