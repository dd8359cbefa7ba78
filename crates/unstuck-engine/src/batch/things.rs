//! What is no run in a batch: locked with it, decided by the core, and staged in the next version if it has changed.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use unstuck_core::bulk::{
    Acted, Bulk, BulkCommand, BulkContext, BulkRef, BulkRefusal, TargetResult, change_bulk, due_targets,
    fold_result, record_acted,
};
use unstuck_core::command::{Notice, NoticeBody};
use unstuck_core::decide::Answer;
use unstuck_core::id::BulkId;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;
use unstuck_store::contract::{LockedThing, NoticeId, StoreError};

use super::{Batch, BatchContext, Undecided};
use crate::request::EngineError;

/// The things that a batch has locked, and what has become of them.
#[derive(Default)]
pub(super) struct BatchThings {
    /// As they were, and as they are now; `None` where there is no such thing.
    pub(super) here: BTreeMap<ThingRef, Option<(Thing, Thing)>>,
    /// Those that somebody else has, until the batch ends.
    pub(super) busy: BTreeSet<ThingRef>,
    /// What became of targets, in order, and the last of it by target.
    results: Vec<(BulkRef, TargetResult)>,
    newest: BTreeMap<(BulkId, u64), TargetResult>,
    /// What bulk actions are to be told, and the stored notices among it that were ever queued.
    queued: BTreeMap<BulkId, Vec<QueuedResult>>,
    read: FxHashSet<NoticeId>,
}

/// How a target came out, on its way to its bulk action.
struct QueuedResult {
    /// The notice, where it was stored.
    stored: Option<NoticeId>,
    place: u64,
    result: TargetResult,
}

impl BatchThings {
    /// Those that somebody else has.
    pub(super) fn busy(&self) -> impl Iterator<Item = ThingRef> {
        self.busy.iter().copied()
    }

    pub(super) fn has_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    pub(super) fn has_changes(&self) -> bool {
        self.here.values().flatten().any(|(before, now)| before.body != now.body)
    }

    /// Those that have changed, in the version after the one that was given, and what became of targets.
    pub(super) fn into_changes(self) -> (Vec<Thing>, Vec<(BulkRef, TargetResult)>) {
        let changed = self.here.into_values().flatten().filter(|(before, now)| before.body != now.body);
        let next = changed.map(|(before, now)| Thing { version: before.version + 1, ..now });
        (next.collect(), self.results)
    }

    /// The states of a bulk action as it was when it was locked, and as it is.
    pub(super) fn states_of(&self, bulk: BulkId) -> Option<(&'static str, &'static str)> {
        let (before, now) = self.here.get(&ThingRef::Bulk(bulk))?.as_ref()?;
        Some((before.bulk()?.state.word(), now.bulk()?.state.word()))
    }

    fn bulk(&mut self, bulk: BulkId) -> Option<&mut Bulk> {
        let (_, thing) = self.here.get_mut(&ThingRef::Bulk(bulk))?.as_mut()?;
        thing.bulk_mut()
    }
}

impl BatchContext<'_> {
    fn bulk_context(&self) -> BulkContext {
        BulkContext { now: self.now, latest: self.latest, clock: self.clock }
    }
}

impl Batch {
    /// Locks these things, in one go.
    pub(crate) fn lock_things(
        &mut self,
        tools: &mut BatchContext<'_>,
        things: &[ThingRef],
    ) -> Result<(), StoreError> {
        let is_new =
            |thing: &ThingRef| !self.things.here.contains_key(thing) && !self.things.busy.contains(thing);
        let wanted: BTreeSet<ThingRef> = things.iter().copied().filter(is_new).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: Vec<ThingRef> = wanted.into_iter().collect();
        for (address, locked) in wanted.iter().zip(tools.store.lock_things(self.id, &wanted)?) {
            let here = match locked {
                LockedThing::Here(thing) => Some((thing.clone(), thing)),
                LockedThing::Absent => None,
                LockedThing::Busy => {
                    self.things.busy.insert(*address);
                    continue;
                }
            };
            self.things.here.insert(*address, here);
        }
        Ok(())
    }

