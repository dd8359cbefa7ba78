//! What a kind of run decides by itself: which unit begins next and with what input, and when the run is done.
//!
//! All else in the core, from budgets and the recovery ladder to timers, signals and explanations, works on units and asks
//! here. Another kind of run is a variant of [`RunKind`], a module that implements [`Interpreter`], and a line in
//! [`interpreter`].

use crate::begin_attempt::begin_ready_units_without_worker;
use crate::command::Rerun;
use crate::decide::Draft;
use crate::decide::signal::{deliver_signals, kept_signal};
use crate::graph::Graph;
use crate::model::flow::{Flow, RunKind, StepIndex};
use crate::model::run::Run;
use crate::model::unit::UnitRef;
use crate::needs::PayloadNeeds;

#[cfg(test)]
mod plan;

/// A kind of run. What changes a run is only called while the run may schedule.
pub(crate) trait Interpreter {
    /// Begins every unit that may begin now, and completes the run when all is done.
    fn advance_all(&self, draft: &mut Draft<'_, '_>);

    /// Goes on after a unit of this step has changed.
    fn advance_after(&self, draft: &mut Draft<'_, '_>, step: StepIndex);

    /// Gives a unit what its next attempt needs, or decides that there is none.
    fn prepare(&self, draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<Prepared, String>;

    /// The input of the run has changed: gives a unit its input again, where that follows from the run's.
    fn rebind_input(&self, draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<(), String>;

    /// Whether the run could do something that no unit's state shows: begin a unit, complete.
    fn has_runnable_steps(&self, run: &Run, flow: &Flow) -> bool;

    /// The steps that a pending one waits for; none for one that is reached.
    fn missing_steps(&self, run: &Run, flow: &Flow, step: StepIndex) -> Vec<StepIndex>;

    /// The steps whose results the next generation keeps.
    fn kept_steps(&self, run: &Run, flow: &Flow, what: &Rerun) -> Vec<StepIndex>;

    /// What may be read by a decision after which units of these steps may have changed.
    fn add_needs(&self, needs: &mut PayloadNeeds, run: &Run, flow: &Flow, steps: Vec<StepIndex>);
}

/// What becomes of a unit that was to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// It has its input, and an attempt is next.
    ForAttempt,
    /// Something else has been decided about it: it is left out, or is more than one unit.
    Otherwise,
}

/// The interpreter of this flow's runs.
#[inline]
pub(crate) fn interpreter(flow: &Flow) -> &'static dyn Interpreter {
    match flow.kind {
        RunKind::Graph => &Graph,
        #[cfg(test)]
        RunKind::Plan => &plan::Plan,
    }
}

/// Begins whatever may begin now, and completes the run when all is done.
pub(crate) fn advance_all(draft: &mut Draft<'_, '_>) {
    if draft.run().can_schedule() {
        deliver_signals(draft);
        begin_ready_units_without_worker(draft);
        interpreter(draft.flow()).advance_all(draft);
    }
}

/// Goes on after a unit of this step has changed.
pub(crate) fn advance_after(draft: &mut Draft<'_, '_>, step: StepIndex) {
    if draft.run().can_schedule() {
        interpreter(draft.flow()).advance_after(draft, step);
    }
}

/// Whether the run could do something that no unit's state shows.
pub(crate) fn has_runnable_steps(run: &Run, flow: &Flow) -> bool {
    interpreter(flow).has_runnable_steps(run, flow)
        || !run.signals.is_empty() && !run.units_where(|unit| kept_signal(run, unit).is_some()).is_empty()
}
