//! Moves runs to another version of their flow: one, or those of a flow, page by page.

use std::sync::Arc;

use unstuck_api::flows::{MigrationView, NotMoved};
use unstuck_api::request::MigrateFlow;
use unstuck_core::command::Command;
use unstuck_core::decide::check_migration;
use unstuck_core::event::Actor;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::RunState;
use unstuck_core::refusal::Refusal;
use unstuck_engine::call::Call;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::{FlowRecord, Reader, RunFilter, RunPlace, RunSort};

use crate::apply_flows::find_version;
use crate::list::MOST;
use crate::run_name;
use crate::service::{Service, ServiceError};
use crate::set_aside::find_flow_name;
use crate::start_run::check_runs_nothing;

/// Finds the version that a run is to be moved to: the one that is named, or the newest of its flow.
pub(crate) fn find_target(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: RunId,
    to: Option<&str>,
) -> Result<FlowRecord, ServiceError> {
    let found = reader.run(run)?.ok_or(EngineError::Refused(Refusal::UnknownRun(run)))?;
    let (flow, _) = find_flow_name(reader, flows, found.flow)?;
    find_usable_version(reader, &flow, to)
}

fn find_usable_version(
    reader: &dyn Reader,
    flow: &str,
    to: Option<&str>,
) -> Result<FlowRecord, ServiceError> {
    let record = find_version(reader, flow, to)?;
    if record.is_deleted {
        let version = &record.version;
        return Err(ServiceError::refused(format!(
            "version {version} of flow `{flow}` is deleted; apply it again, or choose another one"
        ))
        .of_flow(flow, Some(version)));
    }
    Ok(record)
}

/// Refuses a version that this server would not execute.
pub(crate) fn check_target(
    service: &Service,
    reader: &dyn Reader,
    run: &str,
    to: Option<&str>,
) -> Result<(), ServiceError> {
    let id = run_name::find_run(reader, &service.flows, run)?;
    let target = find_target(reader, &service.flows, id, to)?;
    load_target(service, reader, &target).map(|_| ())
}

fn load_target(
    service: &Service,
    reader: &dyn Reader,
    target: &FlowRecord,
) -> Result<Arc<Flow>, ServiceError> {
    let flow = service.flows.get(reader, target.id)?;
    if !service.allow_run {
        check_runs_nothing(&flow)?;
    }
    Ok(flow)
}

/// Says whether a run could be moved as it is now.
pub(crate) fn preview_run(
    service: &Service,
    reader: &dyn Reader,
    run: &str,
    to: Option<&str>,
) -> Result<MigrationView, ServiceError> {
    let id = run_name::find_run(reader, &service.flows, run)?;
    let target = find_target(reader, &service.flows, id, to)?;
    let flow = load_target(service, reader, &target)?;
    let mut view = new_view(&target, true);
    count(&mut view, id, preview(service, reader, id, &flow));
    Ok(view)
}

/// Moves runs of a flow, or says which could be moved. Each is decided by itself.
pub(crate) fn migrate_flow(
    service: &Service,
    handle: &Handle,
    wanted: &MigrateFlow,
    who: (Actor, Option<Arc<str>>),
    call: &Call,
) -> Result<MigrationView, ServiceError> {
    let reader = handle.reader();
    let record = find_usable_version(reader, &wanted.flow, wanted.to.as_deref())?;
    let flow = load_target(service, reader, &record)?;
    let found = if wanted.runs.is_empty() {
        list_open_runs(reader, wanted, record.id)?
    } else {
        (find_named_runs(service, reader, wanted)?, None)
    };
    let to = Target { record: &record, flow: &flow, is_dry_run: wanted.dry_run };
    move_runs(service, handle, found, to, who, call)
}

/// Moves the newest runs of earlier versions to one that was applied just now, or would be.
pub(crate) fn migrate_to(
    service: &Service,
    handle: &Handle,
    to: Target<'_>,
    who: (Actor, Option<Arc<str>>),
    call: &Call,
) -> Result<MigrationView, ServiceError> {
    let wanted =
        MigrateFlow { flow: to.record.name.to_string(), limit: MIGRATED_AT_ONCE, ..MigrateFlow::default() };
    let found = list_open_runs(handle.reader(), &wanted, to.record.id)?;
    move_runs(service, handle, found, to, who, call)
}

