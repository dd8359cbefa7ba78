//! Builds the run document.

use std::sync::Arc;

use serde_json::value::RawValue;
use unstuck_api as api;
use unstuck_api::runs::RunView;
use unstuck_core::id::RunId;
use unstuck_core::json::Payload;
use unstuck_core::model::run::{Failing, Phase, RunState};
use unstuck_engine::document::{open_error, run_document};
use unstuck_engine::flows::{Flows, outline};
use unstuck_engine::request::EngineError;
use unstuck_store::contract::Store;

use crate::service::{Service, ServiceError, payload_of};
use crate::{explain, family, policies, run_name, set_aside};

/// How many runs below it are read.
const LOOKED_AT: usize = 1_000;

/// Shows a run that is given by name.
pub(crate) fn show(
    service: &Service,
    store: &mut dyn Store,
    flows: &mut Flows,
    name: &str,
) -> Result<RunView, ServiceError> {
    let id = run_name::find_run(store, flows, name)?;
    let (run, go_on) = with_go_on(service, store, flows, id)?;
    Ok(RunView { run, go_on })
}

/// Builds the document of a run as JSON.
pub fn document(
    service: &Service,
    store: &mut dyn Store,
    flows: &mut Flows,
    run: RunId,
) -> Result<Box<RawValue>, ServiceError> {
    with_go_on(service, store, flows, run).map(|(document, _)| document)
}

/// Builds the document of a run, and the command that continues it if it is idle.
fn with_go_on(
    service: &Service,
    store: &mut dyn Store,
    flows: &mut Flows,
    run: RunId,
) -> Result<(Box<RawValue>, Option<String>), ServiceError> {
    let (run, history) = explain::stored(store, run)?;
    let set_aside = set_aside::set_aside(store, flows, &run)?;
    // For a flow that cannot be compiled, the names of its steps are known, but not its rules.
    let (flow, history) = match flows.get(store, run.flow) {
        Ok(flow) => (flow, history),
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(_) => (Arc::new(outline(store, &run)?), Vec::new()),
    };
    // A run in error may have a child that a policy resumes.
    let below = match run.state() {
        RunState::Error => family::under_way(store, run.clone(), LOOKED_AT)?,
        _ => Vec::new(),
    };
    let go_on = if set_aside.is_some() { None } else { service.continue_command(store, &run, &below)? };
    let mut document =
        run_document(&run, &flow, &history, &mut |payload: &Payload| payload_of(store, payload));
    if let (Some(handler), Phase::Failing(failing)) = (&mut document.handler, &run.phase) {
        handler.error = handler_error(store, flows, failing)?;
    }
    document.set_aside = set_aside;
    if document.next_auto_resume.is_some() {
        document.policies_paused = policies::paused(store)?;
    }
    document.idle = go_on.is_some();
    document.go_on.clone_from(&go_on);
    serde_json::value::to_raw_value(&document)
        .map(|document| (document, go_on))
        .map_err(|error| ServiceError::internal(format!("{} cannot be written as JSON: {error}", run.id)))
}

/// Returns the error of a failing run's handler, which the run itself does not know.
fn handler_error(
    store: &mut dyn Store,
    flows: &mut Flows,
    failing: &Failing,
) -> Result<Option<api::Error>, ServiceError> {
    let Some(id) = failing.handler.as_ref().and_then(|handler| handler.run) else { return Ok(None) };
    let Some(run) = store.run(id)? else { return Ok(None) };
    Ok(flows.get(store, run.flow).ok().and_then(|flow| open_error(&run, &flow)))
}
