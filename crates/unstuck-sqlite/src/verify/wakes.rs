//! What would wake a run once the store is opened: its rows, what the log has changed since, and leases that have moved.

use std::collections::BTreeMap;

use rusqlite::Row;
use unstuck_core::decide::unit_name;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::slot::slot_claim;
use unstuck_core::time::Time;
use unstuck_core::wakeup::{ReadyAttempt, Wakeup, first_limit, wakeups};
use unstuck_store::contract::StoreError;
use unstuck_store::timers::Timer;
use unstuck_store::verify::{Finding, Promise};

use crate::error::store_error;
use crate::log_entry::{StoredSlot, StoredWakeup, StoredWakeups, from_text};
use crate::table::wake::WakeRow;
use crate::table::wake::unit_from_columns;

/// What to do where the data is whole and the waking of a run is not.
const WAKE_AGAIN: &str =
    "pause and unpause the run, or cancel it; keep a copy of the store and report this as a bug";

/// What is kept of a run's wakeups and its slot.
#[derive(Debug, Default)]
pub(crate) struct StoredWakeRows {
    places: BTreeMap<Option<UnitRef>, StoredWakeRow>,
    slot: StoredSlot,
}

/// What would wake one place.
#[derive(Debug, Default)]
struct StoredWakeRow {
    ready: Option<ReadyAttempt>,
    timer: Option<Timer>,
}

/// A lease that a sign of life has moved.
pub(crate) struct LeaseRow {
    unit: Option<UnitRef>,
    due: Time,
    planned: Time,
    heard: Time,
}

impl LeaseRow {
    pub(crate) const COLUMNS: &str = "run, step, item, due, planned, heard";

    pub(crate) fn read(row: &Row<'_>) -> Result<LeaseRow, StoreError> {
        let number = |place: usize| row.get::<_, i64>(place).map_err(store_error);
        let unit = unit_from_columns(number(1)?, number(2)?);
        Ok(LeaseRow { unit, due: Time(number(3)?), planned: Time(number(4)?), heard: Time(number(5)?) })
    }
}

impl StoredWakeRows {
    /// Collects the wakeups that the rows of a parked run have.
    pub(crate) fn of_rows(rows: Vec<WakeRow>, slot: Option<&str>) -> Result<StoredWakeRows, StoreError> {
        let mut kept = StoredWakeRows::default();
        for WakeRow { unit, timer, ready, .. } in rows {
            kept.places.insert(unit, StoredWakeRow { ready, timer });
        }
        if let Some(slot) = slot {
            let (slot, _): (StoredSlot, Option<Time>) = from_text(slot, "a slot")?;
            kept.slot = slot;
        }
        Ok(kept)
    }

    /// Applies the wakeups of an event after the row. A timer set to the same time again keeps its lease.
    pub(crate) fn change(&mut self, wakes: StoredWakeups) {
        let mut before = if wakes.replaces_all { std::mem::take(&mut self.places) } else { BTreeMap::new() };
        for (unit, Wakeup { ready, due }) in wakes.list.into_iter().map(StoredWakeup::wakeup) {
            let old = before.remove(&unit).or_else(|| self.places.remove(&unit)).and_then(|old| old.timer);
            let timer = due
                .map(|due| old.filter(|old| old.set == due).unwrap_or(Timer { due, set: due, heard: None }));
            if ready.is_some() || timer.is_some() {
                self.places.insert(unit, StoredWakeRow { ready, timer });
            }
        }
        self.slot = wakes.slot;
    }

    /// Applies lease rows, which heartbeats write. A lease of an attempt that has ended since is ignored.
    pub(crate) fn move_leases(&mut self, leases: Vec<LeaseRow>) {
        for LeaseRow { unit, due, planned, heard } in leases {
            let timer = self.places.get_mut(&unit).and_then(|kept| kept.timer.as_mut());
            if let Some(timer) = timer.filter(|timer| timer.set == planned) {
                timer.due = due;
                timer.heard = timer.heard.max(Some(heard));
            }
        }
    }

    /// Compares the stored wakeups with those that the state of the run needs.
    pub(crate) fn compare(&self, run: &Run, flow: &Flow, findings: &mut Vec<Finding>) {
        let wanted: BTreeMap<_, _> = wakeups(run, flow).into_iter().collect();
        let mut add = |what: String| {
            findings.push(Finding::new(Promise::Wakeup, run.id.to_string(), what, WAKE_AGAIN));
        };
        for (unit, wakeup) in &wanted {
            let kept = self.places.get(unit).map(StoredWakeRow::wakeup).unwrap_or_default();
            if kept != *wakeup {
                add(format!(
                    "{} needs {}, but {} is stored",
                    place_name(flow, *unit),
                    describe_wakeup(wakeup),
                    describe_wakeup(&kept)
                ));
            }
        }
        for (unit, kept) in &self.places {
            if !wanted.contains_key(unit) {
                add(format!(
                    "{} is stored for {}, which needs nothing",
                    describe_wakeup(&kept.wakeup()),
                    place_name(flow, *unit)
                ));
            } else if let Some(timer) =
                kept.timer.filter(|timer| Some(timer.due) != moved_due(run, flow, *unit, *timer))
            {
                let Timer { due, set, .. } = timer;
                add(format!("the timer of {} was set to {set} but is at {due}", place_name(flow, *unit)));
            }
        }
        let slot = StoredSlot::of(&slot_claim(run, flow));
        if self.slot != slot {
            add(format!("its use of its limit is {slot:?}, but {:?} is stored", self.slot));
        }
    }
}

impl StoredWakeRow {
    /// Returns the wakeup as planned, without what heartbeats have moved.
    fn wakeup(&self) -> Wakeup {
        Wakeup { ready: self.ready.clone(), due: self.timer.map(|timer| timer.set) }
    }
}

/// When a timer is due after the sign of life that it was moved by.
fn moved_due(run: &Run, flow: &Flow, unit: Option<UnitRef>, timer: Timer) -> Option<Time> {
    let Some(heard) = timer.heard else { return Some(timer.set) };
    let unit = unit?;
    let live = run.unit(unit)?.state.live()?;
    first_limit(flow.step(unit.step), live, Some(heard)).map(|(due, _)| due)
}

fn place_name(flow: &Flow, unit: Option<UnitRef>) -> String {
    unit.map_or_else(|| "the run".to_owned(), |unit| format!("step `{}`", unit_name(flow, unit)))
}

fn describe_wakeup(wakeup: &Wakeup) -> String {
    match (&wakeup.ready, wakeup.due) {
        (None, None) => "nothing".to_owned(),
        (None, Some(due)) => format!("a timer at {due}"),
        (Some(ready), None) => format!("an entry in queue `{}`", ready.queue),
        (Some(ready), Some(due)) => format!("an entry in queue `{}` until {due}", ready.queue),
    }
}
