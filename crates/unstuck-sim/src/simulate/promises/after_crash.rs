//! After a crash: what was durable and nobody was told of, and who died with the process.

use std::collections::BTreeSet;

use unstuck_core::event::Event;
use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_core::time::Time;
use unstuck_engine::flows::Flows;
use unstuck_store::contract::{RunFilter, Store};

use super::run_record::RunRecord;
use super::timeline::clock_after;
use super::{Broken, CheckError, Promise, Promises};

impl Promises {
    /// What was durable when the process died, and nobody was told of.
    pub(super) fn find_unheard(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
    ) -> Result<(), CheckError> {
        let mut unheard: Vec<(Time, RunId, Event)> = Vec::new();
        let mut present = BTreeSet::new();
        for run in store.list(&RunFilter::default(), None, usize::MAX)? {
            present.insert(run.id);
            let known = self.books.get(&run.id).map_or(0, RunRecord::seq);
            let mut clock = self.books.get(&run.id).map_or(0, |book| book.clock);
            for event in store.history(run.id, known, usize::MAX)? {
                clock = clock_after(clock, &event);
                unheard.push((event.time().shifted(clock.saturating_neg()), run.id, event));
            }
        }
        let gone: Vec<RunId> = self.books.keys().copied().filter(|id| !present.contains(id)).collect();
        for id in gone.iter().copied() {
            if !self.may_be_forgotten(id) {
                return Err(
                    Broken::of(Promise::Kept, id, "it was acknowledged, and is gone after a crash").into()
                );
            }
        }
        self.bulks.find_forgotten(store, &gone, Time(0))?;
        for id in gone {
            self.forget(id);
        }
        // Parents before their children: the order of the same moment is not known any more.
        unheard.sort_by_key(|(paced, run, event)| (*paced, *run, event.seq));
        self.family.begin_unordered();
        for (_, run, event) in unheard {
            self.write(store, flows, run, event, false)?;
        }
        self.family.end_unordered()?;
        Ok(())
    }

    /// Executors of a process die with it: whoever had an attempt is gone.
    pub(super) fn lose_workers(&mut self) {
        for book in self.books.values() {
            for (attempt, _) in book.run().map(Run::local_attempts).unwrap_or_default() {
                self.leases.lost(0, attempt);
            }
        }
    }
}
