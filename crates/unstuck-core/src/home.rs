//! Homes: a run that a command drives is executed by that command alone, and is idle while nobody drives it.

use std::sync::Arc;

use crate::model::run::{Phase, Run, RunState, Slot};
use crate::model::unit::{AttemptPhase, LiveAttempt, Unit, UnitState};

/// The homes that an engine drives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes(Vec<Arc<str>>);

impl Homes {
    /// This one, or none.
    pub fn of(home: Option<Arc<str>>) -> Homes {
        Homes(home.into_iter().collect())
    }

    /// Whether the run goes on where these homes are driven. A run without a home goes on wherever its store is served.
    pub fn executes(&self, run: &Run) -> bool {
        run.home.as_ref().is_none_or(|home| self.0.contains(home))
    }
}

/// Whether a run is idle where these homes are driven: it has something to do, and nobody does it. One that only waits
/// for a person is not idle, nor is one that is paused.
pub fn is_idle(run: &Run, homes: &Homes) -> bool {
    !homes.executes(run) && has_work(run)
}

fn has_work(run: &Run) -> bool {
    match &run.phase {
        Phase::Ended(_) => return false,
        Phase::Failing(failing) => {
            let rests = |state| matches!(state, RunState::Held | RunState::Error | RunState::Paused);
            let handler_rests = failing.handler.as_ref().is_some_and(|handler| rests(handler.state));
            return run.paused.is_none() && !handler_rests;
        }
        Phase::Going => {}
    }
    let wants_slot = matches!(run.slot, Slot::Wanted(_)) && run.state() == RunState::Queued;
    run.paused.is_none() && (wants_slot || !run.units_where(unit_has_work).is_empty())
}

fn unit_has_work(unit: &Unit) -> bool {
    match &unit.state {
        UnitState::Ready(_) | UnitState::Waiting(_) | UnitState::Error { resume: Some(_), .. } => true,
        UnitState::Active(LiveAttempt { doing: AttemptPhase::Child { state, .. }, .. }) => {
            !matches!(state, RunState::Held | RunState::Error | RunState::Paused)
        }
        UnitState::Active(_) => true,
        UnitState::Pending
        | UnitState::Held { .. }
        | UnitState::Error { resume: None, .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => false,
    }
}
