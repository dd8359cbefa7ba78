//! Flows that are applied, listed and deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use unstuck_api::flows::{
    AppliedFlowView, FlowLine, FlowVersionLine, FlowVersionsView, FlowView, FlowsAppliedView, FlowsView,
};
use unstuck_api::request::{FlowOperation, FlowRequest};
use unstuck_core::event::Actor;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;
use unstuck_engine::apply_flows::{ApplyFlows, DeleteFlow, FlowCommand, FlowsOutcome};
use unstuck_engine::call::Call;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::runtime::Handle;
use unstuck_flow::Problem;
use unstuck_store::contract::{Applied, FlowRecord, ListedFlow, Reader};

use crate::list::MOST;
use crate::migrate::{self, Target};
use crate::problem::flow_part;
use crate::service::{Service, ServiceError, now, to_json};
use crate::start_run::check_runs_nothing;

/// A file of flows to apply.
#[derive(Clone, Debug)]
pub struct FlowFile {
    pub text: String,
    /// Its name, for problems.
    pub file: String,
    /// The folder that relative paths of local processes start from.
    pub directory: String,
}

/// Reads a file of flows, or returns every problem with it. It may name flows that are in the store.
pub(crate) fn load_flows(
    reader: &dyn Reader,
    file: &FlowFile,
) -> Result<(Vec<Flow>, Vec<Problem>), ServiceError> {
    let is_known = |name: &str| {
        let versions = reader.flow_versions(name, None, MOST);
        versions.is_ok_and(|versions| versions.iter().any(|version| !version.is_deleted))
    };
    let loaded = unstuck_flow::load(&file.text, &file.file, &file.directory, &is_known)
        .map_err(ServiceError::bad_flows)?;
    let warnings = loaded.warnings_at(now());
    Ok((loaded.flows, warnings))
}

/// Applies or deletes flows, and returns what came of it as JSON.
pub(crate) fn change_flows(
    service: &Service,
    handle: &Handle,
    request: FlowRequest,
    call: &Call,
) -> Result<String, ServiceError> {
    let (by, reason) = (Actor::User(request.by.into()), request.reason.map(Arc::from));
    match request.what {
        FlowOperation::Apply { text, file, directory, dry_run, migrate } => {
            let file = FlowFile { text, file, directory };
            let (flows, warnings) = load_flows(handle.reader(), &file)?;
            if !service.allow_run {
                flows.iter().try_for_each(check_runs_nothing)?;
            }
            let apply = ApplyFlows {
                flows: flows.clone(),
                by: by.clone(),
                reason: reason.clone(),
                is_dry_run: dry_run,
            };
            let outcome = handle.change_flows_as(FlowCommand::Apply(apply), call.clone())?;
            let mut view = build_applied_view(&outcome, &warnings, dry_run);
            let applied = outcome.applied.iter().zip(&flows);
            for (line, ((record, _), flow)) in view.flows.iter_mut().zip(applied) {
                line.next = find_next_time(flow);
                if migrate {
                    let to = Target { record, flow, is_dry_run: dry_run };
                    let who = (by.clone(), reason.clone());
                    line.migration = Some(migrate::migrate_to(service, handle, to, who, call)?);
                }
            }
            to_json(&view)
        }
        FlowOperation::Migrate(wanted) => {
            to_json(&migrate::migrate_flow(service, handle, &wanted, (by, reason), call)?)
        }
        FlowOperation::Delete { flow, version } => {
            let version = version.map(Arc::from);
            let command = FlowCommand::Delete(DeleteFlow { flow: flow.into(), version, by, reason });
            handle.change_flows_as(command, call.clone())?;
            to_json(&())
        }
    }
}

/// The time at which a server starts the next run by the schedule of a flow.
fn find_next_time(flow: &Flow) -> Option<Timestamp> {
    flow.schedule.as_ref()?.next(now()).map(Time::timestamp)
}

/// Builds the view of what came of applying a file.
fn build_applied_view(outcome: &FlowsOutcome, warnings: &[Problem], is_dry_run: bool) -> FlowsAppliedView {
    let flows = outcome.applied.iter().map(|(record, what)| AppliedFlowView {
        flow: record.name.to_string(),
        version: record.version.to_string(),
        id: record.id.to_string(),
        what: what.word().to_owned(),
        next: None,
        migration: None,
    });
    let warnings = warnings.iter().cloned().map(flow_part).collect();
    FlowsAppliedView { flows: flows.collect(), warnings, dry_run: is_dry_run }
}

/// Returns a page of the flows that can be started, in order of their names, of those that have all these labels.
pub fn list_flows(
    reader: &dyn Reader,
    flows: &ReadFlows,
    labels: &[(String, String)],
    after: Option<&str>,
    limit: usize,
) -> Result<FlowsView, ServiceError> {
    let limit = limit.clamp(1, MOST);
    let mut lines = Vec::new();
    let mut place = after.map(str::to_owned);
    for _ in 0..MOST_PAGES {
        let found = reader.flow_names(place.as_deref(), limit + 1)?;
        let more = found.len() > limit;
        for (number, listed) in (1..).zip(found.into_iter().take(limit)) {
            place = Some(listed.name.to_string());
            let line = build_flow_line(reader, flows, &listed);
            if has_labels(&line.labels, labels) {
                lines.push(line);
            }
            if lines.len() == limit && (more || number < limit) {
                return Ok(FlowsView { flows: lines, next: place });
            }
        }
        if !more {
            return Ok(FlowsView { flows: lines, next: None });
        }
    }
    Ok(FlowsView { flows: lines, next: place })
}

