//! The state of a run as a store may keep it beside the history, so that a long one need not be replayed. It is a cache:
//! whatever a disk gives back is checked before anything is decided on it, so that damage is a sentence and never a panic.

use crate::model::run::Run;
use crate::model::unit::{ITEMS_PER_PART, Items, Round, StepRun, Unit, UnitCounts};

/// The form of what is kept. A state that was kept in another form is not read but made again from the history; so this
/// is raised whenever a run has other fields, or [`evolve`](crate::evolve) makes something else of a history.
pub const SNAPSHOT_FORMAT: u32 = 3;

/// No unit has ever had so many attempts or rounds.
const MAX_COUNT: u32 = 1 << 31;

/// The state of a run, as it is kept.
pub fn write_snapshot(run: &Run) -> Result<String, String> {
    serde_json::to_string(run).map_err(|error| error.to_string())
}

/// A state that was kept, or what is wrong with it.
pub fn read_snapshot(text: &str) -> Result<Run, String> {
    let run: Run = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check_snapshot(&run).map(|()| run)
}

/// Whether a state that was read can be one of a run, or what is wrong with it.
fn check_snapshot(run: &Run) -> Result<(), String> {
    if run.seq == 0 || run.generation == 0 {
        return Err("it is the state of a run that has not started".to_owned());
    }
    if run.steps.len() > usize::from(u16::MAX) {
        return Err(format!("it has {} steps", run.steps.len()));
    }
    for (place, step) in run.steps.iter().enumerate() {
        let checked = match step {
            StepRun::Single(unit) => check_unit(unit),
            StepRun::Items(items) => check_items(items),
        };
        checked.map_err(|why| format!("step #{place} {why}"))?;
    }
    Ok(())
}

/// Whatever is counted on was counted one by one.
fn check_unit(unit: &Unit) -> Result<(), String> {
    let Round { number, stalled, stuck, losses, deferrals, .. } = unit.round;
    match [unit.attempts, number, stalled, stuck, losses, deferrals].into_iter().max() {
        Some(most @ MAX_COUNT..) => Err(format!("has a count of {most}")),
        Some(_) | None => Ok(()),
    }
}

/// The items are those of the list, and are counted as they are.
fn check_items(items: &Items) -> Result<(), String> {
    let Items { values, total, next, units, in_motion, tally, .. } = items;
    let parts = usize::try_from(*total).unwrap_or(usize::MAX).div_ceil(ITEMS_PER_PART);
    if parts > values.len() {
        return Err(format!("has {total} items, but only {} parts of {ITEMS_PER_PART}", values.len()));
    }
    let last = units.last_key_value().map(|(item, _)| *item);
    if let Some(item) = last.filter(|item| item >= total) {
        return Err(format!("has {total} items, and item {item}"));
    }
    if next > total {
        return Err(format!("has {total} items, and the next is {next}"));
    }
    let (mut counted, mut moving) = (UnitCounts::default(), 0);
    for unit in units.values() {
        check_unit(unit)?;
        counted.add(&unit.state);
        moving += u32::from(unit.state.is_progressing());
    }
    if (counted, moving) != (*tally, *in_motion) {
        return Err("has items that are counted wrongly".to_owned());
    }
    Ok(())
}
