//! A clock that was set: recorded with the next batch, and told to runs as they are touched. Runs whose timers then lie too
//! far ahead are looked for.

use unstuck_core::clock::{ClockCorrection, ClockRecord};
use unstuck_core::command::Command;
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;
use unstuck_store::contract::{Store, StoreError};

use super::Engine;
use super::settling::OutstandingBatch;
use crate::batch::{Batch, Deferred, Undecided};
use crate::request::EngineError;

/// A place in the order of all timers.
type Cursor = (Time, RunId, Option<UnitRef>);

/// What an engine knows about its clock.
pub(crate) struct EngineClock {
    pub(crate) record: ClockRecord,
    /// When an engine was last known to live, by its own clock.
    pub(super) last: Option<Time>,
    /// The store does not know all of it yet.
    is_unrecorded: bool,
    /// How far it has come with looking for timers that lie too far ahead.
    sweep: Sweep,
    /// Runs that were set aside, and may have been passed by because of it: they are looked at too.
    returned: Vec<RunId>,
}

/// How far looking for timers that lie too far ahead has come.
#[derive(Clone, Copy, Debug)]
enum Sweep {
    /// There is nothing to look for.
    Over,
    /// It goes on after this one; `None` is the beginning.
    After(Option<Cursor>),
}

/// What a batch has looked at.
#[derive(Clone, Copy, Debug, Default)]
enum SweepResult {
    #[default]
    Nothing,
    UpTo(Cursor),
    All,
}

/// What a batch does about the clock.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockWork {
    /// The store is told how it was set.
    pub(super) is_recorded: bool,
    swept: SweepResult,
    /// How many of those that were set aside it has looked at.
    returned: usize,
}

/// Timers that a batch looks at, and what it has done about the clock then.
#[derive(Debug, Default)]
pub(super) struct SweepPage {
    runs: Vec<RunId>,
    /// Whether what is no run is looked at too.
    corrects_things: bool,
    work: ClockWork,
}

impl SweepPage {
    pub(super) fn runs(&self) -> impl Iterator<Item = RunId> {
        self.runs.iter().copied()
    }
}

impl EngineClock {
    pub(super) fn open(store: &mut impl Store) -> Result<EngineClock, StoreError> {
        let record = store.clock()?;
        let sweep = if record.needs_sweep { Sweep::After(None) } else { Sweep::Over };
        let last = last_alive(store, &record)?;
        Ok(EngineClock { record, last, is_unrecorded: false, sweep, returned: Vec::new() })
    }

    /// What the store is to be told, if anything.
    pub(super) fn unrecorded(&self) -> Option<ClockRecord> {
        self.is_unrecorded.then(|| self.record.clone())
    }

    /// Whether there is something to do about it at once.
    pub(super) fn has_work(&self) -> bool {
        self.is_unrecorded || matches!(self.sweep, Sweep::After(_)) || !self.returned.is_empty()
    }

    /// A run that was set aside is no longer.
    pub(super) fn add_returned_run(&mut self, run: RunId) {
        if self.record.needs_sweep {
            self.returned.push(run);
        }
    }

    /// A batch is staged. While a run `is_aside`, whoever opens the store next must look again.
    pub(super) fn staged(&mut self, work: &ClockWork, is_aside: bool) {
        self.is_unrecorded &= !work.is_recorded;
        self.returned.drain(..work.returned);
        match work.swept {
            SweepResult::Nothing => {}
            SweepResult::UpTo(cursor) => self.sweep = Sweep::After(Some(cursor)),
            SweepResult::All => self.sweep = Sweep::Over,
        }
        let is_over = matches!(self.sweep, Sweep::Over) && self.returned.is_empty() && !is_aside;
        if self.record.needs_sweep && is_over {
            self.record.needs_sweep = false;
            self.is_unrecorded = true;
        }
    }

    /// A batch is lost, and with it what it has done.
    pub(super) fn undo_work(&mut self, work: &ClockWork) {
        self.is_unrecorded |= work.is_recorded;
        if !matches!(work.swept, SweepResult::Nothing) || work.returned > 0 {
            (self.record.needs_sweep, self.is_unrecorded) = (true, true);
        }
        if self.record.needs_sweep {
            self.restart_sweep();
        }
    }

    /// Looks at every timer again, from the beginning.
    fn restart_sweep(&mut self) {
        self.sweep = Sweep::After(None);
        self.returned.clear();
    }
}

