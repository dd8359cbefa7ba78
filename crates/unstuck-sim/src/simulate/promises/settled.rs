//! When faults have stopped and everybody does their part, every run ends, or rests where a person is shown it.

use std::collections::BTreeMap;

use unstuck_core::id::RunId;
use unstuck_core::model::run::{Run, RunState, Slot};
use unstuck_core::model::unit::{UnitState, Waiting};
use unstuck_core::time::Time;
use unstuck_engine::flows::Flows;
use unstuck_store::contract::Store;

use super::run_record::RunRecord;
use super::{Broken, CheckError, Promise};

/// Looks at every run once nothing more is to come by itself.
pub(super) fn check(
    store: &mut dyn Store,
    _: &mut Flows,
    books: &BTreeMap<RunId, RunRecord>,
    now: Time,
) -> Result<(), CheckError> {
    let mut strict = false;
    let mut runs = Vec::new();
    for id in books.keys() {
        let Some(run) = store.run(*id)? else { continue };
        strict |= matches!(&run.slot, Slot::Taken(limit) if limit.strict && !run.is_final());
        runs.push(run);
    }
    for run in runs {
        if !may_rest(&run, strict, now) {
            let what =
                format!("everything has settled, and it is {} at event {}", run.state().word(), run.seq);
            return Err(Broken::of(Promise::Moved, run.id, what).into());
        }
    }
    Ok(())
}

/// Whether a run may be as it is when nothing more comes by itself.
fn may_rest(run: &Run, strict: bool, now: Time) -> bool {
    match run.state() {
        RunState::Completed
        | RunState::Failed
        | RunState::Cancelled
        | RunState::Superseded
        | RunState::Held
        | RunState::Error
        | RunState::Paused => true,
        RunState::Running => false,
        // A run that rests in error or held may keep what this one waits for.
        RunState::Queued => strict,
        RunState::Waiting => {
            let waits = run.units_where(|unit| match &unit.state {
                UnitState::Waiting(Waiting::Signal { .. }) | UnitState::Active(_) => true,
                UnitState::Waiting(Waiting::Again { due, .. } | Waiting::Timer { due, .. }) => *due > now,
                _ => false,
            });
            !waits.is_empty()
        }
    }
}
