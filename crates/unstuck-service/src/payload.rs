//! One input or output of a run, a step or an item, by its name.

use unstuck_core::json::Payload;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Phase, Run, RunOutcome};
use unstuck_core::model::unit::{StepRun, Unit, UnitState};
use unstuck_core::step_name::{StepNameError, find_step, find_unit};
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::Reader;

use crate::items::load_run_and_flow;
use crate::service::{ServiceError, load_payload};

/// Loads the payload that a name such as `input`, `fetch.output` or `fetch[3].input` means, as the text that came.
pub(crate) fn load_named_payload(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: &str,
    of: &str,
) -> Result<String, ServiceError> {
    let (run, flow) = load_run_and_flow(reader, flows, run)?;
    let payload = find_payload(&run, &flow, of)?;
    Ok(load_payload(reader, payload).text().to_owned())
}

fn find_payload<'a>(run: &'a Run, flow: &Flow, of: &str) -> Result<&'a Payload, ServiceError> {
    let absent =
        |sentence: String| ServiceError::not_found(format!("{}: {sentence}", run.id)).named("payload", of);
    match of.rsplit_once('.') {
        None if of == "input" => Ok(&run.input),
        None if of == "output" => run_output(run)
            .ok_or_else(|| absent(format!("the run is {}, so it has no output", run.state().word()))),
        Some((step, "input")) => {
            let unit = find_named_unit(run, flow, step)?;
            let begun = !matches!(unit.state, UnitState::Pending | UnitState::Skipped { .. });
            let input = unit.input.as_ref().or(begun.then_some(&run.input));
            input.ok_or_else(|| absent(format!("step `{step}` has not begun, so it has no input yet")))
        }
        Some((step, "output")) => {
            let (output, state) = step_output(run, flow, step)?;
            output.ok_or_else(|| absent(format!("step `{step}` is {state}, so it has no output")))
        }
        None | Some(_) => Err(ServiceError::refused(format!(
            "`{of}` names no payload; write `input`, `output`, `STEP.input`, `STEP.output` or `STEP[3].output`"
        ))),
    }
}

fn run_output(run: &Run) -> Option<&Payload> {
    match &run.phase {
        Phase::Ended(ended) => match &ended.how {
            RunOutcome::Completed { output } => Some(output),
            RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. } | RunOutcome::Superseded { .. } => None,
        },
        Phase::Going | Phase::Failing(_) => None,
    }
}

/// Returns the output of a step or item, if it has one, and the word for its state. The output of a `forEach` is the list of those of its
/// items.
fn step_output<'a>(
    run: &'a Run,
    flow: &Flow,
    name: &str,
) -> Result<(Option<&'a Payload>, &'static str), ServiceError> {
    if !name.ends_with(']') {
        let step = find_step(flow, name).map_err(|wrong| ServiceError::from(wrong).named("step", name))?;
        let state = run.step(step);
        if matches!(state, StepRun::Items(_)) {
            return Ok((state.output(), state.word()));
        }
    }
    let unit = find_named_unit(run, flow, name)?;
    let output = if let UnitState::Completed { output, .. } = &unit.state { Some(output) } else { None };
    Ok((output, unit.state.word()))
}

fn find_named_unit<'a>(run: &'a Run, flow: &Flow, name: &str) -> Result<&'a Unit, ServiceError> {
    let named = |error: ServiceError| error.named("step", name);
    let unit = find_unit(run, flow, name).map_err(|wrong| match wrong {
        StepNameError::WrongState(_) => named(ServiceError::not_found(format!(
            "`{name}` has not started yet, so it has no input and no output"
        ))),
        wrong => named(wrong.into()),
    })?;
    run.unit(unit)
        .ok_or_else(|| named(ServiceError::not_found(format!("{} has no step `{name}` any more", run.id))))
}