/// When an engine was last alive, by the clock as the store knows it. A power cut may have brought back an old time of the
/// lock file, from before the clock was set back: then the last batch is believed.
pub(crate) fn last_alive(store: &mut impl Store, record: &ClockRecord) -> Result<Option<Time>, StoreError> {
    let (seen, last) = (store.last_seen()?, store.last_time()?);
    let is_stale = |seen: Time| record.corrections.iter().any(|set| seen > set.to && seen <= set.from);
    Ok(seen.filter(|seen| last == Some(*seen) || !is_stale(*seen)).or(last))
}

impl<S: Store> Engine<S> {
    /// Somebody has set the clock: durations go on at their own pace, and instants are the wall's.
    pub fn record_correction(&mut self, correction: ClockCorrection) {
        // A batch that was a little ahead of the clock is not undone.
        let correction = ClockCorrection { from: correction.from.max(self.last), ..correction };
        let by = correction.shift();
        tracing::info!(by_ms = by, "the clock was set");
        self.session.correct_own_clock(by);
        self.schedules_to_follow_again();
        self.aside.correct_clock(by);
        (self.last, self.now) = (correction.to, correction.to);
        self.retry_at = self.retry_at.map(|at| at.shifted(by));
        for batch in &mut self.under_way {
            batch.plan.wants.now = batch.plan.wants.now.shifted(by);
        }
        if self.session.store_time.is_some() {
            // What is recorded goes by the clock of the store, and that was not set.
            self.ahead = self.ahead.map(|ahead| ahead.saturating_sub(by));
            return;
        }
        self.clock.record.record_correction(correction);
        self.clock.is_unrecorded = true;
        if self.clock.record.needs_sweep {
            self.clock.restart_sweep();
        }
        self.session.correct_clock(by);
        // Nobody knows how long ago the last turn was by the clock as it is now: the next one comes after a wait.
        self.turns.restart(self.turns.is_elsewhere());
    }

    /// What is no run takes in what the clock was set by, due or not: there is not much of it.
    fn correct_things(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        let things: Vec<ThingRef> = self.store.things()?.iter().map(Thing::address).collect();
        batch.lock_things(&mut self.batch_context(), &things)?;
        for thing in things {
            match thing {
                // A schedule goes by the clock on the wall.
                ThingRef::Run(_) | ThingRef::Schedule(_) => {}
                ThingRef::Bulk(bulk) => drop(batch.next_targets_of(&self.batch_context(), bulk, 0)),
            }
        }
        Ok(())
    }

    /// Finds a page of timers, due or not, and runs that have returned, for the next batch to look at.
    pub(super) fn find_old_timers(&mut self, limit: usize) -> Result<SweepPage, StoreError> {
        let mut runs: Vec<RunId> = self.clock.returned.iter().take(limit).copied().collect();
        let mut work = ClockWork { returned: runs.len(), ..ClockWork::default() };
        let mut corrects_things = false;
        if let Sweep::After(cursor) = self.clock.sweep {
            let page = self.store.timers(cursor, limit)?;
            work.swept = page
                .last()
                .map_or(SweepResult::All, |timer| SweepResult::UpTo((timer.due, timer.run, timer.unit)));
            runs.extend(page.iter().map(|timer| timer.run));
            corrects_things = cursor.is_none();
        }
        runs.retain(|run| !self.is_set_aside(*run));
        runs.sort_unstable();
        runs.dedup();
        Ok(SweepPage { runs, corrects_things, work })
    }

    /// Looks at these: they take in what the clock was set by, and their timers move to their places.
    pub(super) fn sweep_clock(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        page: &SweepPage,
    ) -> Result<(), StoreError> {
        if page.corrects_things {
            self.correct_things(batch)?;
        }
        done.clock = page.work.clone();
        if batch.has_busy_runs() {
            // Whoever somebody else has now is looked at again.
            done.clock = ClockWork::default();
        }
        for run in &page.runs {
            self.decide_sweep(batch, done, *run)?;
        }
        batch.deliver_all(&mut self.batch_context())
    }

    pub(super) fn decide_sweep(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        run: RunId,
    ) -> Result<(), StoreError> {
        let mut tools = self.batch_context();
        if !batch.has_old_clock(run, tools.clock) {
            return Ok(());
        }
        let command = Command::Due { unit: None, heard: None };
        match batch.decide(&mut tools, run, command, None) {
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Err(Undecided::Lacking) if !batch.defer(Deferred::Sweep(run)) => {
                done.clock = ClockWork::default();
            }
            Ok(_) | Err(Undecided::Busy | Undecided::Aside | Undecided::Lacking | Undecided::Error(_)) => {}
        }
        Ok(())
    }
}
