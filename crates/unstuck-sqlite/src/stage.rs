//! A stage: checked as a whole, made visible, and turned into what the writer makes durable.

use std::time::{Duration, SystemTime};

use rustc_hash::FxHashSet;
use unstuck_core::bulk::{BulkRef, TargetResult};
use unstuck_core::clock::ClockRecord;
use unstuck_core::decide::LeaseMove;
use unstuck_core::downtime::shift_downtimes;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::{Event, Fact};
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::model::run::{Run, Slot};
use unstuck_core::model::unit::{AttemptPhase, UnitRef, UnitState};
use unstuck_core::snapshot::write_snapshot;
use unstuck_core::summary::RunSummary;
use unstuck_core::thing::Thing;
use unstuck_core::time::Time;
use unstuck_core::wakeup::Wakeup;
use unstuck_store::contract::{ErrorId, RunChange, Stage, StoreError};
use unstuck_store::invariants::{NOT_YET, check_errors, check_events, check_logs, check_results};
use unstuck_store::tally::list_hits;

use crate::hot_runs::Residency;
use crate::log_entry::{StoredSlot, StoredWakeup, StoredWakeups};
use crate::options::{MemoryLimits, Options};
use crate::pending_transaction::{
    Entry, MovedLease, ParkedWake, PendingTransaction, ReplacedWakes, Row, unit_columns,
};
use crate::store::SqliteStore;
use crate::table::bulk;
use crate::table::error::OpenErrorChange;
use crate::table::payload;
use crate::table::run;
use crate::table::run_key;
use crate::table::run_label::label_changes;

impl SqliteStore {
    /// Checks a whole stage before any of it is applied, so that a refused stage changes nothing.
    pub(crate) fn check_stage(&self, stage: &Stage) -> Result<(), StoreError> {
        check_errors(stage)?;
        check_logs(stage)?;
        self.check_keys(&stage.idempotency)?;
        check_results(stage, |bulk| bulk::find_total(&self.reader, bulk))?;
        let locked_things = self.batch.as_ref().map(|batch| batch.locked_things.as_slice());
        self.state.things.check_changes(&stage.things, locked_things.unwrap_or_default())?;
        let mut returned = 0;
        let mut keys = FxHashSet::default();
        let mut seen = FxHashSet::default();
        let mut payloads = FxHashSet::default();
        for change in &stage.runs {
            let id = change.run.id;
            if !seen.insert(id) {
                return Err(conflict(id, "is in one commit twice"));
            }
            let is_start =
                matches!(change.events.first().and_then(|event| event.facts.first()), Some(Fact::Started(_)));
            match self.state.hot.get(id).map(|hot| (&hot.run, &hot.flow)) {
                Some((Residency::Out(mark), flow)) => {
                    if *flow != change.flow {
                        return Err(conflict(id, &format!("is of flow `{flow}`, not `{}`", change.flow)));
                    }
                    check_events(*mark, change)?;
                    returned += 1;
                }
                Some((Residency::Here(_), _)) if is_start => return Err(conflict(id, "already exists")),
                Some((Residency::Here(_), _)) => return Err(conflict(id, "was not locked")),
                None => self.check_new(change, is_start, &mut keys)?,
            }
            for (payload, _) in &change.payloads {
                self.check_payload(*payload)?;
                if !payloads.insert(*payload) {
                    return Err(duplicate_payload(*payload));
                }
            }
        }
        for run in &stage.unchanged {
            match self.state.hot.get(run.id).map(|hot| &hot.run) {
                Some(Residency::Out(mark)) if mark.seq == run.seq => returned += 1,
                Some(Residency::Out(_)) => {
                    return Err(conflict(run.id, "is marked as unchanged but has changed"));
                }
                Some(Residency::Here(_)) | None => return Err(conflict(run.id, "was not locked")),
            }
        }
        for id in &stage.forgotten {
            if !seen.insert(*id) {
                return Err(conflict(*id, "is in one commit twice"));
            }
            match self.state.hot.get(*id).map(|hot| &hot.run) {
                Some(Residency::Out(mark)) if mark.is_final => returned += 1,
                Some(Residency::Out(_)) => {
                    return Err(conflict(*id, "is not final: it cannot be forgotten"));
                }
                Some(Residency::Here(_)) | None => return Err(conflict(*id, "was not locked")),
            }
        }
        if returned == self.batch.as_ref().map_or(0, |batch| batch.locked.len()) {
            return Ok(());
        }
        Err(StoreError::Conflict("a run was locked but is not part of the commit".into()))
    }

