//! Converts what is asked of a list of runs to a filter of the store: names of groups, labels and actions become ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_api::request::RunsQuery;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::Flow;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::{FlowRecord, LabelFilter, Reader, RunFilter};

use crate::service::ServiceError;
use crate::{convert, errors, run_name};

/// So many flow versions are read at once.
const PAGE: usize = 1_000;

/// Converts the query to a filter of the store.
pub(crate) fn build_filter(
    reader: &dyn Reader,
    flows: &ReadFlows,
    wanted: &RunsQuery,
) -> Result<RunFilter, ServiceError> {
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    let texts = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
    let run = |name: &Option<String>| {
        name.as_deref().map(|name| run_name::find_run(reader, flows, name)).transpose()
    };
    let group = wanted.group.as_deref().map(|group| errors::find_group(reader, group)).transpose()?;
    let (parent, root) = (run(&wanted.parent)?, run(&wanted.root)?);
    let steps =
        if wanted.actions.is_empty() { None } else { Some(find_steps(reader, flows, &wanted.actions)?) };
    Ok(RunFilter {
        states: wanted.states.iter().copied().map(convert::to_core_run_state).collect(),
        flow: text(&wanted.flow),
        versions: find_versions(reader, &wanted.versions)?,
        key: text(&wanted.key),
        key_prefixes: texts(&wanted.key_prefixes),
        labels: find_labels(reader, flows, &wanted.labels)?,
        has: wanted.has.iter().copied().map(convert::to_store_step_mark).collect(),
        policies: texts(&wanted.policies),
        steps,
        workers: texts(&wanted.workers),
        // What is below another run is a child or a handler.
        roots_only: !wanted.all && parent.is_none() && root.is_none(),
        parent,
        root,
        since: wanted.since.map(convert::to_core_time),
        until: wanted.until.map(convert::to_core_time),
        updated_since: wanted.updated_since.map(convert::to_core_time),
        group: group.map(|group| group.group),
        cause: text(&wanted.cause),
    })
}

/// Finds the flow versions of these names, of any flow; `None` where none is asked for.
fn find_versions(reader: &dyn Reader, names: &[String]) -> Result<Option<Vec<FlowId>>, ServiceError> {
    if names.is_empty() {
        return Ok(None);
    }
    let mut found = Vec::new();
    for_each_version(reader, |record| {
        if names.iter().any(|name| **name == *record.version) {
            found.push(record.id);
        }
    })?;
    Ok(Some(found))
}

/// Finds which flow versions have these labels; a run has them too, unless it gives them other values. A version that
/// cannot be compiled any more has none.
pub(crate) fn find_labels(
    reader: &dyn Reader,
    flows: &ReadFlows,
    labels: &[(String, String)],
) -> Result<Vec<LabelFilter>, ServiceError> {
    let mut found: BTreeMap<&str, LabelFilter> = BTreeMap::new();
    for (name, value) in labels {
        let nothing = || LabelFilter { name: name.as_str().into(), values: Vec::new(), versions: Vec::new() };
        found.entry(name).or_insert_with(nothing).values.push(value.as_str().into());
    }
    if !found.is_empty() {
        for_each_flow(reader, flows, |flow| {
            for (name, label) in &mut found {
                let value = flow.labels.get(*name);
                if value.is_some_and(|value| label.values.iter().any(|wanted| **wanted == **value)) {
                    label.versions.push(flow.id);
                }
            }
        })?;
    }
    Ok(found.into_values().collect())
}

/// Finds the steps whose action has one of these names, in full (`flow.action`) or without its flow.
fn find_steps(
    reader: &dyn Reader,
    flows: &ReadFlows,
    actions: &[String],
) -> Result<Vec<(FlowId, unstuck_core::model::flow::StepIndex)>, ServiceError> {
    let mut found = Vec::new();
    for_each_flow(reader, flows, |flow| {
        for (index, step) in flow.step_indices().zip(&flow.steps) {
            let short = step.full_action.strip_prefix(&*flow.name).and_then(|rest| rest.strip_prefix('.'));
            if actions.iter().any(|action| **action == *step.full_action || Some(&**action) == short) {
                found.push((flow.id, index));
            }
        }
    })?;
    Ok(found)
}

/// Calls `each` with every flow version that can be compiled.
fn for_each_flow(
    reader: &dyn Reader,
    flows: &ReadFlows,
    mut each: impl FnMut(&Arc<Flow>),
) -> Result<(), ServiceError> {
    let mut ids = Vec::new();
    for_each_version(reader, |record| ids.push(record.id))?;
    for id in ids {
        if let Ok(flow) = flows.get(reader, id) {
            each(&flow);
        }
    }
    Ok(())
}

/// Calls `each` with every flow version.
fn for_each_version(reader: &dyn Reader, mut each: impl FnMut(&FlowRecord)) -> Result<(), ServiceError> {
    let mut after = None;
    loop {
        let page = reader.flows(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id);
        page.iter().for_each(&mut each);
    }
}