/// So many pages are looked at for one that has labels; it may be short, although more follow.
const MOST_PAGES: usize = 10;

fn build_flow_line(reader: &dyn Reader, flows: &ReadFlows, listed: &ListedFlow) -> FlowLine {
    let flow = flows.get(reader, listed.newest.id).ok();
    let (applied_at, by) = describe_applied(listed.newest.applied.as_ref());
    FlowLine {
        flow: listed.name.to_string(),
        version: listed.newest.version.to_string(),
        id: listed.newest.id.to_string(),
        description: flow.as_ref().and_then(|flow| flow.description.clone()),
        labels: flow.map(|flow| flow.labels.clone()).unwrap_or_default(),
        versions: listed.versions,
        open: listed.open,
        applied_at,
        by,
    }
}

/// Whether all names that are wanted are there, each with one of its values.
fn has_labels(labels: &BTreeMap<String, String>, wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|(name, _)| {
        let value = labels.get(name);
        value.is_some_and(|value| wanted.iter().any(|one| one.0 == *name && one.1 == *value))
    })
}

/// Returns a version of a flow: the one that is named, deleted or not, or the newest that can be started.
pub fn show_flow(
    reader: &dyn Reader,
    flows: &ReadFlows,
    name: &str,
    version: Option<&str>,
) -> Result<FlowView, ServiceError> {
    let record = find_version(reader, name, version)?;
    let compiled = flows.get(reader, record.id);
    let open = reader.open_runs(&[record.id])?.get(&record.id).copied().unwrap_or(0);
    let (applied_at, by) = describe_applied(record.applied.as_ref());
    let flow = compiled.as_ref().ok();
    Ok(FlowView {
        flow: record.name.to_string(),
        version: record.version.to_string(),
        id: record.id.to_string(),
        definition: serde_json::from_str(&record.source).unwrap_or(Value::Null),
        description: flow.and_then(|flow| flow.description.clone()),
        labels: flow.map(|flow| flow.labels.clone()).unwrap_or_default(),
        schedule: flow.and_then(|flow| flow.schedule.as_ref()).map(|spec| spec.timing.to_string()),
        unusable: compiled.as_ref().err().map(ToString::to_string),
        deleted: record.is_deleted,
        open,
        applied_at,
        by,
    })
}

/// Returns a page of the versions of a flow, the newest first, deleted ones too.
pub fn list_versions(
    reader: &dyn Reader,
    name: &str,
    before: Option<FlowId>,
    limit: usize,
) -> Result<FlowVersionsView, ServiceError> {
    let limit = limit.clamp(1, MOST);
    let mut found = reader.flow_versions(name, before, limit + 1)?;
    if found.is_empty() && before.is_none() {
        return Err(unknown_flow(name));
    }
    let next = (found.len() > limit).then(|| found[limit - 1].id.to_string());
    found.truncate(limit);
    let ids: Vec<FlowId> = found.iter().map(|record| record.id).collect();
    let open = reader.open_runs(&ids)?;
    let lines = found.into_iter().map(|record| {
        let (applied_at, by) = describe_applied(record.applied.as_ref());
        FlowVersionLine {
            version: record.version.to_string(),
            id: record.id.to_string(),
            deleted: record.is_deleted,
            open: open.get(&record.id).copied().unwrap_or(0),
            applied_at,
            by,
        }
    });
    Ok(FlowVersionsView { versions: lines.collect(), next })
}

/// Finds a version of a flow: the one that is named, deleted or not, or the newest that can be started.
pub(crate) fn find_version(
    reader: &dyn Reader,
    name: &str,
    version: Option<&str>,
) -> Result<FlowRecord, ServiceError> {
    let is_wanted = |record: &FlowRecord| match version {
        Some(version) => *record.version == *version,
        None => !record.is_deleted,
    };
    let mut before = None;
    loop {
        let page = reader.flow_versions(name, before, MOST)?;
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        if let Some(found) = page.into_iter().find(is_wanted) {
            return Ok(found);
        }
    }
    Err(match version {
        Some(version) => ServiceError::not_found(format!("flow `{name}` has no version {version}"))
            .named("version", version)
            .of_flow(name, Some(version)),
        None => unknown_flow(name),
    })
}

fn unknown_flow(name: &str) -> ServiceError {
    ServiceError::not_found(format!("there is no flow `{name}`; load its file first")).named("flow", name)
}

fn describe_applied(applied: Option<&Applied>) -> (Option<jiff::Timestamp>, Option<String>) {
    let at = applied.map(|applied| Time::timestamp(applied.at));
    (at, applied.map(|applied| describe_actor(&applied.by)))
}

/// Returns the name of whoever did something.
pub(crate) fn describe_actor(by: &Actor) -> String {
    match by {
        Actor::Engine => "engine".to_owned(),
        Actor::Worker => "worker".to_owned(),
        Actor::User(name) => name.to_string(),
    }
}
