//! Fan-outs: the list of a `forEach` step is found, its items are launched as far as `parallel` allows, and their outputs become one.

use crate::begin_attempt::{begin_attempt, resumed_by_rerun};
use crate::decide::Draft;
use crate::evaluate::{check_payload_size, evaluate_template, quote_briefly};
use crate::event::Fact;
use crate::json::Json;
use crate::model::error::{Error, OUTPUT_ACTION, RunError};
use crate::model::flow::{Flow, ForEach, StepIndex};
use crate::model::run::Run;
use crate::model::unit::{ITEMS_PER_PART, ItemsEnd, QueuePlace, UnitRef, UnitState};
use crate::recovery::failing_run;
use serde_json::Value;

/// Returns whether a fan-out has items left to launch and room for one under `parallel`.
pub(super) fn can_launch_items(run: &Run, flow: &Flow, step: StepIndex) -> bool {
    let parallel = flow.step(step).node.for_each.as_ref().map_or(1, |each| each.parallel);
    run.items(step).is_some_and(|items| {
        matches!(items.end, ItemsEnd::Open)
            && items.in_motion < parallel
            && items.items_to_launch().next().is_some()
    })
}

/// Evaluates the list of a fan-out, checks its length, and stores it in parts.
pub(super) fn list_items(draft: &mut Draft<'_, '_>, step: StepIndex, each: &ForEach) -> Result<(), String> {
    let list = evaluate_template(draft, &each.items, UnitRef::step(step))?;
    let Value::Array(values) = list.value() else {
        return Err(format!("forEach needs a list but got {}", quote_briefly(&list)));
    };
    let total = u32::try_from(values.len()).unwrap_or(u32::MAX);
    if total > each.max_items {
        return Err(format!(
            "forEach got {total} items, at most {} are allowed: raise maxItems",
            each.max_items
        ));
    }
    let parts =
        values.chunks(ITEMS_PER_PART).map(|part| draft.store_payload(Json::of(&Value::Array(part.to_vec()))));
    let values = parts.collect();
    draft.emit(Fact::ItemsKnown { step, values, total });
    launch_items(draft, step);
    complete_items(draft, step);
    Ok(())
}

/// Launches items while there is room under `parallel`.
pub(super) fn launch_items(draft: &mut Draft<'_, '_>, step: StepIndex) {
    let flow = draft.flow();
    while draft.run().can_schedule() && can_launch_items(draft.run(), flow, step) {
        let Some(item) = draft.run().items(step).and_then(|items| items.items_to_launch().next()) else {
            return;
        };
        begin_attempt(draft, UnitRef::item(step, item), resumed_by_rerun(draft.run()), QueuePlace::default());
    }
}

/// Completes a fan-out with the outputs of its items in order, once all of them are done. An output that is too large
/// fails it.
pub(super) fn complete_items(draft: &mut Draft<'_, '_>, step: StepIndex) {
    let Some(items) = draft.run().items(step) else { return };
    let done = items.units.len() == items.total as usize
        && items.in_motion == 0
        && items.units.values().all(|unit| unit.state.unblocks_dependents());
    if !done || !matches!(items.end, ItemsEnd::Open) {
        return;
    }
    let outputs: Result<Vec<Json>, String> = items
        .units
        .values()
        .map(|unit| match &unit.state {
            UnitState::Completed { output, .. } => draft.payload_json(output),
            UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Pending
            | UnitState::Ready(_)
            | UnitState::Active(_)
            | UnitState::Waiting(_)
            | UnitState::Held { .. }
            | UnitState::Error { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => Ok(Json::NULL),
        })
        .collect();
    match outputs.map(|outputs| Json::array(&outputs)).and_then(check_payload_size) {
        Ok(output) => {
            let output = draft.store_payload(output);
            draft.emit(Fact::ItemsCompleted { step, output });
        }
        Err(cause) => {
            let error = Error::found_by(OUTPUT_ACTION, cause);
            failing_run::fail_run(draft, RunError::of_unit(UnitRef::step(step), true, error), step);
        }
    }
}