    /// A bulk action as this batch leaves it; none where it is over or was never there.
    pub(crate) fn lock_bulk(
        &mut self,
        tools: &mut BatchContext<'_>,
        bulk: BulkId,
    ) -> Result<Option<&mut Bulk>, Undecided> {
        self.lock_things(tools, &[ThingRef::Bulk(bulk)])?;
        if self.things.busy.contains(&ThingRef::Bulk(bulk)) {
            return Err(Undecided::Busy);
        }
        Ok(self.things.bulk(bulk))
    }

    /// Whether somebody else has a thing that this batch wanted to lock.
    pub(crate) fn is_busy(&self, thing: ThingRef) -> bool {
        self.things.busy.contains(&thing)
    }

    /// The bulk actions of this batch that may act on a target now.
    pub(crate) fn bulks_due(&self, now: Time) -> Vec<ThingRef> {
        let things = self.things.here.values().flatten().map(|(_, thing)| thing);
        let bulks = things.filter(|thing| thing.bulk().is_some());
        bulks.filter(|thing| thing.due().is_some_and(|due| due <= now)).map(Thing::address).collect()
    }

    /// Somebody changes how a bulk action goes on.
    pub(crate) fn change_bulk(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: BulkId,
        command: BulkCommand,
    ) -> Result<Answer, Undecided> {
        // What came out before somebody asked comes first.
        self.fold_results(tools)?;
        let context = tools.bulk_context();
        let refused = |sentence: String| Undecided::Error(EngineError::BadBulk(sentence));
        let Some(bulk) = self.lock_bulk(tools, id)? else {
            return Err(refused(format!("{id} has ended or does not exist, so it cannot be changed")));
        };
        let mut changed = bulk.clone();
        let answer = change_bulk(&mut changed, command, &context).map_err(|BulkRefusal(why)| refused(why))?;
        if answer == Answer::Done {
            *bulk = changed;
        }
        Ok(answer)
    }

    /// The next targets of a bulk action that this batch has locked: the first place and how many, at most `share`.
    pub(crate) fn next_targets_of(
        &mut self,
        tools: &BatchContext<'_>,
        id: BulkId,
        share: usize,
    ) -> Option<(u64, usize)> {
        let bulk = self.things.bulk(id)?;
        let places = due_targets(bulk, share, &tools.bulk_context());
        let count = usize::try_from(places.end - places.start).unwrap_or(share);
        (count > 0).then_some((places.start, count))
    }

    /// The next target of a bulk action was acted on. Gives whether the one after it may be.
    pub(crate) fn record_acted(&mut self, tools: &BatchContext<'_>, target: BulkRef, acted: Acted) -> bool {
        let Some(bulk) = self.things.bulk(target.bulk) else { return false };
        let goes_on = record_acted(bulk, &acted, &tools.bulk_context());
        self.record_result(target, acted.result);
        goes_on
    }

    /// Whether a bulk action that this batch has locked still acts at this place.
    pub(crate) fn acts_at(&mut self, target: BulkRef) -> Option<&Bulk> {
        let bulk = self.things.bulk(target.bulk)?;
        (bulk.next == target.place && bulk.due().is_some()).then_some(&*bulk)
    }

    /// Keeps a result that a bulk action is to be told, stored or new, until the next decision about it or the end of the
    /// batch: so that all of them are looked up in one go.
    pub(super) fn queue_result(&mut self, bulk: BulkId, stored: Option<NoticeId>, body: NoticeBody) {
        let NoticeBody::TargetEnded { place, result } = body else {
            // Nothing else is told to a bulk action.
            self.delivered.extend(stored);
            return;
        };
        if stored.is_none_or(|id| self.things.read.insert(id)) {
            self.things.queued.entry(bulk).or_default().push(QueuedResult { stored, place, result });
        }
    }

