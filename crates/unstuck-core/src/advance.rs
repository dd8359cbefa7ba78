//! The interpreter of a flow's graph: which steps are entered next, how each kind begins, when the run is done.

use crate::begin_attempt::{begin_attempt, begin_units_that_waited, resumed_by_rerun};
use crate::decide::signal::{deliver_signals, kept_signal};
use crate::evaluate::check_payload_size;
use crate::for_each::{can_launch_items, complete_items, launch_items};

use serde_json::{Map, Value};

use crate::decide::Draft;
use crate::event::Fact;
use crate::json::{Json, Payload};
use crate::model::error::{EXPRESSION_ACTION, Error, RunError};
use crate::model::expression::Template;
use crate::model::flow::{Flow, StepIndex};
use crate::model::run::{Phase, Run};
use crate::model::unit::{ItemsEnd, QueuePlace, StepRun, Unit, UnitRef, UnitState};
use crate::recovery::failing_run;

/// Enters every step that may be entered now, and completes the run when all are done.
pub(crate) fn advance_all(draft: &mut Draft<'_, '_>) {
    if draft.run().can_schedule() {
        deliver_signals(draft);
        begin_units_that_waited(draft);
        let all: Vec<StepIndex> = draft.flow().step_indices().collect();
        advance_steps(draft, &all);
    }
}

/// Goes on after this step has changed: its dependents, its further items, the end of the run.
pub(crate) fn advance_after(draft: &mut Draft<'_, '_>, step: StepIndex) {
    if draft.run().can_schedule() {
        advance_steps(draft, &[step]);
    }
}

/// Whether the run could do something that no unit's state shows: enter a step, launch an item, complete.
pub(crate) fn has_runnable_steps(run: &Run, flow: &Flow) -> bool {
    flow.step_indices().any(|step| can_enter_step(run, flow, step) || can_launch_items(run, flow, step))
        || run.steps.iter().all(StepRun::is_final)
        || !run.signals.is_empty() && !run.units_where(|unit| kept_signal(run, unit).is_some()).is_empty()
}

fn can_enter_step(run: &Run, flow: &Flow, step: StepIndex) -> bool {
    matches!(run.step(step), StepRun::Single(Unit { state: UnitState::Pending, .. }))
        && flow.step(step).needs.iter().all(|need| run.step(*need).unblocks_dependents())
}

/// Works through a list of steps: one that is done makes its dependents worth a look. What comes up while it is at it
/// joins the list, so that a long chain needs no deep stack.
fn advance_steps(draft: &mut Draft<'_, '_>, work: &[StepIndex]) {
    draft.work.extend(work.iter().rev());
    if std::mem::replace(&mut draft.is_advancing, true) {
        return;
    }
    while let Some(step) = draft.work.pop() {
        if !draft.run().can_schedule() {
            draft.work.clear();
            break;
        }
        let flow = draft.flow();
        if can_enter_step(draft.run(), flow, step) {
            begin_attempt(draft, UnitRef::step(step), resumed_by_rerun(draft.run()), QueuePlace::default());
        }
        if draft.run().items(step).is_some_and(|items| matches!(items.end, ItemsEnd::Open)) {
            launch_items(draft, step);
            complete_items(draft, step);
        }
        if draft.run().step(step).unblocks_dependents() {
            for dependent in flow.dependents[usize::from(step.0)].iter().rev() {
                if can_enter_step(draft.run(), flow, *dependent) {
                    draft.work.push(*dependent);
                }
            }
        }
    }
    draft.is_advancing = false;
    if draft.run().can_schedule() && draft.run().steps.iter().all(StepRun::is_final) {
        complete_run(draft);
    }
}

fn complete_run(draft: &mut Draft<'_, '_>) {
    match run_output(draft) {
        Ok(output) => draft.emit(Fact::Completed { output }),
        Err(cause) => {
            let error = Error::found_by(EXPRESSION_ACTION, format!("output: {cause}"));
            let last =
                StepIndex(u16::try_from(draft.run().steps.len().saturating_sub(1)).unwrap_or(u16::MAX));
            failing_run::fail_run(draft, RunError::of_run(error), last);
        }
    }
}

/// What the flow says, or else the output of the last step; of several last steps, an object by step id.
fn run_output(draft: &mut Draft<'_, '_>) -> Result<Payload, String> {
    let flow = draft.flow();
    let json = match &flow.output {
        Some(Template::Fixed(json)) => json.clone(),
        Some(Template::Computed(expression)) => {
            let scope = draft.scope(&expression.reads, None)?;
            let value = expression.program.evaluate(&scope);
            check_payload_size(Json::of(
                &value.map_err(|problem| format!("{}: {problem}", expression.source))?,
            ))?
        }
        None => {
            let last: Vec<StepIndex> = last_steps(flow).collect();
            if let [only] = last[..] {
                return Ok(draft.run().step(only).output().cloned().unwrap_or(Payload::NULL));
            }
            let mut object = Map::new();
            for step in last {
                let output = draft
                    .run()
                    .step(step)
                    .output()
                    .map_or(Ok(Json::NULL), |output| draft.payload_json(output))?;
                object.insert(flow.step(step).id.to_string(), output.value());
            }
            check_payload_size(Json::of(&Value::Object(object)))?
        }
    };
    Ok(draft.store_payload(json))
}

/// The steps that no other step needs.
pub(crate) fn last_steps(flow: &Flow) -> impl Iterator<Item = StepIndex> {
    flow.step_indices().filter(|step| flow.dependents[usize::from(step.0)].is_empty())
}

/// Whether the run is on its way to `failed`.
pub(crate) fn is_failing(run: &Run) -> bool {
    matches!(run.phase, Phase::Failing(_))
}
