//! What changes a run: the command is made from names, decided by the engine, and what came of it is told.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unstuck_core::bulk::may_rerun;
use unstuck_core::command::{Changes, Command, Rerun};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::refusal::Refusal;
use unstuck_engine::flows::Flows;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::{Store, StoreError};

use super::asked::{Again, Change, What};
use super::{Desk, Unanswered, explain, name, unit};

/// What came of a change.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub(super) enum Done {
    Changed(Changed),
    Forgotten(Forgotten),
}

/// A run that was changed, as it is now.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changed {
    pub(crate) run: String,
    /// Whether it had been so before.
    pub(crate) already: bool,
    pub(crate) state: String,
    /// Whether it has something to do and no process is executing it.
    #[serde(default)]
    pub(crate) idle: bool,
    /// Where it stands, in one sentence.
    pub(crate) headline: String,
    /// The command that goes on with it, where nobody executes its steps.
    pub(crate) go_on: Option<String>,
}

/// A run that is gone, with its children.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Forgotten {
    pub(crate) forgotten: Vec<String>,
}

pub(super) fn change(desk: &Desk, handle: &Handle, change: Change) -> Result<Done, Unanswered> {
    if matches!(change.what, What::Forget) {
        return forget(handle, change.run).map(Done::Forgotten);
    }
    let (run, command) = handle.read(move |store, flows| prepare(store, flows, change))??;
    check_input(handle, run, &command)?;
    let answer = handle.command(run, command).map_err(|error| match error.into() {
        Unanswered::Refused(sentence) => Unanswered::Refused(format!("{run}: {sentence}")),
        unanswered @ (Unanswered::Unavailable(_) | Unanswered::Stopped) => unanswered,
    })?;
    let desk = desk.clone();
    let told = handle.read(move |store, flows| -> Result<Changed, Unanswered> {
        let explained = explain::of_run(&desk, store, flows, run)?;
        Ok(Changed {
            run: run.to_string(),
            already: answer == Answer::Already,
            state: explained.run().state().word().to_owned(),
            idle: explained.go_on().is_some(),
            headline: explained.headline().to_owned(),
            go_on: explained.go_on().map(str::to_owned),
        })
    });
    told?.map(Done::Changed)
}

/// Checks a new input on the caller's thread: one that does not fit costs the engine, and everybody else, nothing.
fn check_input(handle: &Handle, run: RunId, command: &Command) -> Result<(), Unanswered> {
    let (Command::Resume { changes, .. } | Command::Rerun { changes, .. }) = command else {
        return Ok(());
    };
    let Some(input) = &changes.input else { return Ok(()) };
    let flow = handle.read(move |store, flows| -> Result<_, Unanswered> {
        let found = store.run(run)?.ok_or_else(|| Unanswered::Refused(format!("there is no run {run}")))?;
        Ok(flows.get(store, found.flow)?)
    })??;
    unstuck_flow::check_input(&flow, &input.value())
        .map_err(|problems| Unanswered::Refused(format!("{run}: {}", Refusal::BadInput(problems))))
}

/// The run that is meant, and what is asked of it.
fn prepare(store: &mut dyn Store, flows: &mut Flows, change: Change) -> Result<(RunId, Command), Unanswered> {
    let Change { run, by, what } = change;
    let by = Actor::User(by.into());
    let words = |reason: Option<String>| reason.map(Arc::<str>::from);
    let id = name::find(store, flows, &run)?;
    let command = match what {
        What::Choose { step, choice } => {
            Command::Choose { unit: unit_of(store, flows, id, &step)?, choice, by, bulk: None }
        }
        What::Resume { step, reason, input, step_input } => {
            let unit = step.map(|step| unit_of(store, flows, id, &step)).transpose()?;
            let changes = Box::new(changes(input, step_input)?);
            Command::Resume { unit, by, reason: words(reason), changes }
        }
        What::Acknowledge { step, reason } => {
            let unit = step.map(|step| unit_of(store, flows, id, &step)).transpose()?;
            Command::Acknowledge { unit, by, reason: words(Some(reason)) }
        }
        What::Complete { step, output, reason } => {
            let unit = unit_of(store, flows, id, &step)?;
            Command::Complete { unit, output: json(&output, "the output")?, by, reason: words(reason) }
        }
        What::Skip { step, reason } => {
            Command::Skip { unit: unit_of(store, flows, id, &step)?, by, reason: words(reason) }
        }
        What::Pause { reason } => Command::Pause { by, reason: words(reason) },
        What::Unpause => Command::Unpause { by },
        What::Cancel { reason } => Command::Cancel { by, reason: words(reason) },
        What::Signal { name, payload } => {
            Command::Signal { name: name.into(), payload: json(&payload, "the payload of the signal")?, by }
        }
        What::Rerun { again, input, step_input } => {
            let what = rerun(store, flows, id, again)?;
            Command::Rerun { what, changes: Box::new(changes(input, step_input)?), by }
        }
        What::Forget => {
            return Err(Unanswered::refused("this run cannot be forgotten that way; please report this"));
        }
    };
    Ok((id, command))
}

/// Inputs, from the texts of some JSON.
fn changes(input: Option<String>, step_input: Option<String>) -> Result<Changes, Unanswered> {
    Ok(Changes {
        input: input.map(|input| json(&input, "the input")).transpose()?,
        step_input: step_input.map(|input| json(&input, "the input of the step")).transpose()?,
        ..Changes::default()
    })
}

pub(super) fn json(text: &str, what: &str) -> Result<Json, Unanswered> {
    Json::parse(text).map_err(|error| Unanswered::Refused(format!("{what} is not JSON: {error}")))
}

/// The step or item of this name.
fn unit_of(store: &mut dyn Store, flows: &mut Flows, run: RunId, name: &str) -> Result<UnitRef, Unanswered> {
    with_run(store, flows, run, |run, flow| unit::unit(run, flow, name))
}

fn with_run<T>(
    store: &mut dyn Store,
    flows: &mut Flows,
    run: RunId,
    with: impl FnOnce(&unstuck_core::model::run::Run, &unstuck_core::model::flow::Flow) -> Result<T, Unanswered>,
) -> Result<T, Unanswered> {
    let run = store.run(run)?.ok_or_else(|| Unanswered::Refused(format!("there is no run {run}")))?;
    let flow = flows.get(store, run.flow)?;
    with(&run, &flow)
}

fn rerun(store: &mut dyn Store, flows: &mut Flows, run: RunId, again: Again) -> Result<Rerun, Unanswered> {
    with_run(store, flows, run, |run, flow| {
        may_rerun(run, matches!(again, Again::Continue)).map_err(Unanswered::Refused)?;
        Ok(match again {
            Again::Continue => Rerun::Continue,
            Again::All => Rerun::All,
            Again::Steps(steps) => {
                Rerun::Steps(steps.iter().map(|id| unit::step(flow, id)).collect::<Result<_, _>>()?)
            }
        })
    })
}

fn forget(handle: &Handle, run: String) -> Result<Forgotten, Unanswered> {
    let id = handle.read(move |store, flows| name::find(store, flows, &run))??;
    let gone = match handle.forget(id) {
        // To forget makes room, and there is some in reserve for it.
        Err(EngineError::Store(StoreError::Full(_)))
            if handle.read(|store, _| store.release_reserve())? =>
        {
            handle.forget(id)?
        }
        forgotten => forgotten?,
    };
    Ok(Forgotten { forgotten: gone.iter().map(ToString::to_string).collect() })
}
