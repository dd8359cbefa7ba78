//! Requests that change a run: builds the command from names, lets the engine decide it, and returns the run as it is
//! then.

use std::sync::Arc;

use unstuck_api::ProblemDocument;
use unstuck_api::request::{AmendRequest, RerunOptions, RerunScope, RunOperation, RunRequest};
use unstuck_api::runs::{ChangedView, ForgottenView, RerunPreviewView};
use unstuck_core::command::{Amendment, Changes, Command, NewDeadline, Rerun};
use unstuck_core::decide::{self, Answer};
use unstuck_core::duration::{parse_duration, parse_instant};
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::refusal::Refusal;
use unstuck_core::step_name::{find_step, find_unit};
use unstuck_engine::call::Call;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::{Handle, Reply};
use unstuck_store::contract::{Reader, StoreError};

use crate::explain::ExplainedRun;
use crate::service::{Service, ServiceError, to_json};
use crate::{convert, explain, migrate, run_name};

/// Handles a request to change a run, and returns the changed run, or the forgotten ones, as JSON.
pub(crate) fn change_run(
    service: &Service,
    handle: &Handle,
    change: RunRequest,
    call: &Call,
) -> Result<String, ServiceError> {
    if matches!(change.what, RunOperation::Forget) {
        return to_json(&forget_run(service, handle, &change.run, call)?);
    }
    check_new_input(service, handle, &change)?;
    if let RunOperation::Rerun { again, options, .. } = &change.what
        && options.dry_run
    {
        let (reader, flows) = (handle.reader(), &service.flows);
        return to_json(&preview_rerun(reader, flows, &change.run, again.clone(), options)?);
    }
    if let RunOperation::Migrate { to, dry_run: true, .. } = &change.what {
        return to_json(&migrate::preview_run(service, handle.reader(), &change.run, to.as_deref())?);
    }
    if let RunOperation::Migrate { to, .. } = &change.what {
        migrate::check_target(service, handle.reader(), &change.run, to.as_deref())?;
    }
    let (run, command) = resolve_command(handle.reader(), &service.flows, change)?;
    let reply = handle.command_call(run, command, call.clone());
    to_json(&build_changed_view(service, handle.reader(), run, reply)?)
}

/// Reads the run after a change, or converts the refusal.
fn build_changed_view(
    service: &Service,
    reader: &dyn Reader,
    run: RunId,
    reply: Reply,
) -> Result<ChangedView, ServiceError> {
    let answer = reply.map_err(|error| match error.into() {
        ServiceError::Refused(problem) => add_run_to_problem(run, *problem),
        other @ (ServiceError::Unavailable(_) | ServiceError::Stopped) => other,
    })?;
    describe_run(service, reader, run, answer == Answer::Already)
}

/// Returns a run as it is after a change; `already` where it had been made before.
pub(crate) fn describe_run(
    service: &Service,
    reader: &dyn Reader,
    run: RunId,
    already: bool,
) -> Result<ChangedView, ServiceError> {
    Ok(view_of_explained(&explain::explain_run(service, reader, run)?, already))
}

/// Returns the view of a run that is explained.
pub(crate) fn view_of_explained(explained: &ExplainedRun, already: bool) -> ChangedView {
    ChangedView {
        run: explained.run().id.to_string(),
        already,
        state: explained.run().state().word().to_owned(),
        idle: explained.continue_command().is_some(),
        headline: explained.headline().to_owned(),
        go_on: explained.continue_command().map(str::to_owned),
    }
}

/// Names the run in a problem that the engine reports without one.
fn add_run_to_problem(run: RunId, mut problem: ProblemDocument) -> ServiceError {
    // Some sentences begin with the id of the run already.
    if !problem.detail.starts_with(&run.to_string()) {
        problem.detail = format!("{run}: {}", problem.detail);
    }
    problem.about.run.get_or_insert_with(|| run.to_string());
    ServiceError::Refused(Box::new(problem))
}

