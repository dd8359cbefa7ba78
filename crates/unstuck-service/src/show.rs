//! Builds the run document.

use std::sync::Arc;

use serde_json::value::RawValue;
use unstuck_api as api;
use unstuck_api::runs::RunView;
use unstuck_core::id::RunId;
use unstuck_core::json::Payload;
use unstuck_core::model::run::{Failing, Phase, RunState};
use unstuck_core::summary::RunSummary;
use unstuck_engine::document::{open_error, run_document};
use unstuck_engine::flows::outline;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::Reader;

use crate::service::{Service, ServiceError, load_payload};
use crate::{explain, family, policies, run_name, set_aside};

/// How many runs below it are read.
const LOOKED_AT: usize = 1_000;

/// Shows a run that is given by name.
pub(crate) fn show_run(service: &Service, reader: &dyn Reader, name: &str) -> Result<RunView, ServiceError> {
    let id = run_name::find_run(reader, &service.flows, name)?;
    let (run, go_on) = build_document_with_continue_command(service, reader, id)?;
    Ok(RunView { run, go_on })
}

/// Builds the document of a run as JSON, in the form that every command and the API show.
pub fn build_run_document(
    service: &Service,
    reader: &dyn Reader,
    run: RunId,
) -> Result<Box<RawValue>, ServiceError> {
    build_document_with_continue_command(service, reader, run).map(|(document, _)| document)
}

/// Builds the document of a run, and the command that continues it if it is idle.
fn build_document_with_continue_command(
    service: &Service,
    reader: &dyn Reader,
    run: RunId,
) -> Result<(Box<RawValue>, Option<String>), ServiceError> {
    let flows = &service.flows;
    let (run, history) = explain::load_run_with_history(reader, run)?;
    let set_aside = set_aside::find_set_aside(reader, flows, &RunSummary::of(&run))?;
    // Of a flow that cannot be used, the names of the steps are known, and not the rules that anything was decided by.
    let (flow, history) = match flows.get(reader, run.flow) {
        Ok(flow) => (flow, history),
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(_) => (Arc::new(outline(&run, reader.flow(run.flow)?)), Vec::new()),
    };
    // A run in error may have a child that a policy resumes.
    let below = match run.state() {
        RunState::Error => family::load_runs_under_way(reader, run.clone(), LOOKED_AT)?,
        _ => Vec::new(),
    };
    let go_on = if set_aside.is_some() {
        None
    } else {
        service.continue_command(reader, &RunSummary::of(&run), &below)?
    };
    let mut document =
        run_document(&run, &flow, &history, &mut |payload: &Payload| load_payload(reader, payload));
    if let (Some(handler), Phase::Failing(failing)) = (&mut document.handler, &run.phase) {
        handler.error = find_handler_error(reader, flows, failing)?;
    }
    document.set_aside = set_aside;
    if document.next_auto_resume.is_some() {
        document.policies_paused = policies::load_pause(reader)?;
    }
    document.idle = go_on.is_some();
    document.go_on.clone_from(&go_on);
    serde_json::value::to_raw_value(&document)
        .map(|document| (document, go_on))
        .map_err(|error| ServiceError::internal(format!("{} cannot be written as JSON: {error}", run.id)))
}

/// Returns the error of a failing run's handler, which the run itself does not know.
fn find_handler_error(
    reader: &dyn Reader,
    flows: &ReadFlows,
    failing: &Failing,
) -> Result<Option<api::Error>, ServiceError> {
    let Some(id) = failing.handler.as_ref().and_then(|handler| handler.run) else { return Ok(None) };
    let Some(run) = reader.run(id)? else { return Ok(None) };
    Ok(flows.get(reader, run.flow).ok().and_then(|flow| open_error(&run, &flow)))
}
