//! The store: the contract, kept with a log on disk and what is hot in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::Connection;
use unstuck_core::bulk::{Bulk, BulkRef, ResultKind, Target, TargetResult};
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::Notice;
use unstuck_core::decide::Withheld;
use unstuck_core::downtime::{Downtime, record_downtime};
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{BulkId, FlowId, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;
use unstuck_store::contract::{
    AuditId, BatchId, Due, EndedSession, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter, Ledger,
    Loaded, LockedThing, More, NewFlow, NewSession, NoticeId, OpenErrorFilter, PolicyAudit, PolicyChange,
    PolicyHits, PutFlowError, Reader, RunFilter, RunLogs, Session, SetAside, Settled, Stage, StageId, Store,
    StoreError, Versions, Wants,
};
use unstuck_store::invariants::check_version;

use crate::batch::OpenBatch;
use crate::hot_runs::Residency;
use crate::open::{self, Lock};
use crate::options::Options;
use crate::overlay::Published;
use crate::pending_transaction::PendingTransaction;
use crate::read_pool::ReadPool;
use crate::reader::SqliteReader;
use crate::reserve::release_reserve;
use crate::stage::conflict;
use crate::state::StoreState;
use crate::stats::Stats;
use crate::table;
use crate::table::attempt_log;
use crate::table::bulk;
use crate::table::error;
use crate::table::event;
use crate::table::flow;
use crate::table::meta;
use crate::table::policy;
use crate::table::run;
use crate::table::run_snapshot;
use crate::writer::{Patience, Writer};
use crate::writer_claim::WriterClaim;

/// The embedded store: one folder, owned by one process.
#[derive(Debug)]
pub struct SqliteStore {
    /// The first to go: whoever reads is waited for, and whoever comes later is told that it was closed.
    pub(crate) readers: ReadersOfStore,
    directory: PathBuf,
    pub(crate) options: Options,
    /// When an engine was last alive, as the lock file tells.
    pub(crate) seen: Option<Time>,
    pub(crate) writer: Writer,
    pub(crate) reader: Connection,
    /// The last to go: the writer may have something to write until then.
    pub(crate) lock: Option<Lock>,
    pub(crate) claim: WriterClaim,
    pub(crate) state: StoreState,
    /// Reports that came in while something else was waited for.
    pub(crate) settled: Vec<Settled>,
    /// The batch that is under way, and its number.
    pub(crate) batch: Option<OpenBatch>,
    pub(crate) last_batch: u64,
    reading: Reading,
    pub(crate) last_stage: u64,
    /// The last stage that is in the file.
    pub(crate) durable: u64,
    /// Runs that leave memory once their row is in the file: the stage, and their number then.
    pub(crate) leaving: VecDeque<(u64, RunId, u64)>,
    /// A stage has failed: memory is to be read again from what is durable.
    pub(crate) must_start_over: bool,
    /// There was no room: it is looked for before the next transaction.
    pub(crate) full: bool,
    pub(crate) broken: Option<StoreError>,
    /// Runs that nothing is offered of, with why.
    pub(crate) aside: BTreeMap<RunId, SetAside>,
    /// The session that was opened, if one was, and the one that knows what those before it left.
    session: Option<u64>,
    informed: Option<u64>,
    pub(crate) versions: Versions,
}

/// What is seen of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// By each query, what is durable then.
    EachAlone,
    /// What was durable at one moment, until something settles or the transaction ends: whoever brings many runs back does
    /// not read the same pages again for each.
    OneMoment,
}

