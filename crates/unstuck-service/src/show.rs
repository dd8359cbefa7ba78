//! Builds the run document.

use std::sync::Arc;

use serde_json::value::RawValue;
use unstuck_api as api;
use unstuck_api::request::DocumentOptions;
use unstuck_api::runs::RunView;
use unstuck_core::event::Event;
use unstuck_core::evolve;
use unstuck_core::id::RunId;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::run::{Failing, Phase, Run, RunState};
use unstuck_core::summary::RunSummary;
use unstuck_engine::document::{open_error, run_document_with};
use unstuck_engine::flows::outline;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::{Reader, StoreError};

use crate::service::{Service, ServiceError, load_payload};
use crate::{explain, family, policies, run_name, set_aside};

/// How many runs below it are read.
const LOOKED_AT: usize = 1_000;

/// Shows a run that is given by name.
pub(crate) fn show_run(
    service: &Service,
    reader: &dyn Reader,
    name: &str,
    options: DocumentOptions,
) -> Result<RunView, ServiceError> {
    let id = run_name::find_run(reader, &service.flows, name)?;
    let loaded = explain::load_run_with_history(reader, id)?;
    let (run, go_on) = build_document_with_continue_command(service, reader, loaded, options)?;
    Ok(RunView { run, go_on })
}

/// Builds the document of a run as JSON, in the form that every command and the API show.
pub fn build_run_document(
    service: &Service,
    reader: &dyn Reader,
    run: RunId,
) -> Result<Box<RawValue>, ServiceError> {
    build_document_of(service, reader, run, DocumentOptions::default())
}

/// The same with as much of the run as is asked for.
pub fn build_document_of(
    service: &Service,
    reader: &dyn Reader,
    run: RunId,
    options: DocumentOptions,
) -> Result<Box<RawValue>, ServiceError> {
    build_document_of_loaded(service, reader, explain::load_run_with_history(reader, run)?, options)
}

/// The same of a run that is loaded already, with its whole history.
pub fn build_document_of_loaded(
    service: &Service,
    reader: &dyn Reader,
    loaded: (Run, Vec<Event>),
    options: DocumentOptions,
) -> Result<Box<RawValue>, ServiceError> {
    build_document_with_continue_command(service, reader, loaded, options).map(|(document, _)| document)
}

/// Builds the document of a run, and the command that continues it if it is idle.
fn build_document_with_continue_command(
    service: &Service,
    reader: &dyn Reader,
    loaded: (Run, Vec<Event>),
    options: DocumentOptions,
) -> Result<(Box<RawValue>, Option<String>), ServiceError> {
    let flows = &service.flows;
    let (run, history) = choose_generation(loaded, options.generation)?;
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
    let most = options.items.map_or(usize::MAX, |items| usize::try_from(items).unwrap_or(usize::MAX));
    let mut load = |payload: &Payload| {
        if options.leaves_out_payloads { Json::NULL } else { load_payload(reader, payload) }
    };
    let mut document = run_document_with(&run, &flow, &history, most, &mut load);
    document.root = find_top(reader, &run)?.map(|root| root.to_string());
    if let (Some(handler), Phase::Failing(failing)) = (&mut document.handler, &run.phase) {
        handler.error = find_handler_error(reader, flows, failing)?;
    }
    document.set_aside = set_aside;
    if document.next_auto_resume.is_some() {
        document.policies_paused = policies::load_pause(reader)?;
    }
    document.idle = go_on.is_some();
    document.go_on.clone_from(&go_on);
    if options.leaves_out_payloads {
        remove_payloads(&mut document);
    }
    serde_json::value::to_raw_value(&document)
        .map(|document| (document, go_on))
        .map_err(|error| ServiceError::internal(format!("{} cannot be written as JSON: {error}", run.id)))
}

/// Returns a run with its history; with a number, as that generation ended.
fn choose_generation(
    (run, mut history): (Run, Vec<Event>),
    generation: Option<u32>,
) -> Result<(Run, Vec<Event>), ServiceError> {
    let Some(wanted) = generation.filter(|wanted| *wanted != run.generation) else {
        return Ok((run, history));
    };
    let unknown = || {
        let has = match run.generation {
            1 => "only its first generation".to_owned(),
            newest => format!("generations 1 to {newest}"),
        };
        ServiceError::not_found(format!("{} has no generation {wanted}; there is {has}", run.id))
            .named("generation", &wanted.to_string())
    };
    if wanted == 0 || wanted > run.generation {
        return Err(unknown());
    }
    history.retain(|event| event.generation <= wanted);
    let then = evolve::replay(&history).ok_or_else(unknown)?;
    Ok((then, history))
}

/// Finds the run at the top of a family, where that is another one.
fn find_top(reader: &dyn Reader, run: &Run) -> Result<Option<RunId>, StoreError> {
    let (mut top, mut parent) = (None, run.origin.parent());
    while let Some(id) = parent {
        top = Some(id);
        parent = reader.run(id)?.and_then(|run| run.origin.parent());
    }
    Ok(top)
}

/// Leaves everything but what flows and workers have put into a run.
fn remove_payloads(run: &mut api::Run) {
    run.input = RawValue::NULL.to_owned();
    run.output = None;
    let handler = run.handler.as_mut().and_then(|handler| handler.error.as_mut());
    for error in run.error.as_mut().into_iter().chain(handler) {
        error.details = None;
    }
    run.steps.iter_mut().for_each(remove_step_payloads);
}

/// The same for a step or item.
pub(crate) fn remove_step_payloads(step: &mut api::Step) {
    step.output = None;
    for attempt in &mut step.attempts {
        attempt.progress = None;
        if let Some(error) = &mut attempt.error {
            error.details = None;
        }
    }
    if let Some(error) = &mut step.error {
        error.details = None;
    }
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