    /// Refuses a new run whose id or key is taken, in the file or earlier in the same stage.
    fn check_new<'a>(
        &self,
        change: &'a RunChange,
        is_start: bool,
        keys: &mut FxHashSet<(&'a str, &'a str)>,
    ) -> Result<(), StoreError> {
        let id = change.run.id;
        if !is_start {
            return Err(conflict(id, "does not exist, and its first event does not start it"));
        }
        if id.0 <= self.state.last_id && run::load_run_row(&self.reader, id)?.is_some() {
            return Err(conflict(id, "already exists"));
        }
        check_events(NOT_YET, change)?;
        if let Some(key) = &change.run.key {
            let is_new = keys.insert((&change.flow, key));
            if !is_new || self.find_key(&change.flow, key)?.is_some() {
                let flow = &change.flow;
                return Err(StoreError::Conflict(format!(
                    "key `{key}` of flow `{flow}` belongs to another run"
                )));
            }
        }
        Ok(())
    }

    /// Refuses a payload id that exists. Ids grow, so only an id up to the last one needs a look into the file.
    fn check_payload(&self, id: PayloadId) -> Result<(), StoreError> {
        let known = self.state.payloads.get(id).is_some()
            || (id.0 <= self.state.last_id && payload::load_payload(&self.reader, id)?.is_some());
        if known {
            return Err(duplicate_payload(id));
        }
        Ok(())
    }

    /// Finds the run of a key: in stages that are not durable yet, then in the file.
    pub(crate) fn find_key(&self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        match self.state.keys.get(flow, key) {
            Some(run) => Ok(Some(run)),
            None => run_key::find_run_of_key(&self.reader, flow, key),
        }
    }

    /// Applies the change of a run in memory, and adds what must be written to the transaction.
    pub(crate) fn apply_run_change(&mut self, change: RunChange, at: Time, job: &mut PendingTransaction) {
        job.errors.hits.extend(list_hits(&change).map(|(policy, at)| (policy.id.clone(), at)));
        let RunChange { run, flow, mut events, payloads, wakeups, replaces_all, slot, leases, open_errors } =
            change;
        let id = run.id;
        job.errors.open.extend(list_open_error_changes(&run, open_errors));
        let shift = events.iter().map(Event::clock_shift).fold(0, i64::saturating_add);
        if shift != 0 {
            self.state.timers.shift_moved_leases(id, shift);
        }
        let mut has_leases = !leases.is_empty();
        self.move_leases(id, &leases, job);
        let moved = self.list_moved_leases(&run, &wakeups, replaces_all);
        self.state.set_wakeups(id, &wakeups, replaces_all, &slot, at);
        // The next attempt may be planned for the same time: it must not inherit a sign of life.
        let is_over =
            |unit: &UnitRef| !self.state.timers.get(id, Some(*unit)).is_some_and(|timer| timer.was_moved());
        let (over, going): (Vec<UnitRef>, Vec<UnitRef>) = moved.into_iter().partition(is_over);
        job.ended_leases.extend(over.into_iter().map(|unit| (id, unit)));
        if shift != 0 {
            // What is kept of them is told by the clock as it is now.
            has_leases |= !going.is_empty();
            for unit in going {
                let (step, item) = unit_columns(Some(unit));
                let timer = self.state.timers.get(id, Some(unit));
                job.leases.extend(timer.map(|timer| MovedLease { run: id, step, item, timer }));
            }
        }
        for (payload, json) in payloads {
            self.state.payloads.put(payload, json.clone(), job.stage);
            job.payloads.push((id, payload, json));
        }
        let is_new = events.first().is_some_and(|event| event.seq == 1);
        if let Some(key) = run.key.as_ref().filter(|_| is_new) {
            self.state.keys.put(&flow, key, id, job.stage);
            job.keys.push((flow.clone(), key.clone(), id));
        }
        job.labels.extend(events.iter().flat_map(|event| label_changes(id, event)));
        let mut prev = self.state.hot.get_mut(id).map_or(0, |hot| {
            hot.is_saved = false;
            hot.note_wakeups(&wakeups, &leases, replaces_all || shift != 0);
            hot.head
        });
        let first = self.state.end + 1;
        let last = events.pop();
        for event in events {
            prev = self.append_event(job, id, prev, event, None);
        }
        let (is_final, seq, has_events) = (run.is_final(), run.seq, last.is_some());
        if let Some(event) = last {
            let wakeups = wakeups.into_iter().map(StoredWakeup::of).collect();
            let wakes = StoredWakeups { replaces_all, list: wakeups, slot: StoredSlot::of(&slot) };
            prev = self.append_event(job, id, prev, event, Some(wakes));
        }
        self.state.hot.put(id, run, flow, prev);
        if has_events {
            job.fresh.extend(self.state.fresh_run(id).map(|fresh| (id, Some(fresh))));
        }
        self.state.hot.get_mut(id).filter(|_| has_leases).iter_mut().for_each(|hot| hot.has_leases = true);
        if has_events {
            self.state.hot.mark_row_behind(id, first);
            if is_final {
                self.state.hot.mark_ended(id, at);
            } else {
                self.state.hot.mark_recent(id, seq);
                self.snapshot_if_due(id, seq, job);
            }
        }
    }

    /// Moves the leases of a run in memory, and has their rows written.
    fn move_leases(&mut self, id: RunId, leases: &[LeaseMove], job: &mut PendingTransaction) {
        for lease in leases {
            self.state.timers.move_lease(id, *lease);
            if let Some(timer) = self.state.timers.get(id, Some(lease.unit)) {
                let (step, item) = unit_columns(Some(lease.unit));
                job.leases.push(MovedLease { run: id, step, item, timer });
            }
        }
    }

    /// Writes the row and a snapshot of a busy run whose last snapshot is many events old, so that loading it replays
    /// few.
    fn snapshot_if_due(&mut self, id: RunId, seq: u64, job: &mut PendingTransaction) {
        // Most runs end long before.
        if seq < self.options.snapshot_events {
            return;
        }
        let is_due = self.state.hot.get(id).is_some_and(|hot| match &hot.run {
            Residency::Here(run) => run.seq - hot.snapshot_seq >= self.snapshot_interval(run),
            Residency::Out(_) => false,
        });
        if is_due {
            self.write_row(id, job);
        }
    }

    /// Returns after how many events a run gets a new snapshot: at least as many as it has units, as writing costs
    /// that much.
    fn snapshot_interval(&self, run: &Run) -> u64 {
        self.options.snapshot_events.max(run.unit_count() as u64)
    }

    /// Applies changes of things that are no runs (bulk actions, results of targets).
    pub(crate) fn apply_things(
        &mut self,
        things: Vec<Thing>,
        results: Vec<(BulkRef, TargetResult)>,
        job: &mut PendingTransaction,
    ) {
        for thing in &things {
            self.state.things.put(thing.clone());
        }
        for (target, result) in &results {
            self.state.results.put(*target, result.clone(), job.stage);
        }
        (job.things, job.results) = (things, results);
    }

    /// Records that the clock was set. Downtimes move with it, and the lock file is touched, so that it is not dated
    /// in the future.
    pub(crate) fn set_clock(&mut self, clock: ClockRecord, at: Time, job: &mut PendingTransaction) {
        shift_downtimes(&mut self.state.downtimes, clock.shift.saturating_sub(self.state.clock.shift));
        self.touch_lock_file(at);
        job.downtimes = Some(self.state.downtimes.clone());
        self.versions.downtimes += 1;
        job.clock = Some(clock.clone());
        self.state.clock = clock;
    }

    /// The time of the lock file says when an engine was last seen: no write to the database, and nothing is lost where
    /// it fails.
    pub(crate) fn touch_lock_file(&mut self, now: Time) {
        self.seen = Some(now);
        let since = Duration::from_millis(u64::try_from(now.0).unwrap_or(0));
        if let Some(file) = self.lock.as_ref().and_then(|lock| lock.file.as_ref()) {
            let _ = file.set_modified(SystemTime::UNIX_EPOCH + since);
        }
    }

    /// Lists the units whose lease a heartbeat has moved and this change may end: their lease rows must be deleted.
    fn list_moved_leases(
        &self,
        run: &Run,
        wakeups: &[(Option<UnitRef>, Wakeup)],
        replaces_all: bool,
    ) -> Vec<UnitRef> {
        let is_moved = |unit: &UnitRef| {
            self.state.timers.get(run.id, Some(*unit)).is_some_and(|timer| timer.was_moved())
        };
        if !replaces_all {
            return wakeups.iter().filter_map(|(unit, _)| *unit).filter(is_moved).collect();
        }
        let mut moved = Vec::new();
        run.each_unit(|unit, _| moved.extend(Some(unit).filter(is_moved)));
        moved
    }

    /// Gives errors their ids in the order in which they are recorded.
    pub(crate) fn record_errors(&mut self, errors: Vec<ErrorRecord>, job: &mut PendingTransaction) {
        for error in errors {
            self.state.last_error += 1;
            job.errors.recorded.push((ErrorId(self.state.last_error), error));
        }
    }

    /// Gives an event the next position of the log, and links it to the run's event before it.
    fn append_event(
        &mut self,
        job: &mut PendingTransaction,
        run: RunId,
        prev: u64,
        event: Event,
        wakes: Option<StoredWakeups>,
    ) -> u64 {
        self.state.end += 1;
        let pos = self.state.end;
        job.entries.push(Entry { pos, run, prev, event, wakes });
        pos
    }

    /// Writes the rows of runs that have ended, several at a time. Then it bounds the tail of the log and the memory:
    /// writes the rows that are furthest behind while the tail is long, and parks the runs that have been idle longest
    /// while too many are in memory. It goes a 64th below the limit, because rows of neighbours share pages, and pages
    /// are then written once for many.
    pub(crate) fn write_rows_behind(&mut self, job: &mut PendingTransaction) {
        let Options { max_ended, max_ended_wait, room: MemoryLimits { max_runs, max_tail }, .. } =
            self.options;
        for run in self.state.hot.take_ended(job.at, max_ended, max_ended_wait) {
            self.park_run(run, job);
        }
        let end = self.state.end;
        let is_long = self.state.hot.furthest_behind().is_some_and(|(pos, _)| end + 1 - pos > max_tail);
        let tail = if is_long { max_tail - max_tail / 64 } else { max_tail };
        let are_many = self.state.hot.len() > max_runs + self.leaving.len();
        let runs = if are_many { max_runs - max_runs / 64 } else { max_runs };
        for _ in 0..self.options.max_parked {
            match self.state.hot.furthest_behind() {
                // It may be busy, so it stays: to make its state again would cost all of its history.
                Some((pos, run)) if end + 1 - pos > tail => self.write_row(run, job),
                Some(_) | None => {
                    if self.state.hot.len() <= runs + self.leaving.len() {
                        return;
                    }
                    let Some(run) = self.state.hot.least_recent() else { return };
                    self.park_run(run, job);
                }
            }
        }
    }

    /// Writes where a run stands and what will wake it; it leaves memory once that is in the file.
    fn park_run(&mut self, id: RunId, job: &mut PendingTransaction) {
        let Some(hot) = self.state.hot.get(id) else { return };
        let Residency::Here(run) = &hot.run else { return };
        self.leaving.push_back((job.stage, id, run.seq));
        if !hot.is_saved {
            self.write_row(id, job);
        }
    }

    /// Writes where a run stands and what will wake it, and its state, where that pays.
    fn write_row(&mut self, id: RunId, job: &mut PendingTransaction) {
        let interval = self.options.snapshot_events;
        let Some(hot) = self.state.hot.get_mut(id) else { return };
        let Residency::Here(run) = &hot.run else { return };
        let units = run.unit_count();
        let mut wakes = Vec::new();
        let mut is_local = false;
        let (timers, ready) = (&self.state.timers, &self.state.ready);
        let mut add = |unit: Option<UnitRef>| {
            let timer = timers.get(id, unit);
            let ready = unit.and_then(|unit| ready.get(id, unit)).cloned();
            if timer.is_some() || ready.is_some() {
                let (step, item) = unit_columns(unit);
                wakes.push(ParkedWake { step, item, timer, ready });
            }
        };
        run.each_unit(|_, state| is_local |= is_executed_locally(&state.state));
        let replaced = if let Some(unsaved) = &hot.unsaved {
            unsaved.iter().for_each(|unit| add(*unit));
            ReplacedWakes::Of(unsaved.iter().map(|unit| unit_columns(*unit)).collect())
        } else {
            add(None);
            run.each_unit(|unit, _| add(Some(unit)));
            ReplacedWakes::All { wakes: hot.has_wakes, leases: hot.has_leases }
        };
        let slot = match &run.slot {
            Slot::Unlimited => None,
            Slot::Taken(limit) => Some((StoredSlot::Has(limit.clone()), None)),
            Slot::Wanted(limit) => {
                let since = self.state.slots.wanted_since(id);
                since.map(|since| (StoredSlot::Wants(limit.clone(), run.priority), Some(since)))
            }
        };
        let (seq, has_wakes) = (run.seq, hot.unsaved.is_some() || !wakes.is_empty());
        let is_due = (seq - hot.snapshot_seq) * 4 >= interval.max(units as u64);
        // What cannot be kept is made again from the history.
        let snapshot = is_due.then(|| write_snapshot(run)).and_then(Result::ok);
        let has_snapshot = snapshot.is_some();
        job.rows.push(Row {
            run: id,
            flow: hot.flow.clone(),
            summary: RunSummary::of(run),
            before: hot.row,
            head: hot.head,
            slot,
            is_local,
            replaced,
            wakes,
            snapshot,
        });
        job.fresh.push((id, None));
        if has_snapshot {
            hot.snapshot_seq = seq;
        }
        hot.row = Some(run.state());
        hot.is_saved = true;
        hot.behind_since = None;
        hot.has_wakes = has_wakes;
        hot.has_leases = false;
        hot.note_changes(units > self.options.many_units);
    }
}

/// Returns whether an executor of this process has the attempt: it is lost when the process ends.
fn is_executed_locally(state: &UnitState) -> bool {
    state.live().is_some_and(|live| match &live.doing {
        AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } => worker.local,
        AttemptPhase::Child { .. } => false,
    })
}

fn duplicate_payload(id: PayloadId) -> StoreError {
    StoreError::Conflict(format!("payload {id} already exists: a payload is written once"))
}

/// Builds the error of a change that does not fit the state of a run.
pub(crate) fn conflict(run: RunId, what: &str) -> StoreError {
    StoreError::Conflict(format!("{run} {what}"))
}

/// Lists what becomes of the open errors of a run. Where a single one is resolved and none is left, there was no other.
fn list_open_error_changes(
    run: &Run,
    open_errors: Vec<(UnitRef, Option<OpenError>)>,
) -> impl Iterator<Item = OpenErrorChange> + use<> {
    let was_only = open_errors.len() == 1 && !run.attention().error;
    let id = run.id;
    open_errors.into_iter().map(move |(unit, error)| {
        let is_only = was_only && error.is_none();
        OpenErrorChange { run: id, unit, error, is_only }
    })
}
