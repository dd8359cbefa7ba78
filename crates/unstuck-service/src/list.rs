//! A page of runs.

use unstuck_api::request::RunsQuery;
use unstuck_api::runs::{RunLine, RunsView};
use unstuck_core::id::{FlowId, RunId};
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::{Reader, RunFilter};

use crate::service::{Service, ServiceError};
use crate::{convert, errors, policies, run_name, set_aside};

/// So many runs are read at once, at most.
pub const MOST: usize = 1_000;

/// Returns a page of runs, newest first, each with its cause, next resume and idle state.
pub(crate) fn list_runs(
    service: &Service,
    reader: &dyn Reader,
    flows: &ReadFlows,
    wanted: &RunsQuery,
) -> Result<RunsView, ServiceError> {
    let before = match &wanted.after {
        None => None,
        // The run may have been forgotten since it was shown.
        Some(after) => Some(match after.parse::<RunId>() {
            Ok(run) => run,
            Err(_) => run_name::find_run(reader, flows, after)?,
        }),
    };
    let filter = build_filter(reader, flows, wanted)?;
    let limit = wanted.limit.clamp(1, MOST);
    let mut found = reader.list(&filter, before, limit + 1)?;
    let next = (found.len() > limit).then(|| found[limit - 1].id.to_string());
    found.truncate(limit);
    let (mut runs, paused) = (Vec::new(), policies::load_pause(reader)?);
    for run in found {
        let (flow, version) = set_aside::find_flow_name(reader, flows, run.flow)?;
        let labels = flows.get(reader, run.flow).map(|flow| flow.labels.clone()).unwrap_or_default();
        let has = [(run.attention.error, "error"), (run.attention.held, "held")];
        let set_aside = set_aside::find_set_aside(reader, flows, &run)?;
        let go_on = if set_aside.is_some() { None } else { service.continue_command(reader, &run, &[])? };
        runs.push(RunLine {
            id: run.id.to_string(),
            generation: run.generation,
            flow: flow.to_string(),
            version: version.to_string(),
            set_aside,
            key: run.key.as_deref().map(str::to_owned),
            labels,
            state: run.state.word().to_owned(),
            has: has.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()).collect(),
            idle: go_on.is_some(),
            go_on,
            failing: run.is_failing,
            handler: run.handler.map(|handler| handler.to_string()),
            parent: run.parent.map(|parent| parent.to_string()),
            created_at: run.created_at.timestamp(),
            updated_at: run.updated_at.timestamp(),
            cause: run.cause.as_deref().map(str::to_owned),
            policies_paused: paused.clone().filter(|_| run.next_resume.is_some()),
            next_auto_resume: run.next_resume.as_ref().map(|(due, _)| due.timestamp()),
            next_auto_resume_reason: run.next_resume.map(|(_, policy)| policy.name.to_string()),
        });
    }
    Ok(RunsView { runs, next })
}

/// Converts the query to a filter of the store; resolves groups and labels.
fn build_filter(
    reader: &dyn Reader,
    flows: &ReadFlows,
    wanted: &RunsQuery,
) -> Result<RunFilter, ServiceError> {
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    let group = wanted.group.as_deref().map(|group| errors::find_group(reader, group)).transpose()?;
    let versions = if wanted.labels.is_empty() {
        None
    } else {
        Some(list_versions_with_labels(reader, flows, &wanted.labels)?)
    };
    Ok(RunFilter {
        states: wanted.states.iter().copied().map(convert::to_core_run_state).collect(),
        flow: text(&wanted.flow),
        versions,
        key: text(&wanted.key),
        parent: None,
        roots_only: !wanted.all,
        since: wanted.since.map(convert::to_core_time),
        until: wanted.until.map(convert::to_core_time),
        group: group.map(|group| group.group),
        cause: text(&wanted.cause),
    })
}

/// Lists the flow versions that have all of these labels. A version that cannot be compiled any more has none.
pub(crate) fn list_versions_with_labels(
    reader: &dyn Reader,
    flows: &ReadFlows,
    labels: &[(String, String)],
) -> Result<Vec<FlowId>, ServiceError> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = reader.flows(after, MOST)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id);
        for record in page {
            let Ok(flow) = flows.get(reader, record.id) else { continue };
            if labels.iter().all(|(name, value)| flow.labels.get(name) == Some(value)) {
                found.push(record.id);
            }
        }
    }
}
