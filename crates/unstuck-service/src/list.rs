//! A page of runs.

use unstuck_api::request::RunsQuery;
use unstuck_api::runs::{RunLine, RunsView};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Phase, Run, RunOutcome};
use unstuck_core::model::unit::{AutoResume, UnitState};
use unstuck_engine::flows::Flows;
use unstuck_store::contract::{RunFilter, Store};

use crate::service::{Service, ServiceError};
use crate::{convert, errors, policies, run_name, set_aside};

/// So many runs are read at once, at most.
pub const MOST: usize = 1_000;

/// Returns a page of runs, newest first, each with its cause, next resume and idle state.
pub(crate) fn list(
    service: &Service,
    store: &mut dyn Store,
    flows: &mut Flows,
    wanted: &RunsQuery,
) -> Result<RunsView, ServiceError> {
    let before = match &wanted.after {
        None => None,
        // The run may have been forgotten since it was shown.
        Some(after) => Some(match after.parse::<RunId>() {
            Ok(run) => run,
            Err(_) => run_name::find_run(store, flows, after)?,
        }),
    };
    let filter = filter(store, flows, wanted)?;
    let limit = wanted.limit.clamp(1, MOST);
    let mut found = store.list(&filter, before, limit + 1)?;
    let next = (found.len() > limit).then(|| found[limit - 1].id.to_string());
    found.truncate(limit);
    let (mut runs, paused) = (Vec::new(), policies::paused(store)?);
    for run in found {
        let resume = next_resume(&run);
        let (flow, version) = set_aside::flow_of(store, &run)?;
        let labels = flows.get(store, run.flow).map(|flow| flow.labels.clone()).unwrap_or_default();
        let rests = run.attention();
        let has = [(rests.error, "error"), (rests.held, "held")];
        let set_aside = set_aside::set_aside(store, flows, &run)?;
        let go_on = if set_aside.is_some() { None } else { service.continue_command(store, &run, &[])? };
        runs.push(RunLine {
            id: run.id.to_string(),
            generation: run.generation,
            flow: flow.to_string(),
            version: version.to_string(),
            set_aside,
            key: run.key.as_deref().map(str::to_owned),
            labels,
            state: run.state().word().to_owned(),
            has: has.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()).collect(),
            idle: go_on.is_some(),
            go_on,
            failing: matches!(run.phase, Phase::Failing(_)),
            handler: handler(&run).map(|handler| handler.to_string()),
            parent: run.origin.parent().map(|parent| parent.to_string()),
            created_at: run.created_at.timestamp(),
            updated_at: run.updated_at.timestamp(),
            cause: cause(&run),
            policies_paused: paused.clone().filter(|_| resume.is_some()),
            next_auto_resume: resume.as_ref().map(|resume| resume.due.timestamp()),
            next_auto_resume_reason: resume.map(|resume| resume.policy.name.to_string()),
        });
    }
    Ok(RunsView { runs, next })
}

/// Converts the query to a filter of the store; resolves groups and labels.
fn filter(store: &mut dyn Store, flows: &mut Flows, wanted: &RunsQuery) -> Result<RunFilter, ServiceError> {
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    let group = wanted.group.as_deref().map(|group| errors::find(store, group)).transpose()?;
    let versions =
        if wanted.labels.is_empty() { None } else { Some(with_labels(store, flows, &wanted.labels)?) };
    Ok(RunFilter {
        states: wanted.states.iter().copied().map(convert::run_state).collect(),
        flow: text(&wanted.flow),
        versions,
        key: text(&wanted.key),
        parent: None,
        roots_only: !wanted.all,
        since: wanted.since.map(convert::time),
        until: wanted.until.map(convert::time),
        group: group.map(|group| group.group),
        cause: text(&wanted.cause),
    })
}

/// Lists the flow versions that have all of these labels. A version that cannot be compiled any more has none.
pub(crate) fn with_labels(
    store: &mut dyn Store,
    flows: &mut Flows,
    labels: &[(String, String)],
) -> Result<Vec<FlowId>, ServiceError> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.flows(after, MOST)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id);
        for record in page {
            let Ok(flow) = flows.get(store, record.id) else { continue };
            if labels.iter().all(|(name, value)| flow.labels.get(name) == Some(value)) {
                found.push(record.id);
            }
        }
    }
}

/// Returns the earliest resume that a policy has scheduled.
fn next_resume(run: &Run) -> Option<AutoResume> {
    let mut first: Option<AutoResume> = None;
    if run.is_final() {
        return None;
    }
    run.each_unit(|_, unit| {
        if let UnitState::Error { resume: Some(resume), .. } = &unit.state
            && first.as_ref().is_none_or(|first| resume.due < first.due)
        {
            first = Some(resume.clone());
        }
    });
    first
}

/// Returns the exception handler of a failing run, once started.
fn handler(run: &Run) -> Option<RunId> {
    let Phase::Failing(failing) = &run.phase else { return None };
    failing.handler.as_ref()?.run
}

/// Returns why a run fails or failed, or the cause of its first step that needs an operator.
pub(crate) fn cause(run: &Run) -> Option<String> {
    match &run.phase {
        Phase::Failing(failing) => return Some(failing.error.error.cause.to_string()),
        Phase::Ended(ended) => {
            return match &ended.how {
                RunOutcome::Failed { error, .. } => Some(error.error.cause.to_string()),
                RunOutcome::Cancelled { reason } => reason.as_deref().map(str::to_owned),
                RunOutcome::Completed { .. } | RunOutcome::Superseded { .. } => None,
            };
        }
        Phase::Going => {}
    }
    let mut found = None;
    run.each_unit(|_, unit| {
        let rests = matches!(unit.state, UnitState::Held { .. } | UnitState::Error { .. });
        if found.is_none() && rests {
            found = unit.last_error().map(|error| error.cause.to_string());
        }
    });
    found
}