impl SqliteStore {
    /// Opens the store in this folder; it is made if it is not there.
    pub fn open(directory: &Path) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with(directory, Options::default())
    }

    /// Opens the store in this folder, kept in this way.
    pub fn open_with(directory: &Path, options: impl Into<Options>) -> Result<SqliteStore, StoreError> {
        open::open(directory, options.into())
    }

    pub(crate) fn with(
        directory: PathBuf,
        options: Options,
        lock: Option<Lock>,
        claim: WriterClaim,
        (writer, reader, state): (Writer, Connection, StoreState),
        published: Arc<Published>,
    ) -> SqliteStore {
        let file = lock.as_ref().and_then(|lock| lock.file.as_ref());
        let modified = file.and_then(|file| file.metadata().and_then(|found| found.modified()).ok());
        let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let seen = since.map(|since| Time(i64::try_from(since.as_millis()).unwrap_or(0)));
        let pool = ReadPool::of_file(directory.join(open::DATABASE), options.clone());
        let durable = state.stage;
        let max_candidates = options.max_candidates;
        let readers = ReadersOfStore(SqliteReader { published, pool: Arc::new(pool), max_candidates });
        SqliteStore {
            readers,
            directory,
            options,
            seen,
            writer,
            reader,
            lock,
            claim,
            state,
            settled: Vec::new(),
            batch: None,
            last_batch: 0,
            reading: Reading::EachAlone,
            last_stage: durable,
            durable,
            leaving: VecDeque::new(),
            must_start_over: false,
            full: false,
            broken: None,
            aside: BTreeMap::new(),
            session: None,
            informed: None,
            versions: Versions::default(),
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Keeps statistics from now on, until [`SqliteStore::stats`].
    pub fn watch(&mut self) {
        self.writer.watch();
    }

    /// What was written since [`SqliteStore::watch`].
    pub fn stats(&mut self) -> Stats {
        self.writer.stats()
    }

    /// How many runs are in memory.
    pub fn runs_in_memory(&self) -> usize {
        self.state.hot.len()
    }

    pub(crate) fn check_usable(&self) -> Result<(), StoreError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Nothing is outstanding then, so the writer is idle and nothing else writes.
    pub(crate) fn check_no_batch(&mut self, what: &str) -> Result<(), StoreError> {
        if self.batch.is_some() {
            return Err(StoreError::Conflict(format!("a batch is under way: {what} after it")));
        }
        self.settle_all()
    }

    /// All that is read from now on is of one moment, until [`SqliteStore::end_reading`].
    pub(crate) fn begin_reading(&mut self) -> Result<(), StoreError> {
        if table::begin_reading(&self.reader)? {
            self.reading = Reading::OneMoment;
        }
        Ok(())
    }

    /// What is read from now on is what is durable then.
    pub(crate) fn end_reading(&mut self) {
        if std::mem::replace(&mut self.reading, Reading::EachAlone) == Reading::OneMoment
            && let Err(error) = table::end_reading(&self.reader)
        {
            self.stop_after_failure(error);
        }
    }

    /// The attempts that executors of any session have.
    fn local_attempts(&mut self) -> Result<Vec<(AttemptId, Worker)>, StoreError> {
        self.settle_all()?;
        // Whoever asks is about to do something about them.
        for id in run::list_local_runs(&self.reader)? {
            if self.state.hot.get(id).is_none() {
                open::load_run(&mut self.state, &self.reader, id, self.options.many_units)?;
            }
        }
        let mut found = Vec::new();
        for (id, hot) in self.state.hot.iter() {
            let Residency::Here(run) = &hot.run else { return Err(conflict(*id, "is locked")) };
            found.extend(run.local_attempts());
        }
        found.sort_unstable_by_key(|(attempt, _)| *attempt);
        Ok(found)
    }
}

/// What a store gives to its readers.
#[derive(Debug)]
pub(crate) struct ReadersOfStore(SqliteReader);

impl Deref for ReadersOfStore {
    type Target = SqliteReader;

    fn deref(&self) -> &SqliteReader {
        &self.0
    }
}

impl Drop for ReadersOfStore {
    fn drop(&mut self) {
        self.0.pool.close();
    }
}

impl Store for SqliteStore {
    fn ask(&mut self, wants: &Wants) -> Result<BatchId, StoreError> {
        self.begin_batch(wants)
    }

    fn loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        let batch = self.batch.as_mut()?;
        batch.loaded.take().map(|loaded| (batch.id, Ok(loaded)))
    }

    fn more(&mut self, batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError> {
        self.load_more(batch, runs, payloads)
    }

    fn run_of_key(&mut self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        self.check_usable()?;
        self.find_key(flow, key)
    }

    fn payloads(&mut self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError> {
        self.check_usable()?;
        ids.iter().map(|id| self.payload(*id)).collect()
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
        let result = |place: &u64| {
            let target = BulkRef { bulk, place: *place };
            self.state
                .results
                .get(target)
                .cloned()
                .map_or_else(|| bulk::load_result(&self.reader, target), Ok)
        };
        places.iter().map(result).collect()
    }

    fn set_aside(&mut self, run: RunId, aside: SetAside) {
        self.state.set_aside(run);
        self.readers.published.set_aside(run, Some(aside.clone()));
        self.aside.insert(run, aside);
    }

    fn release(&mut self, run: RunId) {
        self.aside.remove(&run);
        self.readers.published.set_aside(run, None);
        self.state.release(run);
    }

    fn set_aside_record(&mut self, run: RunId) -> Option<SetAside> {
        self.aside.get(&run).cloned()
    }

    fn stage(&mut self, batch: BatchId, stage: Stage) -> Result<StageId, StoreError> {
        if let Err(error) = self.check_batch(batch).and_then(|()| self.check_stage(&stage)) {
            self.rollback(batch);
            return Err(error);
        }
        self.last_stage += 1;
        let mut job =
            PendingTransaction { stage: self.last_stage, at: stage.at, ..PendingTransaction::default() };
        let ended = self.batch.take();
        self.state
            .things
            .unlock(ended.as_ref().map(|batch| batch.locked_things.as_slice()).unwrap_or_default());
        self.record_errors(stage.errors, &mut job);
        job.errors.examined = stage.backfilled;
        self.apply_things(stage.things, stage.results, &mut job);
        job.logs = stage.logs;
        self.record_requests((stage.idempotency, stage.audit, stage.token_uses), &mut job);
        for change in stage.runs {
            self.apply_run_change(change, stage.at, &mut job);
        }
        for run in stage.unchanged {
            if let Some(hot) = self.state.hot.get_mut(run.id) {
                hot.run = Residency::Here(Box::new(run));
            }
        }
        for notice in stage.notices {
            self.state.last_notice += 1;
            let id = NoticeId(self.state.last_notice);
            self.state.notices.insert(id, notice.clone());
            job.notices.push((id, notice));
        }
        for id in &stage.delivered {
            self.state.notices.remove(*id);
        }
        job.delivered = stage.delivered;
        for id in stage.postponed {
            let delivery = self.state.notices.postpone(id, stage.at);
            job.postponed.extend(delivery.map(|delivery| (id, delivery)));
        }
        for id in stage.forgotten {
            let head = self.state.hot.get(id).map_or(0, |hot| hot.head);
            self.state.forget(id);
            job.fresh.push((id, None));
            job.forgotten.push((id, head));
        }
        if let Some(clock) = stage.clock {
            self.set_clock(clock, stage.at, &mut job);
        }
        if let Some(down) = stage.downtime {
            record_downtime(&mut self.state.downtimes, down);
            self.versions.downtimes += 1;
            job.downtimes = Some(self.state.downtimes.clone());
        }
        self.state.last_time = Some(stage.at);
        self.state.last_id = self.state.last_id.max(stage.last_id);
        self.state.ready.put_back();
        self.write_rows_behind(&mut job);
        job.last_id = self.state.last_id;
        job.end = self.state.end;
        job.flushed = self.state.hot.covered_position(self.state.end);
        let forgets = !job.forgotten.is_empty();
        self.end_reading();
        self.writer.write(job);
        if forgets {
            // The file would show what is forgotten until it is written; if that fails, `settle` tells.
            let _ = self.settle_all();
            self.state.payloads.clear();
        }
        Ok(StageId(self.last_stage))
    }

    fn abandon(&mut self, batch: BatchId, unchanged: Vec<Run>) {
        self.give_back(unchanged);
        self.end_batch(batch);
    }

    fn rollback(&mut self, batch: BatchId) {
        self.end_batch(batch);
    }

    fn settle(&mut self, wait: bool) -> Vec<Settled> {
        self.end_reading();
        let mut patience = if wait && self.settled.is_empty() { Patience::AWhile } else { Patience::None };
        while let Some(settled) = self.writer.next_settled(patience) {
            self.take_settled(settled);
            patience = Patience::None;
        }
        if self.must_start_over {
            self.reload_after_failure();
        } else {
            self.evict_parked_runs();
        }
        std::mem::take(&mut self.settled)
    }

    fn open_session(&mut self, new: NewSession) -> Result<Session, StoreError> {
        // The writer is idle then, so that nothing else writes.
        self.settle_all()?;
        self.state.timers.bring_back();
        let begun = meta::open_session(&mut self.reader, &self.claim, new.token_key);
        let session = self.check_written(begun)?;
        self.session = Some(session.incarnation);
        Ok(session)
    }

    /// It lasts as long as the store is open.
    fn renew_session(&mut self) -> Result<(), StoreError> {
        self.check_usable()
    }

    /// It ends with the process that has the store open.
    fn end_session(&mut self) {}

    fn ended_sessions(&mut self) -> Result<Vec<EndedSession>, StoreError> {
        if self.session.is_some() && self.informed == self.session {
            return Ok(Vec::new());
        }
        self.informed = self.session;
        let mut of_session: BTreeMap<u64, Vec<(AttemptId, Worker)>> = BTreeMap::new();
        for (attempt, worker) in self.local_attempts()? {
            if self.session != Some(worker.incarnation) {
                of_session.entry(worker.incarnation).or_default().push((attempt, worker));
            }
        }
        let session = |(incarnation, attempts)| EndedSession { incarnation, is_on_this_host: true, attempts };
        Ok(of_session.into_iter().map(session).collect())
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
        if self.seen < Some(now) {
            self.touch_lock_file(now);
        }
    }

    fn release_reserve(&mut self) -> bool {
        self.lock.is_some() && release_reserve(&self.directory)
    }

    fn versions(&mut self) -> Result<Versions, StoreError> {
        self.check_usable()?;
        Ok(self.versions)
    }

    /// There is no other server.
    fn on_news(&mut self, _: Box<dyn Fn() + Send + Sync>) {}

    fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
        self.check_usable()?;
        Ok(self.state.last_time.max(self.seen.filter(|_| self.state.last_time.is_some())))
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
        Arc::new(self.readers.0.clone())
    }

    fn run(&mut self, run: RunId) -> Result<Option<Run>, StoreError> {
        self.check_usable()?;
        match self.state.hot.get(run).map(|hot| &hot.run) {
            Some(Residency::Here(run)) => Ok(Some((**run).clone())),
            Some(Residency::Out(_)) => Err(conflict(run, "is locked")),
            None => match run::load_run_row(&self.reader, run)? {
                Some(row) => Ok(Some(run_snapshot::load_run_at(&self.reader, run, row.head)?.run)),
                None => Ok(None),
            },
        }
    }

    fn history(&mut self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.settle_all()?;
        let head = match self.state.hot.get(run) {
            Some(hot) => Some(hot.head),
            None => run::load_run_row(&self.reader, run)?.map(|row| row.head),
        };
        match head {
            Some(head) => event::load_history_page(&self.reader, run, head, after, limit),
            None => Ok(Vec::new()),
        }
    }

    fn list(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.settle_all()?;
        self.begin_reading()?;
        let found = self.list_runs(filter, before, limit);
        self.end_reading();
        found
    }

    fn count_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError> {
        self.settle_all()?;
        self.count_root_runs(since)
    }

    fn put_flow(&mut self, flow: NewFlow) -> Result<FlowRecord, PutFlowError> {
        // The writer is idle then, so that nothing else writes.
        self.settle_all()?;
        let mut flows = self.state.flows.clone();
        let record = flows.put(flow)?;
        let written =
            flow::put_flows(&mut self.reader, &self.claim, std::slice::from_ref(&record), &Ledger::default());
        self.check_written(written)?;
        self.state.flows = flows;
        self.versions.flows += 1;
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
        Ok(self.state.policies.clone())
    }

    fn policy_switch(&mut self) -> Result<PolicySwitch, StoreError> {
        self.check_usable()?;
        Ok(self.state.policy_switch.clone())
    }

    fn put_policies(&mut self, change: PolicyChange, made_on: u64) -> Result<(), StoreError> {
        self.check_no_batch("policies change")?;
        check_version(made_on, self.versions.policies)?;
        let ledger = change.ledger(AuditId(0));
        self.check_keys(ledger.idempotency.as_slice())?;
        let written = policy::put_policies(&mut self.reader, &self.claim, &change);
        self.check_written(written)?;
        self.state.policies = change.policies;
        self.state.policy_switch = change.switch;
        self.versions.policies += 1;
        self.state.policies.sort_by(|a, b| (a.age, &a.id).cmp(&(b.age, &b.id)));
        Ok(())
    }

    fn policy_audit(
        &mut self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError> {
        self.check_usable()?;
        policy::list_audit(&self.reader, before, limit)
    }

    fn policy_hits(&mut self) -> Result<Vec<PolicyHits>, StoreError> {
        self.settle_all()?;
        error::list_policy_hits(&self.reader)
    }

    fn errors(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        self.settle_all()?;
        error::list_errors(&self.reader, filter, after, limit)
    }

    fn open_errors(
        &mut self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError> {
        self.settle_all()?;
        error::list_open_errors(&self.reader, filter, after, limit)
    }

    fn error_groups(&mut self, filter: &GroupFilter, limit: usize) -> Result<Vec<ErrorGroup>, StoreError> {
        self.settle_all()?;
        error::list_groups(&self.reader, filter, None, limit)
    }

    fn needs_backfill(&mut self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.settle_all()?;
        error::list_runs_to_backfill(&self.reader, after, limit)
    }

    fn logs(&mut self, run: RunId) -> Result<RunLogs, StoreError> {
        self.settle_all()?;
        attempt_log::list_logs(&self.reader, run)
    }

    fn put_targets(&mut self, bulk: BulkId, targets: Vec<Target>) -> Result<(), StoreError> {
        self.check_no_batch("targets are put")?;
        let written = bulk::put_targets(&mut self.reader, &self.claim, bulk, &targets);
        self.check_written(written)
    }

    fn bulk(&mut self, bulk: BulkId) -> Result<Option<Bulk>, StoreError> {
        self.settle_all()?;
        bulk::find_bulk(&self.reader, bulk)
    }

    fn bulks(
        &mut self,
        open_only: bool,
        before: Option<BulkId>,
        limit: usize,
    ) -> Result<Vec<Bulk>, StoreError> {
        self.settle_all()?;
        bulk::list_bulks(&self.reader, open_only, before, limit)
    }

    fn targets(
        &mut self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError> {
        self.settle_all()?;
        bulk::list_targets(&self.reader, bulk, only, from, limit)
    }

    fn next_targets(&mut self, bulk: BulkId, from: u64, limit: usize) -> Result<Vec<Target>, StoreError> {
        self.check_usable()?;
        bulk::list_targets(&self.reader, bulk, None, from, limit)
    }
}
