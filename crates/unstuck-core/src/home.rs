//! Homes: a run with a home is executed only by the command that drives this home, and is idle while none does.

use std::sync::Arc;

use crate::model::run::{Phase, Run, RunState, Slot};
use crate::model::unit::{AttemptPhase, LiveAttempt, Unit, UnitState};

/// The homes that an engine drives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    homes: Vec<Arc<str>>,
    /// Whether nobody executes runs without a home.
    is_unserved: bool,
}

impl Homes {
    /// Builds the set of one home, or of none.
    pub fn of(home: Option<Arc<str>>) -> Homes {
        Homes { homes: home.into_iter().collect(), is_unserved: false }
    }

    /// The same on a store without a server, where runs without a home are executed by nobody.
    #[must_use]
    pub fn unserved(self) -> Homes {
        Homes { is_unserved: true, ..self }
    }

    /// Returns whether an engine with these homes executes the run. A run without a home is executed by a server of
    /// its store.
    pub fn executes(&self, run: &Run) -> bool {
        self.drives(run.home.as_ref())
    }

    /// Returns whether an engine with these homes executes what has this home.
    pub fn drives(&self, home: Option<&Arc<str>>) -> bool {
        home.map_or(!self.is_unserved, |home| self.homes.contains(home))
    }
}

/// Returns whether a run has work that no engine with these homes executes. A run that is paused or needs an operator
/// has no work.
pub fn is_idle(run: &Run, homes: &Homes) -> bool {
    !homes.executes(run) && run_has_work(run)
}

/// Returns whether a run would advance without an operator if it were executed.
pub(crate) fn run_has_work(run: &Run) -> bool {
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

/// Returns whether a unit would advance without an operator if its run were executed.
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
