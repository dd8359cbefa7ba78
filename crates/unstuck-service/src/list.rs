//! A page of runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use unstuck_api::{self as api, PoliciesPaused};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Phase, Run, RunOutcome};
use unstuck_core::model::unit::{AutoResume, UnitState};
use unstuck_engine::flows::Flows;
use unstuck_store::contract::{RunFilter, Store};

use crate::request::RunsQuery;
use crate::service::{Service, ServiceError};
use crate::{errors, policies, run_name, set_aside};

/// So many runs are read at once, at most.
pub const MOST: usize = 1_000;

/// Runs, newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunsView {
    pub runs: Vec<RunLine>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<String>,
}

/// A run in a list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLine {
    pub id: String,
    pub generation: u32,
    pub flow: String,
    pub version: String,
    pub key: Option<String>,
    /// The labels of its flow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    pub state: String,
    /// Which of `error` and `held` steps of it are in, whatever its state is.
    #[serde(default)]
    pub has: Vec<String>,
    /// Whether it has something to do and no process is executing it.
    #[serde(default)]
    pub idle: bool,
    /// The command that goes on with it, where it is idle.
    #[serde(default)]
    pub go_on: Option<String>,
    /// Whether it will be failed, and only its exception handler, or what is under way, comes first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failing: bool,
    /// The run of its exception handler, while that is at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// The run that this is a child or handler of.
    pub parent: Option<String>,
    #[serde(with = "unstuck_api::json_form::time")]
    pub created_at: Timestamp,
    #[serde(with = "unstuck_api::json_form::time")]
    pub updated_at: Timestamp,
    /// Why nothing is decided about it now, if it is set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<api::SetAside>,
    /// The cause of the first open error.
    pub cause: Option<String>,
    /// The earliest automatic resume.
    #[serde(default, with = "unstuck_api::json_form::optional_time")]
    pub next_auto_resume: Option<Timestamp>,
    /// The policy behind it.
    pub next_auto_resume_reason: Option<String>,
    /// Why it does not happen, where automatic resumes are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
}

pub(crate) fn list(
    service: &Service,
    store: &mut dyn Store,
    flows: &mut Flows,
    wanted: &RunsQuery,
) -> Result<RunsView, ServiceError> {
    let before = match &wanted.after {
        None => None,
        // It may have been forgotten since it was shown.
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

/// What is wanted, as a store is asked for it.
fn filter(store: &mut dyn Store, flows: &mut Flows, wanted: &RunsQuery) -> Result<RunFilter, ServiceError> {
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    let group = wanted.group.as_deref().map(|group| errors::find(store, group)).transpose()?;
    let versions =
        if wanted.labels.is_empty() { None } else { Some(with_labels(store, flows, &wanted.labels)?) };
    Ok(RunFilter {
        states: wanted.states.clone(),
        flow: text(&wanted.flow),
        versions,
        key: text(&wanted.key),
        parent: None,
        roots_only: !wanted.all,
        since: wanted.since,
        until: wanted.until,
        group: group.map(|group| group.group),
        cause: text(&wanted.cause),
    })
}

/// The versions of flows that have all of these labels. One that cannot be used any more has none.
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

/// What a policy resumes first.
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

/// The exception handler of a failing run, once started.
fn handler(run: &Run) -> Option<RunId> {
    let Phase::Failing(failing) = &run.phase else { return None };
    failing.handler.as_ref()?.run
}

/// What it fails of, or why its first step that needs a person does.
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
