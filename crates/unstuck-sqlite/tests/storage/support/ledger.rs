//! An engine of the smallest sort that keeps a ledger of what it was told is durable, and looks for it later.

use std::sync::Arc;

use unstuck_core::command::StartInput;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::Flow;
use unstuck_sqlite::Options;
use unstuck_store::conformance::contents::contents;
use unstuck_store::conformance::driver::{Driver, large};
use unstuck_store::conformance::flows::{action, sequence};
use unstuck_store::contract::{RunFilter, Settled, StageId, Store as _, StoreError};

use super::fixture::Fixture;
use super::power::Power;

/// Starts runs, each with a payload and a key, and remembers which are durable.
pub(crate) struct Ledger {
    pub(crate) driver: Driver<Fixture>,
    pub(crate) flow: Arc<Flow>,
    /// Staged, and not reported yet.
    open: Vec<(StageId, RunId)>,
    pub(crate) durable: Vec<RunId>,
    pub(crate) lost: Vec<RunId>,
}

impl Ledger {
    pub(crate) fn new(fixture: Fixture) -> Ledger {
        let mut driver = Driver::new(fixture);
        let flow = driver.keep(sequence("f", vec![action("a"), action("b")]));
        Ledger { driver, flow, open: Vec::new(), durable: Vec::new(), lost: Vec::new() }
    }

    /// On a disk with steady power.
    pub(crate) fn on_a_disk(options: Options) -> Ledger {
        Ledger::new(Fixture::on_a_disk(options, Power::steady(1)))
    }

    pub(crate) fn fixture(&mut self) -> &mut Fixture {
        &mut self.driver.store
    }

    /// Starts a run. It is durable once it is in the ledger.
    pub(crate) fn start(&mut self) -> Result<(), StoreError> {
        let ask = self.driver.start_of(&self.flow, |start| {
            start.input = StartInput::New(large("input"));
            start.key = Some(start.run.to_string().into());
        });
        let run = ask.run;
        let (stage, _) = self.driver.attempt_all(vec![ask])?;
        self.open.push((stage, run));
        Ok(())
    }

    /// Waits for everything that was staged. Gives the first error.
    pub(crate) fn settle(&mut self) -> Result<(), StoreError> {
        let mut result = Ok(());
        while !self.open.is_empty() {
            let reports = self.driver.store.settle(true);
            assert!(!reports.is_empty(), "{} stages never settle", self.open.len());
            for Settled { stage, result: told } in reports {
                let (expected, run) = self.open.remove(0);
                assert_eq!(stage, expected, "they settle in order");
                let is_durable = told.is_ok();
                (if is_durable { &mut self.durable } else { &mut self.lost }).push(run);
                result = result.and(told);
            }
        }
        result
    }

    /// Starts so many runs, all of which become durable.
    pub(crate) fn start_all(&mut self, count: usize) {
        for _ in 0..count {
            self.start().expect("there is nothing wrong");
        }
        self.settle().expect("there is nothing wrong");
    }

    /// Starts runs until something goes wrong, and gives what.
    pub(crate) fn start_until_it_fails(&mut self) -> StoreError {
        for _ in 0..20_000 {
            if let Err(error) = self.start() {
                self.settle().expect("what was staged before is durable");
                return error;
            }
            if let Err(error) = self.settle() {
                return error;
            }
        }
        panic!("nothing goes wrong");
    }

    /// Everything in the ledger is there, and all that is there is whole; what was lost is not there.
    pub(crate) fn check(&mut self) {
        self.look_up();
        contents(&mut self.driver.store, self.driver.flows.values()).check();
    }

    fn look_up(&mut self) {
        let store = &mut self.driver.store;
        for run in &self.durable {
            assert!(store.run(*run).expect("runs are read").is_some(), "{run} was durable, and is gone");
            assert_eq!(store.run_of_key("f", &run.to_string()), Ok(Some(*run)));
        }
        for run in &self.lost {
            assert_eq!(store.run_of_key("f", &run.to_string()), Ok(None), "{run} was lost");
        }
    }

    /// Every way of reading answers.
    pub(crate) fn read_everything(&mut self) {
        self.look_up();
        let store = &mut self.driver.store;
        let last = *self.durable.last().expect("something is durable");
        assert_eq!(store.history(last, 0, 9).expect("histories are read").len(), 1);
        assert_eq!(store.list(&RunFilter::default(), None, 1).expect("runs are listed")[0].id, last);
    }

    /// The process ends; the next one finds what a process sees on the disk.
    pub(crate) fn restart(&mut self) -> Result<(), StoreError> {
        self.driver.store.restart()?;
        self.resume();
        Ok(())
    }

    /// The process dies, and nothing is open until a [restart](Ledger::restart).
    pub(crate) fn lose_process(&mut self, empty: bool) {
        self.driver.store.lose_process(empty);
        if empty {
            self.driver.flows.clear();
            self.durable.clear();
        }
    }

    /// The power goes; what was synced is left.
    pub(crate) fn pull_the_plug(&mut self) {
        self.driver.store.unplug().expect("opens what is left");
        self.resume();
    }

    /// Goes on with what the store has. Of what nobody was told, anything may be there, and ids are given again.
    pub(crate) fn resume(&mut self) {
        self.open.clear();
        self.lost.clear();
        self.driver.resume();
    }
}
