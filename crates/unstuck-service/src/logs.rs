//! What the attempts of a run printed, and what went wrong with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use unstuck_api as api;
use unstuck_core::decide::unit_name;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Kind;
use unstuck_core::model::log::{AttemptLog, IgnoredLine, Tail};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::refusal::Refusal;
use unstuck_engine::document::run_document;
use unstuck_engine::executor::process::own_context;
use unstuck_engine::flows::{Flows, outline};
use unstuck_engine::request::EngineError;
use unstuck_store::contract::Store;

use crate::run_name;
use crate::service::{Service, ServiceError};

/// The logs of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogsView {
    pub run: String,
    /// How many older logs were dropped.
    pub dropped: u64,
    /// By generation, then in the order of the steps, then by attempt.
    pub logs: Vec<LogView>,
}

/// What one attempt printed, or why it went wrong.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogView {
    pub step: String,
    pub generation: u32,
    pub attempt: u32,
    /// How it ended, unless the run no longer knows; `active` while it runs.
    pub state: Option<String>,
    #[serde(default, with = "unstuck_api::json_form::optional_time")]
    pub ended_at: Option<Timestamp>,
    /// Of an attempt that went wrong.
    pub cause: Option<String>,
    /// What an attempt that went wrong told besides: all of its context, or what is not in the streams below.
    pub context: Option<String>,
    pub stderr: Option<Tail>,
    pub stdout: Option<Tail>,
    /// Lines of its report that were ignored.
    pub ignored: Vec<IgnoredLine>,
    pub more_ignored: u64,
}

/// Where a log belongs: generation, unit, attempt.
type AttemptKey = (u32, UnitRef, u32);

pub(crate) fn logs(
    service: &Service,
    store: &mut dyn Store,
    flows: &mut Flows,
    run: &str,
    step: Option<&str>,
) -> Result<LogsView, ServiceError> {
    let id = run_name::find_run(store, flows, run)?;
    let run = store.run(id)?.ok_or(EngineError::Refused(Refusal::UnknownRun(id)))?;
    // Of a flow that cannot be used, the names of the steps are known.
    let flow = match flows.get(store, run.flow) {
        Ok(flow) => flow,
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(_) => Arc::new(outline(store, &run)?),
    };
    // Payloads are not shown.
    let document = run_document(&run, &flow, &[], &mut |_| Json::NULL);
    if let Some(step) = step.filter(|wanted| !document.steps.iter().any(|step| is_meant(&step.id, wanted))) {
        let option = &service.option;
        return Err(ServiceError::not_found(format!(
            "{id} has no step `{step}`; `unstuck show {id}{option}` lists its steps"
        )));
    }
    let kept = store.logs(id)?;
    let mut printed: BTreeMap<AttemptKey, AttemptLog> = BTreeMap::new();
    for record in kept.kept {
        let attempt = record.attempt;
        printed.insert((attempt.generation, attempt.unit, attempt.attempt), record.log);
    }
    let mut attempts = attempts_of(&run, document, |unit| unit_name(&flow, unit));
    let mut places: Vec<AttemptKey> = attempts.keys().chain(printed.keys()).copied().collect();
    places.sort_unstable();
    places.dedup();
    let all = places.into_iter().filter_map(|place| {
        let name = unit_name(&flow, place.1);
        let attempt = attempts.remove(&place);
        let is_process = matches!(flow.step(place.1.step).kind, Kind::Process(_));
        let is_running = is_process && attempt.as_ref().is_some_and(|attempt| attempt.state == "active");
        let printed = printed.remove(&place).or_else(|| is_running.then(AttemptLog::default));
        log(name, place, attempt, printed)
    });
    let logs = all.filter(|log| step.is_none_or(|wanted| is_meant(&log.step, wanted))).collect();
    Ok(LogsView { run: id.to_string(), dropped: kept.dropped, logs })
}

/// The attempts that the run knows, by where they belong.
fn attempts_of(
    run: &Run,
    document: api::Run,
    name: impl Fn(UnitRef) -> String,
) -> BTreeMap<AttemptKey, api::Attempt> {
    let mut by_name: BTreeMap<String, Vec<api::Attempt>> =
        document.steps.into_iter().map(|step| (step.id, step.attempts)).collect();
    let mut found = BTreeMap::new();
    run.each_unit(|unit, _| {
        for attempt in by_name.remove(&name(unit)).into_iter().flatten() {
            found.insert((run.generation, unit, attempt.attempt), attempt);
        }
    });
    found
}

/// What there is to show of an attempt, if there is anything.
fn log(
    step: String,
    (generation, _, number): AttemptKey,
    attempt: Option<api::Attempt>,
    printed: Option<AttemptLog>,
) -> Option<LogView> {
    let (state, ended_at, error) = match attempt {
        Some(attempt) => (Some(attempt.state), attempt.ended_at, attempt.error),
        None => (None, None, None),
    };
    if error.is_none() && printed.is_none() {
        return None;
    }
    let (cause, context) = match error {
        Some(error) => (Some(error.cause), error.context),
        None => (None, None),
    };
    let context = match &printed {
        None => context,
        Some(log) => context.and_then(|context| own_context(&context, log).map(str::to_owned)),
    };
    let AttemptLog { stderr, stdout, ignored, more_ignored } = printed.unwrap_or_default();
    let some = |tail: Tail| Some(tail).filter(|tail| !tail.is_empty());
    Some(LogView {
        step,
        generation,
        attempt: number,
        state,
        ended_at,
        cause,
        context,
        stderr: some(stderr),
        stdout: some(stdout),
        ignored,
        more_ignored,
    })
}

/// Whether a step is the one that was named, or an item of it.
fn is_meant(step: &str, wanted: &str) -> bool {
    step.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}
