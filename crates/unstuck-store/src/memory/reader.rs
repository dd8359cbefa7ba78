//! What is durable of a store in memory, as readers see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::{Bulk, ResultKind, Target};
use unstuck_core::clock::ClockRecord;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{AuditEntryId, BulkId, FlowId, PayloadId, RunId, TokenId};
use unstuck_core::json::Json;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::schedule::Schedule;
use unstuck_core::summary::RunSummary;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;

use crate::contract::{
    AuditEntry, AuditFilter, AuditId, Cursor, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter,
    GroupPlace, IdempotencyRecord, ListedFlow, OnChange, OpenErrorFilter, OpenRuns, PolicyAudit, PolicyHits,
    Reader, RunChange, RunCounts, RunFilter, RunLogs, RunPage, RunPlace, RunSort, RunWithHistory, SetAside,
    Stage, StoreError, TailError, TailPage, Watchers, next_resume_of,
};
use crate::memory::state::{LockedByBatch, MemoryState};

/// What is durable, shared with whoever reads it.
#[derive(Debug)]
pub(super) struct Durable {
    state: Mutex<MemoryState>,
    /// What each of those that share the store has set aside.
    aside: Mutex<BTreeMap<(usize, RunId), SetAside>>,
    /// Every event, by run and number, in the order in which they became durable.
    log: Mutex<Vec<(RunId, u64)>>,
    watchers: Watchers,
    /// What tells it from other stores.
    number: u64,
}

/// A store in memory has one life.
const EPOCH: u64 = 1;

/// How many stores in memory there have been that somebody reads.
static STORES: AtomicU64 = AtomicU64::new(0);