/// Runs that are moved when a file is applied; a migration that goes on moves the others.
const MIGRATED_AT_ONCE: usize = 100;

/// The version that runs are moved to.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) record: &'a FlowRecord,
    pub(crate) flow: &'a Flow,
    /// Whether it is only said which could be.
    pub(crate) is_dry_run: bool,
}

fn move_runs(
    service: &Service,
    handle: &Handle,
    (runs, next): (Vec<RunId>, Option<String>),
    to: Target<'_>,
    (by, reason): (Actor, Option<Arc<str>>),
    call: &Call,
) -> Result<MigrationView, ServiceError> {
    // Each run has an entry of its own in the audit; what is repeated finds that it is done.
    let call = Call { idempotency: None, expected: None, ..call.clone() };
    let mut view = MigrationView { next, ..new_view(to.record, to.is_dry_run) };
    for run in runs {
        let result = if to.is_dry_run {
            preview(service, handle.reader(), run, to.flow)
        } else {
            let command = Command::Migrate { to: to.record.id, by: by.clone(), reason: reason.clone() };
            match handle.command_call(run, command, call.clone()) {
                Ok(_) => Ok(()),
                Err(EngineError::Refused(refusal)) => Err(refusal),
                Err(other) => return Err(other.into()),
            }
        };
        count(&mut view, run, result);
    }
    Ok(view)
}

fn new_view(target: &FlowRecord, dry_run: bool) -> MigrationView {
    let (flow, to) = (target.name.to_string(), target.version.to_string());
    MigrationView { flow, to, dry_run, ..MigrationView::default() }
}

/// Adds what came of one run.
fn count(view: &mut MigrationView, run: RunId, result: Result<(), Refusal>) {
    view.total += 1;
    let Err(refusal) = result else {
        view.moved += 1;
        return;
    };
    let step = if let Refusal::CannotMigrate(cannot) = &refusal { cannot.step.clone() } else { None };
    view.not_moved.push(NotMoved { run: run.to_string(), step, why: refusal.to_string() });
}

/// Checks one run on what is durable now.
fn preview(service: &Service, reader: &dyn Reader, id: RunId, to: &Flow) -> Result<(), Refusal> {
    let unknown = Refusal::UnknownRun(id);
    let Ok(Some(run)) = reader.run(id) else { return Err(unknown) };
    if run.is_final() {
        return Err(Refusal::Final(run.state()));
    }
    let Ok(from) = service.flows.get(reader, run.flow) else { return Err(unknown) };
    if run.flow == to.id { Ok(()) } else { check_migration(&run, &from, to).map(|_| ()) }
}

fn find_named_runs(
    service: &Service,
    reader: &dyn Reader,
    wanted: &MigrateFlow,
) -> Result<Vec<RunId>, ServiceError> {
    wanted.runs.iter().map(|run| run_name::find_run(reader, &service.flows, run)).collect()
}

/// Lists open runs of other versions of the flow, newest first, children and handlers too, and where the list goes on.
fn list_open_runs(
    reader: &dyn Reader,
    wanted: &MigrateFlow,
    to: FlowId,
) -> Result<(Vec<RunId>, Option<String>), ServiceError> {
    let states = RunState::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let from =
        wanted.from.as_deref().map(|from| find_version(reader, &wanted.flow, Some(from))).transpose()?;
    let filter = RunFilter {
        states,
        flow: Some(wanted.flow.as_str().into()),
        versions: from.map(|from| vec![from.id]),
        ..RunFilter::default()
    };
    let after = wanted.after.as_deref().map(parse_cursor).transpose()?.map(RunPlace::Created);
    let page = reader.page(&filter, RunSort::Created, after, wanted.limit.clamp(1, MOST))?;
    let next = match page.next {
        Some(RunPlace::Created(run)) => Some(run.to_string()),
        Some(RunPlace::Updated(_) | RunPlace::NextResume(..)) | None => None,
    };
    let runs = page.runs.into_iter().filter(|run| run.flow != to).map(|run| run.id).collect();
    Ok((runs, next))
}

fn parse_cursor(text: &str) -> Result<RunId, ServiceError> {
    text.parse().map_err(|_| {
        ServiceError::bad_cursor(format!(
            "`{text}` is not where a migration goes on; give `next` of the call before, as it is"
        ))
    })
}
