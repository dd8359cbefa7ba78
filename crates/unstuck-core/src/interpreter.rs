//! The interface of a kind of run: which unit begins next and with what input, and when the run is done.
//!
//! Everything else in the core, from budgets and the recovery ladder to timers, signals and explanations, works on
//! units and asks here. Another kind of run is a variant of [`RunKind`], a module that implements [`Interpreter`], and
//! a line in [`interpreter`].

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

/// A kind of run. The methods that change a run are called only while the run may schedule.
pub(crate) trait Interpreter {
    /// Begins every unit that may begin now, and completes the run once all are done.
    fn advance_all(&self, draft: &mut Draft<'_, '_>);

    /// Advances the run after a unit of this step has changed.
    fn advance_after(&self, draft: &mut Draft<'_, '_>, step: StepIndex);

    /// Prepares a unit for its next attempt, or decides that it needs none.
    fn prepare(&self, draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<Prepared, String>;

    /// Computes the input of a unit again after the input of the run has changed.
    fn rebind_input(&self, draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<(), String>;

    /// Returns whether the run could begin a unit or complete, which no unit's state shows.
    fn has_runnable_steps(&self, run: &Run, flow: &Flow) -> bool;

    /// Lists the steps that a pending step waits for; none once it can begin.
    fn missing_steps(&self, run: &Run, flow: &Flow, step: StepIndex) -> Vec<StepIndex>;

    /// Lists the steps whose results the next generation keeps.
    fn kept_steps(&self, run: &Run, flow: &Flow, what: &Rerun) -> Vec<StepIndex>;

    /// Adds the payloads that a decision may read which changes units of these steps.
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

/// Returns the interpreter of this flow's runs.
#[inline]
pub(crate) fn interpreter(flow: &Flow) -> &'static dyn Interpreter {
    match flow.kind {
        RunKind::Graph => &Graph,
        #[cfg(test)]
        RunKind::Plan => &plan::Plan,
    }
}

/// Delivers signals, begins whatever may begin now, and completes the run once all is done. Does nothing while the run
/// may not schedule.
pub(crate) fn advance_all(draft: &mut Draft<'_, '_>) {
    if draft.run().can_schedule() {
        deliver_signals(draft);
        begin_ready_units_without_worker(draft);
        interpreter(draft.flow()).advance_all(draft);
    }
}

/// Advances the run after a unit of this step has changed. Does nothing while the run may not schedule.
pub(crate) fn advance_after(draft: &mut Draft<'_, '_>, step: StepIndex) {
    if draft.run().can_schedule() {
        interpreter(draft.flow()).advance_after(draft, step);
    }
}

/// Returns whether the run could begin a unit, deliver a signal or complete, which no unit's state shows.
pub(crate) fn has_runnable_steps(run: &Run, flow: &Flow) -> bool {
    interpreter(flow).has_runnable_steps(run, flow)
        || !run.signals.is_empty() && !run.units_where(|unit| kept_signal(run, unit).is_some()).is_empty()
}
