//! What readers are shown: whoever was told of something reads it, and whatever was read survives.

use std::collections::BTreeSet;

use unstuck_core::id::RunId;
use unstuck_store::contract::Store;

use super::run_record::RunRecord;
use super::{Broken, CheckError, Promise, Promises};

impl Promises {
    /// Reads one of the runs that something has just been told of, and the newest that there is.
    pub(super) fn check_shown(
        &mut self,
        store: &mut dyn Store,
        touched: &BTreeSet<RunId>,
    ) -> Result<(), CheckError> {
        let Some(id) = touched.last().copied() else { return Ok(()) };
        self.count(Promise::Shown);
        let reader = store.reader();
        let shown = reader.run(id)?.map_or(0, |run| run.seq);
        let told = self.books.get(&id).and_then(RunRecord::run).map_or(0, |run| run.seq);
        if shown < told && !self.may_be_forgotten(id) {
            let what = format!("event {told} was told of, and a reader sees no more than {shown}");
            return Err(Broken::of(Promise::Shown, id, what).into());
        }
        self.shown.insert(id, shown);
        let newest = reader.list(&unstuck_store::contract::RunFilter::default(), None, 1)?;
        self.shown.extend(newest.first().map(|run| (run.id, run.seq)));
        Ok(())
    }

    /// After a crash: what readers were shown is there.
    pub(super) fn check_shown_is_kept(&mut self, store: &mut dyn Store) -> Result<(), CheckError> {
        for (id, shown) in std::mem::take(&mut self.shown) {
            if self.forgotten.contains(&id) || self.may_be_forgotten(id) {
                continue;
            }
            let kept = store.run(id)?.map_or(0, |run| run.seq);
            if kept < shown {
                let what = format!("a reader was shown event {shown}, and after a crash there are {kept}");
                return Err(Broken::of(Promise::Shown, id, what).into());
            }
        }
        Ok(())
    }
}