impl Durable {
    pub(super) fn new(state: MemoryState) -> Arc<Durable> {
        let log = Mutex::new(state.list_events_by_time());
        Arc::new(Durable {
            state: Mutex::new(state),
            aside: Mutex::default(),
            log,
            watchers: Watchers::default(),
            number: STORES.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn log(&self) -> MutexGuard<'_, Vec<(RunId, u64)>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a stage that was accepted before to the durable copy, and wakes those who watch.
    pub(super) fn add_stage(&self, stage: Stage, last_notice: u64) -> Result<(), StoreError> {
        let changed = stage.runs.iter().map(|change| change.run.id);
        let unchanged = stage.unchanged.iter().map(|run| run.id);
        let runs: Vec<RunId> = changed.chain(unchanged).chain(stage.forgotten.iter().copied()).collect();
        let happened = |change: &RunChange| -> Vec<(RunId, u64)> {
            change.events.iter().map(|event| (change.run.id, event.seq)).collect()
        };
        let events: Vec<(RunId, u64)> = stage.runs.iter().flat_map(happened).collect();
        let mut durable = self.state();
        let mut locked = LockedByBatch { runs: Vec::with_capacity(runs.len()), things: Vec::new() };
        durable.lock(&runs, &mut locked.runs)?;
        let things: Vec<ThingRef> = stage.things.iter().map(Thing::address).collect();
        durable.things.lock(&things, &mut locked.things)?;
        let staged = durable.stage(stage, last_notice, &locked);
        durable.things.unlock(&locked.things);
        staged?;
        self.log().extend(events);
        drop(durable);
        self.watchers.tell();
        Ok(())
    }

    pub(super) fn set_aside(&self, side: usize, run: RunId, aside: Option<SetAside>) {
        let mut all = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        match aside {
            Some(aside) => all.insert((side, run), aside),
            None => all.remove(&(side, run)),
        };
    }

    /// Forgets what is set aside: whoever set it aside is gone.
    pub(super) fn clear_aside(&self) {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A reader of a store in memory.
#[derive(Debug)]
pub(super) struct MemoryReader {
    pub(super) durable: Arc<Durable>,
    /// The handle that has given it.
    pub(super) side: usize,
}

impl MemoryReader {
    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.durable.state()
    }
}

impl Reader for MemoryReader {
    fn run(&self, run: RunId) -> Result<Option<Run>, StoreError> {
        self.state().run(run)
    }

    fn run_of_key(&self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        Ok(self.state().run_of_key(flow, key))
    }

    fn history(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        Ok(self.state().history(run, after, limit))
    }

    fn has_run(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.state().run(run)?.is_some())
    }

    fn runs_with_history(&self, runs: &[RunId]) -> Result<Vec<Option<RunWithHistory>>, StoreError> {
        let state = self.state();
        let load = |id: &RunId| {
            let run = state.run(*id)?;
            Ok(run.map(|run| (run, state.history(*id, 0, usize::MAX))))
        };
        runs.iter().map(load).collect()
    }

    fn list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        self.state().list(filter, before, limit, RunSummary::of)
    }

    fn page(
        &self,
        filter: &RunFilter,
        sort: RunSort,
        after: Option<RunPlace>,
        limit: usize,
    ) -> Result<RunPage, StoreError> {
        let state = self.state();
        let mut places: Vec<(RunPlace, RunSummary)> = Vec::new();
        let all = state.list(filter, None, usize::MAX, RunSummary::of)?;
        match sort {
            RunSort::Created => places.extend(all.into_iter().map(|run| (RunPlace::Created(run.id), run))),
            RunSort::Updated => {
                let mut fitting: BTreeMap<RunId, RunSummary> =
                    all.into_iter().map(|run| (run.id, run)).collect();
                for (place, (run, seq)) in self.durable.log().iter().enumerate().rev() {
                    if fitting.get(run).is_some_and(|run| run.seq == *seq) {
                        let run = fitting.remove(run);
                        places.extend(run.map(|run| (RunPlace::Updated(place as u64), run)));
                    }
                }
            }
            RunSort::NextResume => {
                let resumed = |run: RunSummary| {
                    let due = next_resume_of(&run)?;
                    Some((RunPlace::NextResume(due, run.id), run))
                };
                places.extend(all.into_iter().filter_map(resumed));
                places
                    .sort_unstable_by_key(|(_, run)| (run.next_resume.as_ref().map(|(due, _)| *due), run.id));
            }
        }
        let follows = |place: &RunPlace| after.is_none_or(|after| place.follows(&after));
        let mut following = places.into_iter().filter(|(place, _)| follows(place));
        let found: Vec<(RunPlace, RunSummary)> = following.by_ref().take(limit).collect();
        let last = found.last().map(|(place, _)| *place);
        let next = if following.next().is_some() { last.or(after) } else { None };
        Ok(RunPage { runs: found.into_iter().map(|(_, run)| run).collect(), next })
    }

    fn count_runs(&self, since: Time) -> Result<RunCounts, StoreError> {
        self.state().count_runs(since)
    }

    fn upcoming(&self, limit: usize) -> Result<Vec<(Time, RunId)>, StoreError> {
        let mut seen = BTreeSet::new();
        let all = self.state().timers.list_after(None, usize::MAX).into_iter();
        let first = all.filter(|due| seen.insert(due.run)).map(|due| (due.due, due.run));
        Ok(first.take(limit).collect())
    }

    fn slot_holders(&self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError> {
        Ok(self.state().slots.holders(limit, most))
    }

    fn set_aside_record(&self, run: RunId) -> Option<SetAside> {
        let all = self.durable.aside.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(self.side, run)).cloned()
    }

    fn payloads(&self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError> {
        let state = self.state();
        Ok(ids.iter().map(|id| state.payloads.get(id).cloned()).collect())
    }

    fn logs(&self, run: RunId) -> Result<RunLogs, StoreError> {
        Ok(self.state().logs.get(&run).cloned().unwrap_or_default())
    }

    fn flow(&self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError> {
        Ok(self.state().flows.get(flow))
    }

    fn flows(&self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError> {
        Ok(self.state().flows.after(after, limit))
    }

    fn flow_names(&self, after: Option<&str>, limit: usize) -> Result<Vec<ListedFlow>, StoreError> {
        let state = self.state();
        let listed = state.flows.list_startable(after, limit).into_iter();
        let with_runs = listed.map(|(newest, startable)| {
            let all: Vec<FlowId> = state.flows.versions_of(&newest.name).map(|record| record.id).collect();
            let open = state.count_open(&all)?.values().sum();
            Ok(ListedFlow { name: newest.name.clone(), newest, versions: startable.len() as u64, open })
        });
        with_runs.collect()
    }

    fn flow_versions(
        &self,
        name: &str,
        before: Option<FlowId>,
        limit: usize,
    ) -> Result<Vec<FlowRecord>, StoreError> {
        let state = self.state();
        let is_before = |record: &&FlowRecord| before.is_none_or(|before| record.id < before);
        Ok(state.flows.versions_of(name).rev().filter(is_before).take(limit).cloned().collect())
    }

    fn open_runs(&self, flows: &[FlowId]) -> Result<OpenRuns, StoreError> {
        self.state().count_open(flows)
    }

    fn policies(&self) -> Result<(Vec<Policy>, PolicySwitch), StoreError> {
        let state = self.state();
        Ok((state.policies.all.clone(), state.policies.switch.clone()))
    }

    fn policy_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError> {
        Ok(self.state().policies.audit(before, limit))
    }

    fn tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        Ok(self.state().tokens.values().cloned().collect())
    }

    fn token_uses(&self) -> Result<Vec<(TokenId, Time)>, StoreError> {
        Ok(self.state().token_uses.iter().map(|(token, at)| (*token, *at)).collect())
    }

    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<AuditEntryId>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.state().ledger.list(filter, before, limit))
    }

    fn audit_after(&self, after: AuditEntryId, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.state().ledger.list_after(after, limit))
    }

    fn idempotency(&self, scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        Ok(self.state().ledger.find(scope, key))
    }

    fn policy_hits(&self) -> Result<Vec<PolicyHits>, StoreError> {
        Ok(self.state().errors.list_policy_hits())
    }

    fn errors(
        &self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        Ok(self.state().errors.list_errors(filter, after, limit))
    }

    fn errors_before(
        &self,
        filter: &ErrorFilter,
        before: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        Ok(self.state().errors.list_errors_before(filter, before, limit))
    }

    fn open_errors(
        &self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError> {
        Ok(self.state().errors.list_open(filter, after, limit))
    }

    fn error_groups(
        &self,
        filter: &GroupFilter,
        after: Option<&GroupPlace>,
        limit: usize,
    ) -> Result<Vec<ErrorGroup>, StoreError> {
        let mut groups = self.state().errors.list_groups(filter, usize::MAX);
        groups.retain(|group| after.is_none_or(|after| after.is_before(group)));
        groups.truncate(limit);
        Ok(groups)
    }

    fn bulk(&self, bulk: BulkId) -> Result<Option<Bulk>, StoreError> {
        Ok(self.state().bulks.get(bulk).cloned())
    }

    fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        let all = self.state().things.all();
        let mut found: Vec<Schedule> = all.iter().filter_map(Thing::schedule).cloned().collect();
        found.sort_by(|one, other| one.flow.cmp(&other.flow));
        Ok(found)
    }

    fn bulks(&self, open_only: bool, before: Option<BulkId>, limit: usize) -> Result<Vec<Bulk>, StoreError> {
        Ok(self.state().bulks.list_bulks(open_only, before, limit))
    }

    fn targets(
        &self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError> {
        Ok(self.state().bulks.list_targets(bulk, only, from, limit))
    }

    fn cursor(&self) -> Result<Cursor, StoreError> {
        Ok(Cursor::new(self.durable.number, EPOCH, self.durable.log().len() as u64))
    }

    fn ends(&self) -> Result<(Cursor, AuditEntryId), StoreError> {
        let state = self.state();
        let last = state.ledger.list(&AuditFilter::default(), None, 1).pop();
        Ok((self.cursor()?, last.map_or(AuditEntryId(0), |(id, _)| id)))
    }

    fn tail(&self, after: &Cursor, limit: usize) -> Result<TailPage, TailError> {
        let state = self.state();
        let log = self.durable.log();
        let end = Cursor::new(self.durable.number, EPOCH, log.len() as u64);
        let mut position = after.position_before(&end)?;
        let mut events = Vec::new();
        let first = usize::try_from(position).unwrap_or(usize::MAX);
        for (run, seq) in log.iter().skip(first).take(limit) {
            position += 1;
            events.extend(state.history(*run, seq - 1, 1).pop().map(|event| (*run, event)));
        }
        Ok(TailPage { events, next: end.with_position(position), is_end: position == end.position() })
    }

    fn on_change(&self, watcher: &OnChange) {
        self.durable.watchers.add(watcher);
    }

    fn clock(&self) -> Result<ClockRecord, StoreError> {
        Ok(self.state().clock.clone())
    }

    fn last_time(&self) -> Result<Option<Time>, StoreError> {
        Ok(self.state().last_time)
    }
}