/// Checks a new input on the caller's thread, so that validation does not delay the engine.
fn check_new_input(service: &Service, handle: &Handle, change: &RunRequest) -> Result<(), ServiceError> {
    let (RunOperation::Resume { input: Some(input), .. } | RunOperation::Rerun { input: Some(input), .. }) =
        &change.what
    else {
        return Ok(());
    };
    let input = parse_json(input, "the input")?;
    let (reader, flows) = (handle.reader(), &service.flows);
    let run = run_name::find_run(reader, flows, &change.run)?;
    let flow = with_run(reader, flows, run, |_, flow| Ok(flow.clone()))?;
    unstuck_flow::check_input(&flow, &input.value()).map_err(|problems| {
        match Refusal::BadInput(problems).into() {
            ServiceError::Refused(problem) => add_run_to_problem(run, *problem),
            unanswered @ (ServiceError::Unavailable(_) | ServiceError::Stopped) => unanswered,
        }
    })
}

/// Resolves the names of a request into the run and the command.
fn resolve_command(
    reader: &dyn Reader,
    flows: &ReadFlows,
    change: RunRequest,
) -> Result<(RunId, Command), ServiceError> {
    let RunRequest { run, by, what } = change;
    let by = Actor::User(by.into());
    let words = |reason: Option<String>| reason.map(Arc::<str>::from);
    let id = run_name::find_run(reader, flows, &run)?;
    let command = match what {
        RunOperation::Choose { step, choice } => {
            let (unit, choice) = (resolve_unit(reader, flows, id, &step)?, convert::to_core_choice(choice));
            Command::Choose { unit, choice, by, bulk: None }
        }
        RunOperation::Resume { step, reason, input, step_input } => {
            let unit = step.map(|step| resolve_unit(reader, flows, id, &step)).transpose()?;
            let changes = Box::new(parse_changes(input, step_input)?);
            Command::Resume { unit, by, reason: words(reason), changes }
        }
        RunOperation::Acknowledge { step, reason } => {
            let unit = step.map(|step| resolve_unit(reader, flows, id, &step)).transpose()?;
            Command::Acknowledge { unit, by, reason: words(Some(reason)) }
        }
        RunOperation::Complete { step, output, reason } => {
            let unit = resolve_unit(reader, flows, id, &step)?;
            Command::Complete { unit, output: parse_json(&output, "the output")?, by, reason: words(reason) }
        }
        RunOperation::Skip { step, reason } => {
            Command::Skip { unit: resolve_unit(reader, flows, id, &step)?, by, reason: words(reason) }
        }
        RunOperation::Pause { reason } => Command::Pause { by, reason: words(reason) },
        RunOperation::Unpause => Command::Unpause { by },
        RunOperation::Cancel { reason } => Command::Cancel { by, reason: words(reason) },
        RunOperation::Amend(what) => {
            let AmendRequest { priority, labels, deadline, reason } = what;
            let deadline = deadline.as_deref().map(read_new_deadline).transpose()?;
            let changes = Amendment { priority, labels, deadline };
            if changes == Amendment::default() {
                return Err(ServiceError::refused(
                    "nothing to change: give a priority, a label or a deadline",
                ));
            }
            Command::Amend { changes: Box::new(changes), by, reason: words(reason) }
        }
        RunOperation::Migrate { to, reason, .. } => {
            let to = migrate::find_target(reader, flows, id, to.as_deref())?.id;
            Command::Migrate { to, by, reason: words(reason) }
        }
        RunOperation::Signal { name, payload } => Command::Signal {
            name: name.into(),
            payload: parse_json(&payload, "the payload of the signal")?,
            by,
        },
        RunOperation::Rerun { again, input, step_input, options } => {
            let what = resolve_rerun(reader, flows, id, again)?;
            let deadline = options.deadline.as_deref().map(read_new_deadline).transpose()?;
            let changes =
                Changes { cancel_first: options.cancel_first, deadline, ..parse_changes(input, step_input)? };
            Command::Rerun { what, changes: Box::new(changes), by }
        }
        RunOperation::Forget => {
            return Err(ServiceError::refused("this run cannot be forgotten that way; please report this"));
        }
    };
    Ok((id, command))
}