    /// A bulk action that this batch has locked is told all that waits for it, stored or new, before it acts. False where
    /// more than `limit` are stored: the rest comes first.
    pub(crate) fn fold_waiting(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: BulkId,
        limit: usize,
    ) -> Result<bool, StoreError> {
        let stored = tools.store.notices_to(ThingRef::Bulk(id), limit)?;
        let is_all = stored.len() < limit;
        for (stored, notice) in stored {
            self.queue_result(id, Some(stored), notice.body);
        }
        self.fold_new(tools, id)?;
        Ok(is_all)
    }

    /// The same for what is new, also where new notices are stored rather than delivered.
    pub(crate) fn fold_new(&mut self, tools: &mut BatchContext<'_>, id: BulkId) -> Result<(), StoreError> {
        let is_own = |notice: &Notice| notice.to == ThingRef::Bulk(id);
        if self.deliveries.iter().any(is_own) {
            let (own, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.deliveries).into_iter().partition(is_own);
            self.deliveries = others.into();
            for notice in own {
                self.queue_result(id, None, notice.body);
            }
        }
        self.fold_results(tools)
    }

    /// Tells bulk actions the results that are queued for them. What somebody else has is tried again later; one that is over
    /// has nobody to tell.
    pub(crate) fn fold_results(&mut self, tools: &mut BatchContext<'_>) -> Result<(), StoreError> {
        let queued = std::mem::take(&mut self.things.queued);
        if queued.is_empty() {
            return Ok(());
        }
        let addresses: Vec<ThingRef> = queued.keys().map(|bulk| ThingRef::Bulk(*bulk)).collect();
        self.lock_things(tools, &addresses)?;
        let context = tools.bulk_context();
        for (id, results) in queued {
            if self.things.busy.contains(&ThingRef::Bulk(id)) {
                self.postpone_results(id, results);
                continue;
            }
            self.look_up_results(tools, id, &results)?;
            for QueuedResult { stored, place, result } in results {
                self.delivered.extend(stored);
                let Some(known) = self.things.newest.get(&(id, place)).cloned() else { continue };
                let Some(bulk) = self.things.bulk(id) else { continue };
                if fold_result(bulk, &known, &result, &context) {
                    self.record_result(BulkRef { bulk: id, place }, result);
                }
            }
        }
        Ok(())
    }

    /// What has become of these targets so far, those that this batch does not know, in one go.
    fn look_up_results(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: BulkId,
        results: &[QueuedResult],
    ) -> Result<(), StoreError> {
        let places = results.iter().map(|result| result.place);
        let unknown: BTreeSet<u64> =
            places.filter(|place| !self.things.newest.contains_key(&(id, *place))).collect();
        if unknown.is_empty() || self.things.bulk(id).is_none() {
            return Ok(());
        }
        let unknown: Vec<u64> = unknown.into_iter().collect();
        let known = tools.store.target_results(id, &unknown)?;
        self.things.newest.extend(unknown.into_iter().map(|place| (id, place)).zip(known));
        Ok(())
    }

    fn postpone_results(&mut self, id: BulkId, results: Vec<QueuedResult>) {
        let to = ThingRef::Bulk(id);
        for QueuedResult { stored, place, result } in results {
            match stored {
                // Who waits for its first one waits for all of them.
                Some(_) if self.postponed.iter().any(|(_, earlier)| *earlier == to) => {}
                Some(stored) => self.postponed.push((stored, to)),
                None => {
                    self.undelivered
                        .push_back(Notice { to, body: NoticeBody::TargetEnded { place, result } });
                }
            }
        }
    }

    fn record_result(&mut self, target: BulkRef, result: TargetResult) {
        self.things.newest.insert((target.bulk, target.place), result.clone());
        self.things.results.push((target, result));
    }
}
