//! The interpreter of a flow's graph: which steps begin next, and when the run is complete.

mod for_each;
mod needs;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::begin_attempt::{begin_attempt, resumed_by_rerun};
use crate::command::Rerun;
use crate::decide::Draft;
use crate::evaluate::{check_payload_size, evaluate_condition, evaluate_template, item_value};
use crate::event::{Fact, UnitFact};
use crate::graph::for_each::{can_launch_items, complete_items, launch_items, list_items};
use crate::interpreter::{Interpreter, Prepared};
use crate::json::{Json, Payload};
use crate::model::error::{EXPRESSION_ACTION, Error, RunError};
use crate::model::expression::Template;
use crate::model::flow::{Flow, StepIndex};
use crate::model::run::Run;
use crate::model::unit::{ItemsEnd, QueuePlace, SkippedBy, StepRun, Unit, UnitRef, UnitState};
use crate::needs::PayloadNeeds;
use crate::recovery::failing_run;

/// A run goes through the steps of its flow, each once what it needs is done.
pub(crate) struct Graph;

impl Interpreter for Graph {
    fn advance_all(&self, draft: &mut Draft<'_, '_>) {
        let all: Vec<StepIndex> = draft.flow().step_indices().collect();
        advance_steps(draft, &all);
    }

    fn advance_after(&self, draft: &mut Draft<'_, '_>, step: StepIndex) {
        advance_steps(draft, &[step]);
    }

    /// Evaluates the step's condition, then finds the list of a fan-out or binds the input. The condition is not
    /// evaluated again once a worker has executed an attempt.
    fn prepare(&self, draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<Prepared, String> {
        let step = draft.step(unit);
        let seen_by_worker =
            draft.run().unit(unit).is_some_and(|unit| unit.past.iter().any(|past| past.worker.is_some()));
        if let (Some(condition), None, false) = (&step.node.when, unit.item, seen_by_worker)
            && !evaluate_condition(draft, condition)?
        {
            draft.emit_unit(unit, UnitFact::Skipped { why: SkippedBy::Condition, reason: None });
            return Ok(Prepared::Otherwise);
        }
        if let (Some(each), None) = (&step.node.for_each, unit.item) {
            list_items(draft, unit.step, each)?;
            return Ok(Prepared::Otherwise);
        }
        bind_input(draft, unit)?;
        Ok(Prepared::ForAttempt)
    }

    /// Computes the input again if it comes from a template.
    fn rebind_input(&self, draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<(), String> {
        // Without a template the step reads the run's input directly, and an item keeps its value from the list.
        let Some(template) = &draft.step(unit).node.with else { return Ok(()) };
        let input = evaluate_template(draft, template, unit)?;
        let input = draft.store_payload(input);
        draft.emit_unit(unit, UnitFact::InputBound { input });
        Ok(())
    }

    fn has_runnable_steps(&self, run: &Run, flow: &Flow) -> bool {
        flow.step_indices().any(|step| can_enter_step(run, flow, step) || can_launch_items(run, flow, step))
            || run.steps.iter().all(StepRun::is_final)
    }

    fn missing_steps(&self, run: &Run, flow: &Flow, step: StepIndex) -> Vec<StepIndex> {
        let needs = flow.step(step).node.needs.iter().copied();
        needs.filter(|need| !run.step(*need).unblocks_dependents()).collect()
    }

    fn kept_steps(&self, run: &Run, flow: &Flow, what: &Rerun) -> Vec<StepIndex> {
        let again = match what {
            Rerun::All => return Vec::new(),
            Rerun::Continue => BTreeSet::new(),
            Rerun::Steps(steps) => steps_downstream_of(flow, steps),
        };
        flow.step_indices().filter(|step| has_reusable_output(run, *step) && !again.contains(step)).collect()
    }

    fn add_needs(&self, needs: &mut PayloadNeeds, run: &Run, flow: &Flow, steps: Vec<StepIndex>) {
        needs::add_needs(needs, run, flow, steps);
    }
}

/// Computes and stores the input of a unit unless it has one: a retry keeps the input of the first attempt.
fn bind_input(draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<(), String> {
    if draft.run().unit(unit).is_some_and(|unit| unit.input.is_some()) {
        return Ok(());
    }
    let input = match (&draft.step(unit).node.with, unit.item) {
        (Some(template), _) => evaluate_template(draft, template, unit)?,
        (None, Some(item)) => Json::of(&item_value(draft, unit.step, item)?),
        (None, None) => return Ok(()),
    };
    let input = draft.store_payload(input);
    draft.emit_unit(unit, UnitFact::InputBound { input });
    Ok(())
}

/// Returns whether a step is pending and everything that it needs is done.
fn can_enter_step(run: &Run, flow: &Flow, step: StepIndex) -> bool {
    matches!(run.step(step), StepRun::Single(Unit { state: UnitState::Pending, .. }))
        && flow.step(step).node.needs.iter().all(|need| run.step(*need).unblocks_dependents())
}

/// Advances these steps, and all that become able to advance because of them, with a work list instead of recursion: a
/// call from within only adds to the list, so that a long chain does not deepen the stack.
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

/// Completes the run with its output. An output that cannot be computed fails the run instead.
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

/// Computes the output of the run: the flow's `output`, else the output of the last step, or an object by step id where
/// there are several last steps.
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

/// Returns the steps that no other step needs.
fn last_steps(flow: &Flow) -> impl Iterator<Item = StepIndex> {
    flow.step_indices().filter(|step| flow.dependents[usize::from(step.0)].is_empty())
}

/// Returns whether a rerun from the point of failure may keep this step: it is done, or it is a fan-out, which keeps
/// its completed items.
fn has_reusable_output(run: &Run, step: StepIndex) -> bool {
    match run.step(step) {
        StepRun::Single(unit) => unit.state.unblocks_dependents(),
        StepRun::Items(_) => true,
    }
}

/// Returns these steps and all steps that depend on them, directly or not.
fn steps_downstream_of(flow: &Flow, steps: &[StepIndex]) -> BTreeSet<StepIndex> {
    let mut found = BTreeSet::new();
    let mut work = steps.to_vec();
    while let Some(step) = work.pop() {
        if found.insert(step) {
            work.extend(&flow.dependents[usize::from(step.0)]);
        }
    }
    found
}