/// Reads a deadline that takes the place of another: how long from now, until when, or `none`.
fn read_new_deadline(text: &str) -> Result<NewDeadline, ServiceError> {
    if text == "none" {
        return Ok(NewDeadline::None);
    }
    match (parse_duration(text), parse_instant(text)) {
        (Ok(span), _) => Ok(NewDeadline::After(span)),
        (Err(_), Ok(instant)) => Ok(NewDeadline::At(instant)),
        (Err(_), Err(_)) => Err(ServiceError::refused(format!(
            "`deadline`: `{text}` is neither a length of time such as `2h`, an instant such as `2030-01-31T08:30:00Z`, \
             nor `none`"
        ))),
    }
}

/// Parses the texts of changed inputs.
fn parse_changes(input: Option<String>, step_input: Option<String>) -> Result<Changes, ServiceError> {
    Ok(Changes {
        input: input.map(|input| parse_json(&input, "the input")).transpose()?,
        step_input: step_input.map(|input| parse_json(&input, "the input of the step")).transpose()?,
        ..Changes::default()
    })
}

/// Parses JSON that a user has typed; `what` names it in the error.
pub(crate) fn parse_json(text: &str, what: &str) -> Result<Json, ServiceError> {
    Json::parse(text).map_err(|error| ServiceError::refused(format!("{what} is not JSON: {error}")))
}

/// Finds the step or item of this name.
fn resolve_unit(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: RunId,
    name: &str,
) -> Result<UnitRef, ServiceError> {
    with_run(reader, flows, run, |run, flow| {
        find_unit(run, flow, name).map_err(|wrong| ServiceError::from(wrong).named("step", name))
    })
}

/// Loads a run with its flow, and calls `with` on them.
fn with_run<T>(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: RunId,
    with: impl FnOnce(&Run, &Arc<Flow>) -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    let run = reader.run(run)?.ok_or_else(|| ServiceError::not_found(format!("there is no run {run}")))?;
    let flow = flows.get(reader, run.flow)?;
    with(&run, &flow)
}

/// Says what a rerun would do, on what is durable now.
fn preview_rerun(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: &str,
    again: RerunScope,
    options: &RerunOptions,
) -> Result<RerunPreviewView, ServiceError> {
    let id = run_name::find_run(reader, flows, run)?;
    let what = resolve_rerun(reader, flows, id, again)?;
    options.deadline.as_deref().map(read_new_deadline).transpose()?;
    with_run(reader, flows, id, |run, flow| {
        let preview = decide::preview_rerun(run, flow, &what, options.cancel_first).map_err(|refusal| {
            match ServiceError::from(refusal) {
                ServiceError::Refused(problem) => add_run_to_problem(id, *problem),
                unanswered @ (ServiceError::Unavailable(_) | ServiceError::Stopped) => unanswered,
            }
        })?;
        let names = |steps: &[StepIndex]| steps.iter().map(|step| flow.step(*step).id.to_string()).collect();
        Ok(RerunPreviewView {
            run: id.to_string(),
            dry_run: true,
            generation: preview.generation,
            again: names(&preview.again),
            kept: names(&preview.kept),
        })
    })
}

/// Resolves the steps of a rerun.
fn resolve_rerun(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: RunId,
    again: RerunScope,
) -> Result<Rerun, ServiceError> {
    with_run(reader, flows, run, |_, flow| {
        Ok(match again {
            RerunScope::Continue => Rerun::Continue,
            RerunScope::All => Rerun::All,
            RerunScope::Steps(steps) => Rerun::Steps(
                steps
                    .iter()
                    .map(|id| {
                        find_step(flow, id).map_err(|wrong| ServiceError::from(wrong).named("step", id))
                    })
                    .collect::<Result<_, _>>()?,
            ),
        })
    })
}

/// Forgets a run. This may use the reserve of a full disk, because it frees space.
fn forget_run(
    service: &Service,
    handle: &Handle,
    run: &str,
    call: &Call,
) -> Result<ForgottenView, ServiceError> {
    let id = run_name::find_run(handle.reader(), &service.flows, run)?;
    let gone = match handle.forget_as(id, Some(call)) {
        // To forget makes room, and there is some in reserve for it.
        Err(EngineError::Store(StoreError::Full(_))) if handle.release_reserve()? => {
            handle.forget_as(id, Some(call))?
        }
        forgotten => forgotten?,
    };
    Ok(ForgottenView { forgotten: gone.iter().map(ToString::to_string).collect() })
}
