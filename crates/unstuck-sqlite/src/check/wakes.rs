//! What would wake a run once the store is opened: its rows, and what the log has changed since.

use std::collections::BTreeMap;

use rusqlite::Connection;
use unstuck_core::decide::unit_name;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::{Flow, StepIx};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_core::wakeup::{Wakeup, slot_use, wakeups};
use unstuck_store::audit::{Finding, Promise};
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::record::{KeptSlot, Wake, Wakes, read};
use crate::writer::number;

/// What to do where the data is whole and the waking of a run is not.
const WAKE_AGAIN: &str =
    "pause and unpause the run, or cancel it; keep a copy of the store and report this as a defect";

/// What is kept of a run's wakeups and its slot.
#[derive(Debug, Default)]
pub(crate) struct KeptWakes {
    places: BTreeMap<Option<UnitRef>, Wakeup>,
    slot: KeptSlot,
}

impl KeptWakes {
    /// What the rows have. Signs of life may have moved a lease since; it is what was planned that counts here.
    pub(crate) fn of_rows(
        connection: &Connection,
        run: RunId,
        slot: Option<&str>,
    ) -> Result<KeptWakes, StoreError> {
        let sql = "SELECT step, item, planned, ready FROM wake WHERE run = ?1";
        let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
        let mut found = statement.query([number(run.0)?]).map_err(store_error)?;
        let mut kept = KeptWakes::default();
        while let Some(row) = found.next().map_err(store_error)? {
            let unit = unit(row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?);
            let due: Option<i64> = row.get(2).map_err(store_error)?;
            let ready: Option<String> = row.get(3).map_err(store_error)?;
            let ready = ready.map(|ready| read(&ready, "a queue entry")).transpose()?;
            kept.places.insert(unit, Wakeup { ready, due: due.map(Time) });
        }
        if let Some(slot) = slot {
            let (slot, _): (KeptSlot, Option<Time>) = read(slot, "a slot")?;
            kept.slot = slot;
        }
        Ok(kept)
    }

    /// What one event of the log has changed.
    pub(crate) fn change(&mut self, wakes: Wakes) {
        if wakes.replaces_all {
            self.places.clear();
        }
        for (unit, wakeup) in wakes.list.into_iter().map(Wake::wakeup) {
            if wakeup == Wakeup::default() {
                self.places.remove(&unit);
            } else {
                self.places.insert(unit, wakeup);
            }
        }
        self.slot = wakes.slot;
    }

    /// Compares with what the state of the run asks for.
    pub(crate) fn compare(&self, run: &Run, flow: &Flow, findings: &mut Vec<Finding>) {
        let wanted: BTreeMap<_, _> = wakeups(run, flow).into_iter().collect();
        let mut add = |what: String| {
            findings.push(Finding::new(Promise::Wakeup, run.id.to_string(), what, WAKE_AGAIN));
        };
        for (unit, wakeup) in &wanted {
            if self.places.get(unit) != Some(wakeup) {
                let kept = self.places.get(unit).map_or("nothing is kept".to_owned(), shown);
                add(format!("{} needs {}, and {kept}", name(flow, *unit), shown(wakeup)));
            }
        }
        for (unit, wakeup) in self.places.iter().filter(|(unit, _)| !wanted.contains_key(*unit)) {
            add(format!("{} is kept for {}, which needs nothing", shown(wakeup), name(flow, *unit)));
        }
        let slot = KeptSlot::of(&slot_use(run, flow));
        if self.slot != slot {
            add(format!("of its limit it has or wants {slot:?}, and {:?} is kept", self.slot));
        }
    }
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
