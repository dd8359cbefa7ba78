//! Lists items of `forEach` steps, page by page.

use std::sync::Arc;

use unstuck_api::ItemsView;
use unstuck_api::request::ItemsQuery;
use unstuck_core::event::Event;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{StepRun, Unit, UnitRef, UnitState};
use unstuck_core::refusal::Refusal;
use unstuck_core::step_name::find_step;
use unstuck_engine::document::UnitDocuments;
use unstuck_engine::flows::outline;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::Reader;

use crate::run_name;
use crate::service::{ServiceError, load_payload};
use crate::show::remove_step_payloads;

/// Lists the items of a step, or of all steps that have some, in order; those that have not started yet, too.
pub(crate) fn list_items(
    reader: &dyn Reader,
    flows: &ReadFlows,
    wanted: &ItemsQuery,
) -> Result<ItemsView, ServiceError> {
    let (run, flow) = load_run_and_flow(reader, flows, &wanted.run)?;
    let step = wanted.step.as_deref().map(|name| find_items_step(&run, &flow, name)).transpose()?;
    let after = wanted.after.as_deref().map(parse_cursor).transpose()?;
    let not_started = Unit::default();
    let mut found: Vec<(UnitRef, &Unit)> = Vec::new();
    let mut next = None;
    'all: for (place, state) in flow.step_indices().zip(&run.steps) {
        let StepRun::Items(items) = state else { continue };
        if step.is_some_and(|step| step != place) {
            continue;
        }
        for item in 0..items.total {
            let unit = UnitRef::item(place, item);
            let state = items.units.get(&item).unwrap_or(&not_started);
            let is_wanted =
                wanted.states.is_empty() || wanted.states.iter().any(|word| word == state.state.word());
            if after.is_some_and(|after| unit <= after) || !is_wanted {
                continue;
            }
            if found.len() == wanted.limit {
                next = found.last().map(|(last, _)| format_cursor(*last));
                break 'all;
            }
            found.push((unit, state));
        }
    }
    let history = load_history_if_acknowledged(reader, &run, &found)?;
    let documents = UnitDocuments::new(&run, &flow, &history);
    let mut load = |payload: &Payload| {
        if wanted.leaves_out_payloads { Json::NULL } else { load_payload(reader, payload) }
    };
    let mut items: Vec<_> =
        found.into_iter().map(|(unit, state)| documents.unit(unit, state, &mut load)).collect();
    if wanted.leaves_out_payloads {
        items.iter_mut().for_each(remove_step_payloads);
    }
    Ok(ItemsView { run: run.id.to_string(), items, next })
}

/// Loads a run with its flow; of a flow that cannot be used, the names of the steps are known.
pub(crate) fn load_run_and_flow(
    reader: &dyn Reader,
    flows: &ReadFlows,
    name: &str,
) -> Result<(Run, Arc<Flow>), ServiceError> {
    let id = run_name::find_run(reader, flows, name)?;
    let run = reader.run(id)?.ok_or(EngineError::Refused(Refusal::UnknownRun(id)))?;
    let flow = match flows.get(reader, run.flow) {
        Ok(flow) => flow,
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(_) => Arc::new(outline(&run, reader.flow(run.flow)?)),
    };
    Ok((run, flow))
}

/// Finds the step of this name; one without `forEach` has no items.
fn find_items_step(run: &Run, flow: &Flow, name: &str) -> Result<StepIndex, ServiceError> {
    let step = find_step(flow, name).map_err(|wrong| ServiceError::from(wrong).named("step", name))?;
    let is_known = matches!(run.step(step), StepRun::Items(_));
    if !is_known && flow.step(step).node.for_each.is_none() {
        return Err(ServiceError::refused(format!(
            "step `{name}` has no items: it has no `forEach`; `show` has the step itself"
        )));
    }
    Ok(step)
}

/// Who acknowledged an error is only in the history, which may be long.
fn load_history_if_acknowledged(
    reader: &dyn Reader,
    run: &Run,
    found: &[(UnitRef, &Unit)],
) -> Result<Vec<Event>, ServiceError> {
    let is_acknowledged = |unit: &Unit| matches!(&unit.state, UnitState::Error { acknowledged: Some(_), .. });
    if found.iter().any(|(_, unit)| is_acknowledged(unit)) {
        return Ok(reader.history(run.id, 0, usize::MAX)?);
    }
    Ok(Vec::new())
}

/// What every cursor begins with.
const PREFIX: &str = "items.";

fn format_cursor(last: UnitRef) -> String {
    format!("{PREFIX}{:x}.{:x}", last.step.0, last.item.unwrap_or_default())
}

fn parse_cursor(text: &str) -> Result<UnitRef, ServiceError> {
    let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.'));
    let place = parts.and_then(|(step, item)| {
        let (step, item) = (u16::from_str_radix(step, 16).ok()?, u32::from_str_radix(item, 16).ok()?);
        Some(UnitRef::item(StepIndex(step), item))
    });
    place.ok_or_else(|| {
        ServiceError::bad_cursor(format!(
            "--after: `{text}` is not the end of a page; give `next` of the page before, as it is"
        ))
    })
}
