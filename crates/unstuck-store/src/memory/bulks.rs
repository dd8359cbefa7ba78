//! Bulk actions in memory, each with its targets.

use std::collections::BTreeMap;

use unstuck_core::bulk::{Bulk, BulkRef, ResultKind, Target, TargetResult};
use unstuck_core::id::BulkId;

use crate::contract::{Stage, StoreError};
use crate::invariants::{check_bulk, check_results, check_targets, duplicate_bulk};
use crate::memory::sessions::Sessions;

/// What is kept of bulk actions.
#[derive(Clone, Debug, Default)]
pub(super) struct Bulks {
    all: BTreeMap<BulkId, StoredBulk>,
}

#[derive(Clone, Debug, Default)]
struct StoredBulk {
    /// `None` until all of its targets are there.
    bulk: Option<Bulk>,
    /// Who puts them.
    session: Option<u64>,
    targets: Vec<Target>,
}

impl Bulks {
    pub(super) fn put_targets(
        &mut self,
        bulk: BulkId,
        targets: Vec<Target>,
        session: Option<u64>,
    ) -> Result<(), StoreError> {
        let kept = self.all.entry(bulk).or_default();
        if kept.bulk.is_some() {
            return Err(duplicate_bulk(bulk));
        }
        check_targets(bulk, kept.targets.len() as u64, &targets)?;
        kept.targets.extend(targets);
        kept.session = session;
        Ok(())
    }

    pub(super) fn put(&mut self, bulk: Bulk) -> Result<(), StoreError> {
        let known = self.all.get(&bulk.id);
        if known.is_some_and(|kept| kept.bulk.is_some()) {
            return Err(duplicate_bulk(bulk.id));
        }
        check_bulk(&bulk, known.map_or(0, |kept| kept.targets.len() as u64))?;
        let kept = self.all.entry(bulk.id).or_default();
        kept.bulk = Some(bulk);
        Ok(())
    }

    /// Those that have not begun, and will not because their session has ended, are gone.
    pub(super) fn drop_drafts(&mut self, sessions: &Sessions) {
        let is_live = |session: Option<u64>| session.is_some_and(|session| sessions.is_live(session));
        self.all.retain(|_, kept| kept.bulk.is_some() || is_live(kept.session));
    }

    pub(super) fn check_results(&self, stage: &Stage) -> Result<(), StoreError> {
        check_results(stage, |id| Ok(self.get(id).map(|bulk| bulk.total)))
    }

    /// Replaces a bulk action by its next version; its targets stay.
    pub(super) fn replace(&mut self, bulk: Bulk) {
        if let Some(kept) = self.all.get_mut(&bulk.id) {
            kept.bulk = Some(bulk);
        }
    }

    pub(super) fn put_result(&mut self, target: BulkRef, result: TargetResult) {
        let kept = self.all.get_mut(&target.bulk);
        if let Some(target) = kept.and_then(|kept| kept.targets.get_mut(index_of(target.place))) {
            target.result = result;
        }
    }

    pub(super) fn list_results(&self, bulk: BulkId, places: &[u64]) -> Vec<TargetResult> {
        let targets = self.all.get(&bulk).map(|kept| kept.targets.as_slice()).unwrap_or_default();
        let result = |place: &u64| targets.get(index_of(*place)).map(|target| target.result.clone());
        places.iter().map(|place| result(place).unwrap_or_default()).collect()
    }

    pub(super) fn get(&self, bulk: BulkId) -> Option<&Bulk> {
        self.all.get(&bulk)?.bulk.as_ref()
    }

    pub(super) fn list_bulks(&self, open_only: bool, before: Option<BulkId>, limit: usize) -> Vec<Bulk> {
        let found = self.all.iter().rev().filter_map(|(_, kept)| kept.bulk.as_ref());
        let wanted = found
            .filter(|bulk| before.is_none_or(|before| bulk.id < before) && !(open_only && bulk.is_settled()));
        wanted.take(limit).cloned().collect()
    }

    pub(super) fn list_targets(
        &self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Vec<Target> {
        let Some(kept) = self.all.get(&bulk).filter(|kept| kept.bulk.is_some()) else { return Vec::new() };
        let found = kept.targets.iter().skip(index_of(from));
        let wanted = found.filter(|target| only.is_none_or(|only| target.result.kind() == only));
        wanted.take(limit).cloned().collect()
    }
}

fn index_of(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}
