//! What would wake a run once the store is opened: its rows, what the log has changed since, and leases that have moved.

use std::collections::BTreeMap;

use rusqlite::Connection;
use unstuck_core::decide::unit_name;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::{Flow, StepIx};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_core::wakeup::{Ready, Wakeup, first_limit, slot_use, wakeups};
use unstuck_store::audit::{Finding, Promise};
use unstuck_store::contract::StoreError;
use unstuck_store::timers::Timer;

use crate::error::store_error;
use crate::record::{KeptSlot, Wake, Wakes, read};
use crate::writer::number;

/// What to do where the data is whole and the waking of a run is not.
const WAKE_AGAIN: &str =
    "pause and unpause the run, or cancel it; keep a copy of the store and report this as a defect";

/// What is kept of a run's wakeups and its slot.
#[derive(Debug, Default)]
pub(crate) struct KeptWakes {
    places: BTreeMap<Option<UnitRef>, Kept>,
    slot: KeptSlot,
}

/// What would wake one place.
#[derive(Debug, Default)]
struct Kept {
    ready: Option<Ready>,
    timer: Option<Timer>,
}

impl KeptWakes {
    /// What the rows have.
    pub(crate) fn of_rows(
        connection: &Connection,
        run: RunId,
        slot: Option<&str>,
    ) -> Result<KeptWakes, StoreError> {
        let sql = "SELECT step, item, due, planned, heard, ready FROM wake WHERE run = ?1";
        let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
        let mut found = statement.query([number(run.0)?]).map_err(store_error)?;
        let mut kept = KeptWakes::default();
        while let Some(row) = found.next().map_err(store_error)? {
            let unit = unit(row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?);
            let time = |place: usize| row.get::<_, Option<i64>>(place).map_err(store_error);
            let (due, set, heard) = (time(2)?, time(3)?, time(4)?.map(Time));
            let timer = due.zip(set).map(|(due, set)| Timer { due: Time(due), set: Time(set), heard });
            let ready: Option<String> = row.get(5).map_err(store_error)?;
            let ready = ready.map(|ready| read(&ready, "a queue entry")).transpose()?;
            kept.places.insert(unit, Kept { ready, timer });
        }
        if let Some(slot) = slot {
            let (slot, _): (KeptSlot, Option<Time>) = read(slot, "a slot")?;
            kept.slot = slot;
        }
        Ok(kept)
    }

    /// What one event of the log has changed. A timer that is set to the same time again is the same.
    pub(crate) fn change(&mut self, wakes: Wakes) {
        let mut before = if wakes.replaces_all { std::mem::take(&mut self.places) } else { BTreeMap::new() };
        for (unit, Wakeup { ready, due }) in wakes.list.into_iter().map(Wake::wakeup) {
            let old = before.remove(&unit).or_else(|| self.places.remove(&unit)).and_then(|old| old.timer);
            let timer = due
                .map(|due| old.filter(|old| old.set == due).unwrap_or(Timer { due, set: due, heard: None }));
            if ready.is_some() || timer.is_some() {
                self.places.insert(unit, Kept { ready, timer });
            }
        }
        self.slot = wakes.slot;
    }

    /// Signs of life have moved leases since. One of an attempt that has ended is over.
    pub(crate) fn move_leases(&mut self, connection: &Connection, run: RunId) -> Result<(), StoreError> {
        let sql = "SELECT step, item, due, planned, heard FROM lease WHERE run = ?1";
        let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
        let mut found = statement.query([number(run.0)?]).map_err(store_error)?;
        while let Some(row) = found.next().map_err(store_error)? {
            let number = |place: usize| row.get::<_, i64>(place).map_err(store_error);
            let kept = self.places.get_mut(&unit(number(0)?, number(1)?));
            let planned = Time(number(3)?);
            if let Some(timer) =
                kept.and_then(|kept| kept.timer.as_mut()).filter(|timer| timer.set == planned)
            {
                timer.due = Time(number(2)?);
                timer.heard = timer.heard.max(Some(Time(number(4)?)));
            }
        }
        Ok(())
    }

    /// Compares with what the state of the run asks for.
    pub(crate) fn compare(&self, run: &Run, flow: &Flow, findings: &mut Vec<Finding>) {
        let wanted: BTreeMap<_, _> = wakeups(run, flow).into_iter().collect();
        let mut add = |what: String| {
            findings.push(Finding::new(Promise::Wakeup, run.id.to_string(), what, WAKE_AGAIN));
        };
        for (unit, wakeup) in &wanted {
            let kept = self.places.get(unit).map(Kept::wakeup).unwrap_or_default();
            if kept != *wakeup {
                add(format!("{} needs {}, and {} is kept", name(flow, *unit), shown(wakeup), shown(&kept)));
            }
        }
        for (unit, kept) in &self.places {
            if !wanted.contains_key(unit) {
                add(format!(
                    "{} is kept for {}, which needs nothing",
                    shown(&kept.wakeup()),
                    name(flow, *unit)
                ));
            } else if let Some(timer) =
                kept.timer.filter(|timer| Some(timer.due) != moved(run, flow, *unit, *timer))
            {
                let Timer { due, set, .. } = timer;
                add(format!("the timer of {} was set to {set} and stands at {due}", name(flow, *unit)));
            }
        }
        let slot = KeptSlot::of(&slot_use(run, flow));
        if self.slot != slot {
            add(format!("of its limit it has or wants {slot:?}, and {:?} is kept", self.slot));
        }
    }
}

impl Kept {
    /// What was planned, signs of life apart.
    fn wakeup(&self) -> Wakeup {
        Wakeup { ready: self.ready.clone(), due: self.timer.map(|timer| timer.set) }
    }
}

/// When a timer is due after the sign of life that it was moved by.
fn moved(run: &Run, flow: &Flow, unit: Option<UnitRef>, timer: Timer) -> Option<Time> {
    let Some(heard) = timer.heard else { return Some(timer.set) };
    let unit = unit?;
    let live = run.unit(unit)?.state.live()?;
    first_limit(flow.step(unit.step), live, Some(heard)).map(|(due, _)| due)
}

/// The unit that a row names.
fn unit(step: i64, item: i64) -> Option<UnitRef> {
    u16::try_from(step).ok().map(|step| UnitRef { step: StepIx(step), item: u32::try_from(item).ok() })
}

fn name(flow: &Flow, unit: Option<UnitRef>) -> String {
    unit.map_or_else(|| "the run".to_owned(), |unit| format!("step `{}`", unit_name(flow, unit)))
}

fn shown(wakeup: &Wakeup) -> String {
    match (&wakeup.ready, wakeup.due) {
        (None, None) => "nothing".to_owned(),
        (None, Some(due)) => format!("a timer at {due}"),
        (Some(ready), None) => format!("an entry in queue `{}`", ready.queue),
        (Some(ready), Some(due)) => format!("an entry in queue `{}` until {due}", ready.queue),
    }
}
