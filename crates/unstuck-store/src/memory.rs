//! The store that keeps everything in memory: what tests compare other stores with, and what one process needs.

mod admin;
mod batches;
mod bulks;
mod deferred;
mod errors;
mod history;
mod ledger;
mod policies;
mod reader;
mod sessions;
mod shared;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, ResultKind, Target, TargetResult};
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::Notice;
use unstuck_core::decide::Withheld;
use unstuck_core::downtime::Downtime;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{BulkId, FlowId, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;

use crate::contract::{
    AuditId, BatchId, Due, EndedSession, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter, Loaded,
    LockedThing, More, NewFlow, NewSession, NoticeId, OpenErrorFilter, PolicyAudit, PolicyChange, PolicyHits,
    PutFlowError, Reader, RunFilter, RunLogs, Session, SetAside, Settled, Stage, StageId, Store, StoreError,
    Versions, Wants,
};
use crate::invariants::check_version;
use crate::memory::batches::Batches;
use crate::memory::deferred::Deferred;
use crate::memory::reader::{Durable, MemoryReader};
use crate::memory::sessions::Sessions;
use crate::memory::state::MemoryState;
use crate::timers::WithheldTimers;

pub use deferred::DurableStage;
pub use shared::SharedStore;

/// A store in memory.
///
/// A locked run is moved out and comes back with the stage: nothing is copied. When it does not come back, it is made
/// again from its history.
#[derive(Debug)]
pub struct MemoryStore {
    /// What everybody sees.
    state: MemoryState,
    /// What would survive a crash, where that is not the same or somebody reads it.
    durable: Option<Arc<Durable>>,
    /// What is not durable yet, where stages are not at once.
    deferred: Option<Deferred>,
    /// Those that are under way.
    batches: Batches,
    last_batch: u64,
    /// How many may be under way at once, and whether what they ask for is given only when somebody says so.
    lanes: usize,
    holds_loads: bool,
    settled: Vec<Settled>,
    last_stage: u64,
    last_notice: u64,
    /// The answer to the next stage is lost, which really is committed or not.
    lost_answer: Option<bool>,
    /// What became of stages whose answers are lost, and whose they are, until that is looked up.
    unknown: Vec<(usize, Settled)>,
    /// What each stage has locked of which nobody knows what became.
    unknown_locks: BTreeMap<StageId, Vec<ThingRef>>,
    refuse_next: Option<StoreError>,
    refuse_after: Option<(usize, StoreError)>,
    /// Every stage that changes this run is refused.
    refuse_run: Option<(RunId, StoreError)>,
    refuse_renewals: Option<StoreError>,
    sessions: Sessions,
    /// Whether batches go by the clock of the store.
    tells_time: bool,
    /// The session of whoever's turn it is.
    session: Option<u64>,
    alive: Option<Time>,
    broken: Option<StoreError>,
    /// Runs that nothing is offered of, with why.
    aside: BTreeMap<RunId, SetAside>,
    versions: Versions,
    /// Who is told when somebody else has changed something.
    wakers: BTreeMap<usize, Waker>,
    /// Whose turn it is of those that share it, and what the others have.
    current: usize,
    others: BTreeMap<usize, HandleState>,
}

/// Tells somebody that there is something new.
struct Waker(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// What each of several that share a store has to itself.
#[derive(Debug)]
struct HandleState {
    batches: Batches,
    settled: Vec<Settled>,
    session: Option<u64>,
    aside: BTreeMap<RunId, SetAside>,
    withheld: WithheldTimers,
}

impl MemoryStore {
    /// A store in which whatever is staged is durable at once.
    pub fn new() -> MemoryStore {
        MemoryStore::with_state(MemoryState::new(true), None, None)
    }

    /// As [`MemoryStore::new`], without history: for benchmarks. It cannot take back what happened in a transaction
    /// that went wrong, and is broken then.
    pub fn without_history() -> MemoryStore {
        MemoryStore::with_state(MemoryState::new(false), None, None)
    }

    /// A store in which stages stay outstanding until [`MemoryStore::make_durable`] or [`MemoryStore::fail_next`].
    pub fn deferred() -> MemoryStore {
        let durable = Durable::new(MemoryState::new(true));
        MemoryStore::with_state(MemoryState::new(true), Some(durable), Some(Deferred::default()))
    }

    /// Sets how many batches may be under way at once.
    pub fn set_lanes(&mut self, lanes: usize) {
        self.lanes = lanes;
    }

    /// With true, loads of batches wait for [`MemoryStore::give_loads`], as with a database on a network.
    pub fn hold_loads(&mut self, holds: bool) {
        self.holds_loads = holds;
    }

    /// Makes the next stage fail with this error.
    pub fn refuse_stage(&mut self, error: StoreError) {
        self.refuse_next = Some(error);
    }

    /// Accepts `taken` more stages, and makes every later one fail with this error.
    pub fn refuse_stages_after(&mut self, taken: usize, error: StoreError) {
        self.refuse_after = Some((taken, error));
    }

    /// Returns the error that was asked for, if this stage is to fail.
    fn take_refusal(&mut self, stage: &Stage) -> Option<StoreError> {
        match &mut self.refuse_after {
            Some((0, error)) => return Some(error.clone()),
            Some((taken, _)) => *taken -= 1,
            None => {}
        }
        let changes = |id: RunId| stage.runs.iter().any(|change| change.run.id == id);
        let refused = self.refuse_run.as_ref().filter(|(run, _)| changes(*run));
        self.refuse_next.take().or_else(|| refused.map(|(_, error)| error.clone()))
    }

    /// Makes every stage that changes this run fail, until it is called with `None`.
    pub fn refuse_changes(&mut self, run: RunId, error: Option<StoreError>) {
        self.refuse_run = error.map(|error| (run, error));
    }

    /// Makes every renewal of a session fail.
    pub fn break_renewals(&mut self, error: StoreError) {
        self.refuse_renewals = Some(error);
    }

    /// Forgets what is in error, as if this store were from before that was kept: whoever opens it next must look.
    pub fn lose_open_errors(&mut self) {
        self.state.lose_open_errors();
        if let Some(durable) = &self.durable {
            durable.state().lose_open_errors();
        }
    }

    fn with_state(
        state: MemoryState,
        durable: Option<Arc<Durable>>,
        deferred: Option<Deferred>,
    ) -> MemoryStore {
        MemoryStore {
            state,
            durable,
            deferred,
            batches: Batches::default(),
            last_batch: 0,
            lanes: 1,
            holds_loads: false,
            lost_answer: None,
            unknown: Vec::new(),
            unknown_locks: BTreeMap::new(),
            settled: Vec::new(),
            last_stage: 0,
            last_notice: 0,
            refuse_next: None,
            refuse_after: None,
            refuse_run: None,
            refuse_renewals: None,
            sessions: Sessions::default(),
            tells_time: false,
            session: None,
            alive: None,
            broken: None,
            aside: BTreeMap::new(),
            versions: Versions::default(),
            wakers: BTreeMap::new(),
            current: 0,
            others: BTreeMap::new(),
        }
    }

    /// Tells all other handles that something has changed.
    fn wake_others(&self) {
        self.wake_all_but(self.current);
    }

    fn wake_all_but(&self, side: usize) {
        self.wakers.iter().filter(|(other, _)| **other != side).for_each(|(_, Waker(wake))| wake());
    }

    /// Refuses a change beside batches where they have the one lane that there is.
    fn check_no_batch(&self, what: &str) -> Result<(), StoreError> {
        self.check_session()?;
        if self.batches.is_empty() || self.lanes > 1 {
            return Ok(());
        }
        Err(StoreError::Conflict(format!("a batch is under way: {what} after it")))
    }

    fn check_usable(&self) -> Result<(), StoreError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Refuses changes by a handle whose session has ended.
    fn check_session(&self) -> Result<(), StoreError> {
        match self.session {
            Some(session) if !self.sessions.is_live(session) => Err(StoreError::SessionEnded),
            Some(_) | None => self.check_usable(),
        }
    }

    /// Drops targets whose bulk action has not begun and whose session has ended.
    fn drop_drafts(&mut self) {
        self.state.bulks.drop_drafts(&self.sessions);
        if let Some(durable) = &self.durable {
            durable.state().bulks.drop_drafts(&self.sessions);
        }
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl Store for MemoryStore {
    fn lanes(&mut self) -> usize {
        self.lanes
    }

    fn ask(&mut self, wants: &Wants) -> Result<BatchId, StoreError> {
        self.begin_batch(wants)
    }

    fn loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        self.next_loaded()
    }

    fn more(&mut self, batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError> {
        self.load_more(batch, runs, payloads)
    }

    fn run_of_key(&mut self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        self.check_usable()?;
        Ok(self.state.run_of_key(flow, key))
    }

    fn payloads(&mut self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError> {
        self.check_usable()?;
        Ok(ids.iter().map(|id| self.state.payloads.get(id).cloned()).collect())
    }

    fn admissible_runs(&mut self, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.check_usable()?;
        Ok(self.state.slots.admissible(limit))
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.check_usable()?;
        Ok(self.state.timers.due(now, limit))
    }

    fn slot_holders(&mut self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError> {
        self.check_usable()?;
        Ok(self.state.slots.holders(limit, most))
    }

    fn withhold(&mut self, due: &Due, until: Withheld) {
        match until {
            Withheld::ForHome => self.state.timers.withhold(due),
            Withheld::ForTurn => self.state.timers.wait_for_turn(due),
        }
    }

    fn release_withheld(&mut self, limit: usize) -> usize {
        self.state.timers.give_turns(limit)
    }

    fn timers(
        &mut self,
        after: Option<(Time, RunId, Option<UnitRef>)>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.check_usable()?;
        Ok(self.state.timers.list_after(after, limit))
    }

    fn notices(&mut self, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        self.check_usable()?;
        Ok(self.state.notices.list_all(limit))
    }

    fn notices_to(&mut self, thing: ThingRef, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        self.check_usable()?;
        Ok(self.state.notices.list_to(thing, limit))
    }

    fn due_things(&mut self, now: Time, limit: usize) -> Result<Vec<Thing>, StoreError> {
        self.check_usable()?;
        Ok(self.state.things.due_now(now, limit))
    }

    fn fire_schedules(&mut self) {
        self.state.things.fire_schedules();
    }

    fn lock_things(&mut self, batch: BatchId, things: &[ThingRef]) -> Result<Vec<LockedThing>, StoreError> {
        self.lock_things_for(batch, things)
    }

    fn things(&mut self) -> Result<Vec<Thing>, StoreError> {
        self.check_usable()?;
        Ok(self.state.things.all())
    }

    fn target_results(&mut self, bulk: BulkId, places: &[u64]) -> Result<Vec<TargetResult>, StoreError> {
        self.check_usable()?;
        Ok(self.state.bulks.list_results(bulk, places))
    }

    fn set_aside(&mut self, run: RunId, aside: SetAside) {
        self.state.set_aside(run);
        if let Some(durable) = &self.durable {
            durable.set_aside(self.current, run, Some(aside.clone()));
        }
        self.aside.insert(run, aside);
    }

    fn release(&mut self, run: RunId) {
        self.aside.remove(&run);
        if let Some(durable) = &self.durable {
            durable.set_aside(self.current, run, None);
        }
        self.state.release(run);
    }

    /// There is no disk.
    fn release_reserve(&mut self) -> bool {
        false
    }

    fn set_aside_record(&mut self, run: RunId) -> Option<SetAside> {
        self.aside.get(&run).cloned()
    }

    fn stage(&mut self, batch: BatchId, stage: Stage) -> Result<StageId, StoreError> {
        self.stage_batch(batch, stage)
    }

    fn abandon(&mut self, batch: BatchId, unchanged: Vec<Run>) {
        self.state.give_back(unchanged);
        self.end_batch(batch);
    }

    fn rollback(&mut self, batch: BatchId) {
        self.end_batch(batch);
    }

    fn settle(&mut self, wait: bool) -> Vec<Settled> {
        if wait && self.settled.is_empty() {
            self.make_durable(1);
        }
        std::mem::take(&mut self.settled)
    }

    fn open_session(&mut self, new: NewSession) -> Result<Session, StoreError> {
        self.check_usable()?;
        self.state.timers.bring_back();
        let session = self.sessions.open(new, self.session)?;
        self.session = Some(session.incarnation);
        self.drop_drafts();
        Ok(Session { now: self.tells_time.then_some(self.sessions.now), ..session })
    }

    fn renew_session(&mut self) -> Result<(), StoreError> {
        self.check_session()?;
        self.refuse_renewals.clone().map_or(Ok(()), Err)?;
        if let Some(session) = self.session {
            self.sessions.renew(session);
        }
        Ok(())
    }

    fn end_session(&mut self) {
        self.sessions.end(self.session);
    }

    fn ended_sessions(&mut self) -> Result<Vec<EndedSession>, StoreError> {
        self.check_session()?;
        self.sessions.expire();
        self.drop_drafts();
        let local_attempts = self.state.local_attempts()?;
        Ok(self.sessions.take_ended(self.session, local_attempts))
    }

    fn downtimes(&mut self) -> Result<Vec<Downtime>, StoreError> {
        self.check_usable()?;
        Ok(self.state.downtimes.clone())
    }

    fn clock(&mut self) -> Result<ClockRecord, StoreError> {
        self.check_usable()?;
        Ok(self.state.clock.clone())
    }

    fn record_alive(&mut self, now: Time) {
        let now = if self.tells_time { self.sessions.now } else { now };
        self.alive = self.alive.max(Some(now));
    }

    fn versions(&mut self) -> Result<Versions, StoreError> {
        self.check_usable()?;
        Ok(self.versions)
    }

    fn on_news(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.wakers.insert(self.current, Waker(wake));
    }

    fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
        self.check_usable()?;
        Ok(self.state.last_time.max(self.alive.filter(|_| self.state.last_time.is_some())))
    }

    fn next_due(&mut self) -> Result<Option<Time>, StoreError> {
        self.check_usable()?;
        Ok(self.state.next_due())
    }

    fn last_time(&mut self) -> Result<Option<Time>, StoreError> {
        self.check_usable()?;
        Ok(self.state.last_time)
    }

    fn last_id(&mut self) -> Result<u64, StoreError> {
        self.check_usable()?;
        Ok(self.state.last_id)
    }

    fn reader(&mut self) -> Arc<dyn Reader> {
        let durable = self.durable.get_or_insert_with(|| Durable::new(self.state.copy_at_rest()));
        for (run, aside) in &self.aside {
            durable.set_aside(self.current, *run, Some(aside.clone()));
        }
        Arc::new(MemoryReader { durable: durable.clone(), side: self.current })
    }

    fn run(&mut self, run: RunId) -> Result<Option<Run>, StoreError> {
        self.check_usable()?;
        self.state.run(run)
    }

    fn history(&mut self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.check_usable()?;
        Ok(self.state.history(run, after, limit))
    }

    fn list(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.check_usable()?;
        self.state.list(filter, before, limit, Run::clone)
    }

    fn count_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError> {
        self.check_usable()?;
        let mut all = BTreeMap::new();
        for ((_, state), count) in self.state.count_runs(since)? {
            *all.entry(state).or_default() += count;
        }
        Ok(all)
    }

    fn put_flow(&mut self, flow: NewFlow) -> Result<FlowRecord, PutFlowError> {
        self.check_session()?;
        let record = self.state.flows.put(flow)?;
        self.versions.flows += 1;
        self.wake_others();
        if let Some(durable) = &self.durable {
            durable.state().flows = self.state.flows.clone();
        }
        Ok(record)
    }

    fn flow(&mut self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError> {
        self.check_usable()?;
        Ok(self.state.flows.get(flow))
    }

    fn flows(&mut self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError> {
        self.check_usable()?;
        Ok(self.state.flows.after(after, limit))
    }

    fn newest_flow(&mut self, name: &str) -> Result<Option<FlowRecord>, StoreError> {
        self.check_usable()?;
        Ok(self.state.flows.newest(name))
    }

    fn policies(&mut self) -> Result<Vec<Policy>, StoreError> {
        self.check_usable()?;
        Ok(self.state.policies.all.clone())
    }

    fn policy_switch(&mut self) -> Result<PolicySwitch, StoreError> {
        self.check_usable()?;
        Ok(self.state.policies.switch.clone())
    }

    fn put_policies(&mut self, change: PolicyChange, made_on: u64) -> Result<(), StoreError> {
        self.check_no_batch("policies change")?;
        check_version(made_on, self.versions.policies)?;
        let ledger = change.ledger(self.state.policies.next_audit_id());
        self.check_ledger(&ledger)?;
        self.state.policies.put(change)?;
        self.versions.policies += 1;
        self.wake_others();
        if let Some(durable) = &self.durable {
            durable.state().policies = self.state.policies.clone();
        }
        self.add_ledger(ledger);
        Ok(())
    }

    fn policy_audit(
        &mut self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError> {
        self.check_usable()?;
        Ok(self.state.policies.audit(before, limit))
    }

    fn policy_hits(&mut self) -> Result<Vec<PolicyHits>, StoreError> {
        self.check_usable()?;
        Ok(self.state.errors.list_policy_hits())
    }

    fn errors(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        self.check_usable()?;
        Ok(self.state.errors.list_errors(filter, after, limit))
    }

    fn open_errors(
        &mut self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError> {
        self.check_usable()?;
        Ok(self.state.errors.list_open(filter, after, limit))
    }

    fn error_groups(&mut self, filter: &GroupFilter, limit: usize) -> Result<Vec<ErrorGroup>, StoreError> {
        self.check_usable()?;
        Ok(self.state.errors.list_groups(filter, limit))
    }

    fn needs_backfill(&mut self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.check_usable()?;
        Ok(self.state.errors.list_to_backfill(after, limit))
    }

    fn logs(&mut self, run: RunId) -> Result<RunLogs, StoreError> {
        self.check_usable()?;
        Ok(self.state.logs.get(&run).cloned().unwrap_or_default())
    }

    fn put_targets(&mut self, bulk: BulkId, targets: Vec<Target>) -> Result<(), StoreError> {
        self.check_no_batch("targets are put")?;
        if let Some(durable) = &self.durable {
            // What is refused here is refused there.
            let _ = durable.state().bulks.put_targets(bulk, targets.clone(), self.session);
        }
        self.state.bulks.put_targets(bulk, targets, self.session)
    }

    fn bulk(&mut self, bulk: BulkId) -> Result<Option<Bulk>, StoreError> {
        self.check_usable()?;
        Ok(self.state.bulks.get(bulk).cloned())
    }

    fn bulks(
        &mut self,
        open_only: bool,
        before: Option<BulkId>,
        limit: usize,
    ) -> Result<Vec<Bulk>, StoreError> {
        self.check_usable()?;
        Ok(self.state.bulks.list_bulks(open_only, before, limit))
    }

    fn targets(
        &mut self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError> {
        self.check_usable()?;
        Ok(self.state.bulks.list_targets(bulk, only, from, limit))
    }

    fn next_targets(&mut self, bulk: BulkId, from: u64, limit: usize) -> Result<Vec<Target>, StoreError> {
        self.check_usable()?;
        Ok(self.state.bulks.list_targets(bulk, None, from, limit))
    }
}
