//! All that a store keeps, and how a stage changes it: everything or nothing.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::{Bulk, BulkRef, TargetResult};
use unstuck_core::clock::ClockRecord;
use unstuck_core::downtime::{Downtime, record_downtime, shift_downtimes};
use unstuck_core::event::{Event, Fact};
use unstuck_core::id::{FlowId, PayloadId, RunId, TokenId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::run::Run;
use unstuck_core::slot::SlotClaim;
use unstuck_core::thing::{Thing, ThingBody, ThingRef};
use unstuck_core::time::Time;

use crate::contract::{
    Locked, NoticeId, OpenRuns, RunChange, RunCounts, RunFilter, RunLogs, Stage, StoreError,
};
use crate::flows::Flows;
use crate::invariants::{NOT_YET, RunPosition, check_errors, check_events, check_logs};
use crate::memory::bulks::Bulks;
use crate::memory::errors::Errors;
use crate::memory::history::History;
use crate::memory::ledger::RequestLedger;
use crate::memory::policies::Policies;
use crate::notices::Notices;
use crate::ready::ReadyQueues;
use crate::slots::Slots;
use crate::things::Things;
use crate::timers::Timers;

/// All that a store keeps. Ids are ours and grow, so their hash need not withstand anybody; keys are the users', and
/// theirs must.
#[derive(Clone, Debug)]
pub(super) struct MemoryState {
    keeps_history: bool,
    runs: FxHashMap<RunId, StoredRun>,
    /// The runs in order of id. Ids grow, so a new one belongs at the end, or close to it.
    order: Vec<RunId>,
    /// By flow, then by key.
    keys: HashMap<Arc<str>, HashMap<Arc<str>, RunId>>,
    pub(super) payloads: FxHashMap<PayloadId, Json>,
    pub(super) ready: ReadyQueues,
    pub(super) timers: Timers,
    pub(super) slots: Slots,
    pub(super) notices: Notices,
    pub(super) flows: Flows,
    pub(super) errors: Errors,
    pub(super) logs: FxHashMap<RunId, RunLogs>,
    pub(super) policies: Policies,
    pub(super) bulks: Bulks,
    pub(super) things: Things,
    pub(super) ledger: RequestLedger,
    pub(super) tokens: BTreeMap<TokenId, ApiToken>,
    pub(super) token_uses: BTreeMap<TokenId, Time>,
    pub(super) last_time: Option<Time>,
    pub(super) last_id: u64,
    pub(super) downtimes: Vec<Downtime>,
    pub(super) clock: ClockRecord,
}

/// What one batch has for itself.
#[derive(Clone, Debug, Default)]
pub(super) struct LockedByBatch {
    /// The runs that it has taken out.
    pub(super) runs: Vec<RunId>,
    /// What is no run and is locked.
    pub(super) things: Vec<ThingRef>,
}

/// One run.
#[derive(Clone, Debug)]
struct StoredRun {
    run: Residency,
    flow: Arc<str>,
    history: History,
}

/// Where a run is.
#[derive(Clone, Debug)]
enum Residency {
    Here(Box<Run>),
    /// Locked, or about to be made.
    Out(RunPosition),
    /// On its way back in a stage that is being looked at.
    Returning,
}

/// What a stage has done before it was found wanting.
#[derive(Default)]
struct Undo {
    runs: Vec<RunId>,
    keys: Vec<(Arc<str>, Arc<str>)>,
    payloads: Vec<PayloadId>,
}

impl MemoryState {
    pub(super) fn new(keeps_history: bool) -> MemoryState {
        MemoryState {
            keeps_history,
            runs: FxHashMap::default(),
            order: Vec::new(),
            keys: HashMap::new(),
            payloads: FxHashMap::default(),
            ready: ReadyQueues::default(),
            timers: Timers::default(),
            slots: Slots::default(),
            notices: Notices::default(),
            flows: Flows::default(),
            errors: Errors::default(),
            logs: FxHashMap::default(),
            policies: Policies::default(),
            bulks: Bulks::default(),
            things: Things::default(),
            ledger: RequestLedger::default(),
            tokens: BTreeMap::new(),
            token_uses: BTreeMap::new(),
            last_time: None,
            last_id: 0,
            downtimes: Vec::new(),
            clock: ClockRecord::default(),
        }
    }

    /// Takes these runs out for a batch, and adds them to `locked`, which has those it took out before.
    pub(super) fn lock(
        &mut self,
        runs: &[RunId],
        locked: &mut Vec<RunId>,
    ) -> Result<Vec<Locked>, StoreError> {
        let mut given = Vec::with_capacity(runs.len());
        for id in runs {
            let Some(kept) = self.runs.get_mut(id) else {
                given.push(Locked::Absent);
                continue;
            };
            let Residency::Here(run) = &kept.run else {
                if !locked.contains(id) {
                    given.push(Locked::Busy);
                    continue;
                }
                return Err(StoreError::Conflict(format!("{id} is locked twice in one batch")));
            };
            let mark = RunPosition { seq: run.seq, generation: run.generation, is_final: run.is_final() };
            locked.push(*id);
            if let Residency::Here(run) = std::mem::replace(&mut kept.run, Residency::Out(mark)) {
                given.push(Locked::Here(run));
            }
        }
        Ok(given)
    }

    /// Applies a stage and ends its batch; on error only what was taken out is changed.
    pub(super) fn stage(
        &mut self,
        mut stage: Stage,
        last_notice: u64,
        locked: &LockedByBatch,
    ) -> Result<(), StoreError> {
        let mut undo = Undo::default();
        if let Err(error) = self.check_stage(&mut stage, &mut undo, locked) {
            self.undo_reservations(undo);
            return Err(error);
        }
        self.errors.record_errors(stage.errors);
        self.errors.mark_backfilled(&stage.backfilled);
        for change in stage.runs {
            self.apply_run_change(change, stage.at);
        }
        for run in stage.unchanged {
            if let Some(kept) = self.runs.get_mut(&run.id) {
                kept.run = Residency::Here(Box::new(run));
            }
        }
        for record in stage.logs {
            self.logs.entry(record.attempt.run).or_default().add(record);
        }
        for id in undo.runs {
            self.insert_into_order(id);
        }
        for id in stage.forgotten {
            self.forget(id);
        }
        if let Some(clock) = stage.clock {
            shift_downtimes(&mut self.downtimes, clock.shift.saturating_sub(self.clock.shift));
            self.clock = clock;
        }
        if let Some(down) = stage.downtime {
            record_downtime(&mut self.downtimes, down);
        }
        for (number, notice) in (last_notice + 1..).zip(stage.notices) {
            self.notices.insert(NoticeId(number), notice);
        }
        for id in stage.delivered {
            self.notices.remove(id);
        }
        for id in stage.postponed {
            self.notices.postpone(id, stage.at);
        }
        self.change_things(stage.things, stage.results);
        self.ledger.add(stage.idempotency, stage.audit);
        for (token, at) in stage.token_uses {
            let last = self.token_uses.entry(token).or_insert(at);
            *last = at.max(*last);
        }
        self.last_time = Some(stage.at);
        self.last_id = self.last_id.max(stage.last_id);
        self.ready.put_back();
        Ok(())
    }

    /// Returns unchanged runs; one that was changed after all stays out, and is replayed when the batch ends.
    pub(super) fn give_back(&mut self, runs: Vec<Run>) {
        for run in runs {
            if let Some(kept) = self.runs.get_mut(&run.id)
                && matches!(kept.run, Residency::Out(mark) if mark.seq == run.seq)
            {
                kept.run = Residency::Here(Box::new(run));
            }
        }
    }

    /// Ends a batch: what is still out is replayed from its history, as it was before.
    pub(super) fn restore_locked(&mut self, locked: LockedByBatch) -> Result<(), StoreError> {
        self.ready.put_back();
        self.things.unlock(&locked.things);
        for id in locked.runs {
            let Some(kept) = self.runs.get_mut(&id) else { continue };
            if matches!(kept.run, Residency::Here(_)) {
                continue;
            }
            let Some(run) = kept.history.replay() else {
                return Err(StoreError::Broken(format!(
                    "{id} was changed in a batch that went wrong, and there is no history to make it again from"
                )));
            };
            kept.run = Residency::Here(Box::new(run));
        }
        Ok(())
    }

    /// Lists every event by run and number in order of time: a log for tails of a store that was filled before.
    pub(super) fn list_events_by_time(&self) -> Vec<(RunId, u64)> {
        let all = self.runs.iter().flat_map(|(id, kept)| {
            kept.history.after(0, usize::MAX).map(|event| (event.time(), *id, event.seq)).collect::<Vec<_>>()
        });
        let mut all: Vec<(Time, RunId, u64)> = all.collect();
        // Of one run they are in order, whatever its clock says.
        all.sort_by_key(|(time, _, _)| *time);
        let mut next: FxHashMap<RunId, u64> = FxHashMap::default();
        all.into_iter()
            .map(|(_, run, _)| {
                let seq = next.entry(run).or_default();
                *seq += 1;
                (run, *seq)
            })
            .collect()
    }

    /// Copies the state with nothing taken out.
    pub(super) fn copy_at_rest(&self) -> MemoryState {
        let mut copy = self.clone();
        for kept in copy.runs.values_mut().filter(|kept| !matches!(kept.run, Residency::Here(_))) {
            if let Some(run) = kept.history.replay() {
                kept.run = Residency::Here(Box::new(run));
            }
        }
        copy.things.unlock_all();
        copy
    }

    pub(super) fn put_bulk(&mut self, bulk: Bulk) -> Result<(), StoreError> {
        self.bulks.put(bulk.clone())?;
        self.last_id = self.last_id.max(bulk.id.0);
        self.things.put(Thing::of_bulk(bulk));
        Ok(())
    }

    fn change_things(&mut self, things: Vec<Thing>, results: Vec<(BulkRef, TargetResult)>) {
        for thing in things {
            match &thing.body {
                ThingBody::Bulk(bulk) => self.bulks.replace((**bulk).clone()),
                ThingBody::Schedule(_) => {}
            }
            self.things.put(thing);
        }
        for (target, result) in results {
            self.bulks.put_result(target, result);
        }
    }

    /// When the next timer, thing or postponed notice is due.
    pub(super) fn next_due(&mut self) -> Option<Time> {
        let dues = [self.timers.next_due(), self.things.next_due(), self.notices.next_due()];
        dues.into_iter().flatten().min()
    }

    pub(super) fn run_of_key(&self, flow: &str, key: &str) -> Option<RunId> {
        self.keys.get(flow)?.get(key).copied()
    }

    pub(super) fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        self.runs.get(&id).map(|kept| MemoryState::read_run(id, kept).map(Cow::into_owned)).transpose()
    }

    pub(super) fn history(&self, run: RunId, after: u64, limit: usize) -> Vec<Event> {
        self.runs.get(&run).map(|kept| kept.history.after(after, limit).collect()).unwrap_or_default()
    }

    /// Lists runs that fit, newest first, each converted by `give`.
    pub(super) fn list<T>(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
        give: impl Fn(&Run) -> T,
    ) -> Result<Vec<T>, StoreError> {
        let end = before.map_or(self.order.len(), |before| self.order.partition_point(|id| *id < before));
        let with_error = filter.has_error_criteria().then(|| self.errors.find_runs_with_error(filter));
        let below = filter.root.map(|root| self.find_descendants(root)).transpose()?;
        let mut found = Vec::new();
        for id in self.order[..end].iter().rev() {
            if found.len() >= limit {
                break;
            }
            let Some(kept) = self.runs.get(id) else { continue };
            let run = MemoryState::read_run(*id, kept)?;
            let has_error = with_error.as_ref().is_none_or(|runs| runs.contains(id));
            let is_below = below.as_ref().is_none_or(|below| below.contains(id));
            if has_error && is_below && filter.matches(&run, &kept.flow) {
                found.push(give(&run));
            }
        }
        Ok(found)
    }

    /// Finds all runs below this one.
    fn find_descendants(&self, root: RunId) -> Result<BTreeSet<RunId>, StoreError> {
        let mut parents = BTreeMap::new();
        for (id, kept) in &self.runs {
            parents.insert(*id, MemoryState::read_run(*id, kept)?.origin.parent());
        }
        let is_below = |id: &RunId| {
            let parent = |id: &RunId| parents.get(id).copied().flatten();
            std::iter::successors(parent(id), parent).any(|ancestor| ancestor == root)
        };
        Ok(parents.keys().copied().filter(is_below).collect())
    }

    pub(super) fn count_runs(&self, since: Time) -> Result<RunCounts, StoreError> {
        let mut counts = RunCounts::new();
        for (id, kept) in &self.runs {
            let run = MemoryState::read_run(*id, kept)?;
            let is_old = run.is_final() && *id < RunId::first_at(since);
            if run.origin.parent().is_none() && !is_old {
                *counts.entry((kept.flow.clone(), run.state())).or_default() += 1;
            }
        }
        Ok(counts)
    }

    pub(super) fn put_tokens(&mut self, tokens: Vec<ApiToken>, last_id: u64) {
        self.tokens.extend(tokens.into_iter().map(|token| (token.id, token)));
        self.last_id = self.last_id.max(last_id);
    }

    /// Counts runs of these flow versions that are not final.
    pub(super) fn count_open(&self, flows: &[FlowId]) -> Result<OpenRuns, StoreError> {
        let mut counts = OpenRuns::new();
        for (id, kept) in &self.runs {
            let run = MemoryState::read_run(*id, kept)?;
            if !run.is_final() && flows.contains(&run.flow) {
                *counts.entry(run.flow).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// Checks a whole stage before any of it is applied. New ids and keys are reserved on the way, and noted in
    /// `undo`.
    fn check_stage(
        &mut self,
        stage: &mut Stage,
        undo: &mut Undo,
        locked: &LockedByBatch,
    ) -> Result<(), StoreError> {
        check_errors(stage)?;
        check_logs(stage)?;
        self.ledger.check(&stage.idempotency)?;
        self.bulks.check_results(stage)?;
        self.things.check_changes(&stage.things, &locked.things)?;
        let mut returned = 0;
        for change in &mut stage.runs {
            returned += usize::from(self.check_run(change, undo)?);
            for (id, json) in change.payloads.drain(..) {
                let Entry::Vacant(vacant) = self.payloads.entry(id) else {
                    return Err(StoreError::Conflict(format!(
                        "payload {id} already exists: a payload is written once"
                    )));
                };
                vacant.insert(json);
                undo.payloads.push(id);
            }
        }
        for run in &stage.unchanged {
            self.check_unchanged(run)?;
            returned += 1;
        }
        for id in &stage.forgotten {
            self.check_forgotten(*id)?;
            returned += 1;
        }
        if returned == locked.runs.len() {
            return Ok(());
        }
        let out = locked.runs.iter().find(|id| matches!(self.runs[*id].run, Residency::Out(_)));
        let id = out.map(ToString::to_string).unwrap_or_default();
        Err(StoreError::Conflict(format!("{id} was locked but is not part of the commit")))
    }

    /// Checks the change of one run; returns whether it was locked, else it is new.
    fn check_run(&mut self, change: &RunChange, undo: &mut Undo) -> Result<bool, StoreError> {
        let id = change.run.id;
        let is_start =
            matches!(change.events.first().and_then(|event| event.facts.first()), Some(Fact::Started(_)));
        let vacant = match self.runs.entry(id) {
            Entry::Vacant(vacant) => vacant,
            Entry::Occupied(mut occupied) => {
                let kept = occupied.get_mut();
                let mark = match &kept.run {
                    Residency::Out(mark) => *mark,
                    Residency::Here(_) if is_start => return Err(conflict(id, "already exists")),
                    Residency::Here(_) => return Err(conflict(id, "was not locked")),
                    Residency::Returning => return Err(conflict(id, "is in one commit twice")),
                };
                if kept.flow != change.flow {
                    return Err(conflict(id, &format!("is of flow `{}`, not `{}`", kept.flow, change.flow)));
                }
                check_events(mark, change)?;
                kept.run = Residency::Returning;
                return Ok(true);
            }
        };
        if !is_start {
            return Err(conflict(id, "does not exist, and its first event does not start it"));
        }
        check_events(NOT_YET, change)?;
        vacant.insert(StoredRun {
            run: Residency::Returning,
            flow: change.flow.clone(),
            history: History::default(),
        });
        undo.runs.push(id);
        if let Some(key) = &change.run.key {
            self.take_key(&change.flow, key, id)?;
            undo.keys.push((change.flow.clone(), key.clone()));
        }
        Ok(false)
    }

    fn check_unchanged(&mut self, run: &Run) -> Result<(), StoreError> {
        let kept = self.runs.get_mut(&run.id).ok_or_else(|| conflict(run.id, "does not exist"))?;
        match &kept.run {
            Residency::Out(mark) if mark.seq == run.seq => {
                kept.run = Residency::Returning;
                Ok(())
            }
            Residency::Out(_) => Err(conflict(run.id, "is marked as unchanged but has changed")),
            Residency::Here(_) => Err(conflict(run.id, "was not locked")),
            Residency::Returning => Err(conflict(run.id, "is in one commit twice")),
        }
    }

    fn check_forgotten(&mut self, id: RunId) -> Result<(), StoreError> {
        let kept = self.runs.get_mut(&id).ok_or_else(|| conflict(id, "does not exist"))?;
        match &kept.run {
            Residency::Out(mark) if mark.is_final => {
                kept.run = Residency::Returning;
                Ok(())
            }
            Residency::Out(_) => Err(conflict(id, "is not final: it cannot be forgotten")),
            Residency::Here(_) => Err(conflict(id, "was not locked")),
            Residency::Returning => Err(conflict(id, "is in one commit twice")),
        }
    }

    fn forget(&mut self, id: RunId) {
        let Some(kept) = self.runs.remove(&id) else { return };
        for event in kept.history.after(0, usize::MAX) {
            event.for_each_payload(|payload| drop(self.payloads.remove(&payload)));
        }
        if let Ok(place) = self.order.binary_search(&id) {
            self.order.remove(place);
        }
        if let Some(keys) = self.keys.get_mut(&kept.flow) {
            keys.retain(|_, run| *run != id);
        }
        self.timers.set_all(id, std::iter::empty());
        self.ready.set_all(id, std::iter::empty());
        self.slots.set(id, &SlotClaim::None, Time::default());
        self.errors.forget(id);
        self.logs.remove(&id);
    }

    /// Returns a run as readers see it: one that is locked is as it was before.
    fn read_run(id: RunId, kept: &StoredRun) -> Result<Cow<'_, Run>, StoreError> {
        let before = match &kept.run {
            Residency::Here(run) => return Ok(Cow::Borrowed(run)),
            Residency::Out(_) => kept.history.replay(),
            Residency::Returning => None,
        };
        let refused = || conflict(id, "is locked: it can be read when the batch has ended");
        before.map(Cow::Owned).ok_or_else(refused)
    }

    /// Stops offering anything of this run.
    pub(super) fn set_aside(&mut self, run: RunId) {
        self.timers.set_aside(run);
        self.ready.set_aside(run);
        self.slots.set_aside(run);
        self.notices.set_aside(run);
    }

    /// Offers what [`MemoryState::set_aside`] has hidden again.
    pub(super) fn release(&mut self, run: RunId) {
        self.timers.release(run);
        self.ready.release(run);
        self.slots.release(run);
        self.notices.release(run);
    }

    /// Forgets all open errors, as a store from before they were stored would not have them.
    pub(super) fn lose_open_errors(&mut self) {
        self.errors.lose_open_errors(self.order.iter().copied());
    }

    /// Lists attempts that executors of an engine have.
    pub(super) fn local_attempts(&self) -> Result<Vec<(AttemptId, Worker)>, StoreError> {
        let mut found = Vec::new();
        for id in &self.order {
            if let Some(kept) = self.runs.get(id) {
                found.extend(MemoryState::read_run(*id, kept)?.local_attempts());
            }
        }
        Ok(found)
    }

    /// Reserves a key for a run, unless another has it.
    fn take_key(&mut self, flow: &Arc<str>, key: &Arc<str>, run: RunId) -> Result<(), StoreError> {
        match self.keys.entry(flow.clone()).or_default().entry(key.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(run);
                Ok(())
            }
            Entry::Occupied(has) => {
                let has = has.get();
                Err(StoreError::Conflict(format!(
                    "key `{key}` of flow `{flow}` belongs to {has}, not to {run}"
                )))
            }
        }
    }

    /// Takes back the ids and keys that a refused stage has reserved.
    fn undo_reservations(&mut self, undo: Undo) {
        for run in undo.runs {
            self.runs.remove(&run);
        }
        for (flow, key) in undo.keys {
            if let Some(keys) = self.keys.get_mut(&flow) {
                keys.remove(&key);
            }
        }
        for payload in undo.payloads {
            self.payloads.remove(&payload);
        }
    }

    /// Applies a change that was checked: open errors, timers, queue entries, slot, history, then the run itself.
    fn apply_run_change(&mut self, mut change: RunChange, at: Time) {
        let id = change.run.id;
        self.errors.apply_change(&mut change);
        let shift = change.events.iter().map(Event::clock_shift).fold(0, i64::saturating_add);
        if shift != 0 {
            self.timers.shift_moved_leases(id, shift);
        }
        // Leases first: one that was moved belongs to the attempt before whatever else has happened since.
        for lease in change.leases {
            self.timers.move_lease(id, lease);
        }
        if change.replaces_all {
            let dues = change.wakeups.iter().filter_map(|(place, wakeup)| Some((*place, wakeup.due?)));
            self.timers.set_all(id, dues);
            self.ready.set_all(id, change.wakeups.iter().filter_map(|(_, wakeup)| wakeup.ready.as_ref()));
        } else {
            for (place, wakeup) in &change.wakeups {
                self.timers.set(id, *place, wakeup.due);
                if let Some(unit) = place {
                    self.ready.set(id, *unit, wakeup.ready.as_ref());
                }
            }
        }
        self.slots.set(id, &change.slot, at);
        if let Some(kept) = self.runs.get_mut(&id) {
            if self.keeps_history {
                kept.history.append(change.events);
            }
            kept.run = Residency::Here(change.run);
        }
    }

    /// Keeps ids sorted; nearly always the new id is the highest.
    fn insert_into_order(&mut self, id: RunId) {
        if self.order.last().is_none_or(|last| *last < id) {
            self.order.push(id);
        } else if let Err(place) = self.order.binary_search(&id) {
            self.order.insert(place, id);
        }
    }
}

fn conflict(run: RunId, what: &str) -> StoreError {
    StoreError::Conflict(format!("{run} {what}"))
}
