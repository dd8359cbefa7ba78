//! What the attempts of a run printed, and what went wrong with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_api as api;
use unstuck_api::logs::{IgnoredLine, LogView, LogsView, Tail};
use unstuck_core::decide::unit_name;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Kind;
use unstuck_core::model::log::{self, AttemptLog};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::refusal::Refusal;
use unstuck_engine::document::run_document;
use unstuck_engine::executor::process::own_context;
use unstuck_engine::flows::outline;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::Reader;

use crate::run_name;
use crate::service::{Service, ServiceError};

/// Where a log belongs: generation, unit, attempt.
type AttemptKey = (u32, UnitRef, u32);

/// Collects the logs of a run's attempts, of one step if it is named, with how each attempt ended.
pub(crate) fn list_logs(
    service: &Service,
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: &str,
    step: Option<&str>,
) -> Result<LogsView, ServiceError> {
    let id = run_name::find_run(reader, flows, run)?;
    let run = reader.run(id)?.ok_or(EngineError::Refused(Refusal::UnknownRun(id)))?;
    // Of a flow that cannot be used, the names of the steps are known.
    let flow = match flows.get(reader, run.flow) {
        Ok(flow) => flow,
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(_) => Arc::new(outline(&run, reader.flow(run.flow)?)),
    };
    // Payloads are not shown.
    let document = run_document(&run, &flow, &[], &mut |_| Json::NULL);
    if let Some(step) =
        step.filter(|wanted| !document.steps.iter().any(|step| is_wanted_step(&step.id, wanted)))
    {
        let option = &service.option;
        return Err(ServiceError::not_found(format!(
            "{id} has no step `{step}`; `unstuck show {id}{option}` lists its steps"
        )));
    }
    let kept = reader.logs(id)?;
    let mut printed: BTreeMap<AttemptKey, AttemptLog> = BTreeMap::new();
    for record in kept.kept {
        let attempt = record.attempt;
        printed.insert((attempt.generation, attempt.unit, attempt.attempt), record.log);
    }
    let mut attempts = collect_attempts(&run, document, |unit| unit_name(&flow, unit));
    let mut places: Vec<AttemptKey> = attempts.keys().chain(printed.keys()).copied().collect();
    places.sort_unstable();
    places.dedup();
    let all = places.into_iter().filter_map(|place| {
        let name = unit_name(&flow, place.1);
        let attempt = attempts.remove(&place);
        let is_process = matches!(flow.step(place.1.step).kind, Kind::Process(_));
        let is_running = is_process && attempt.as_ref().is_some_and(|attempt| attempt.state == "active");
        let printed = printed.remove(&place).or_else(|| is_running.then(AttemptLog::default));
        build_log_view(name, place, attempt, printed)
    });
    let logs = all.filter(|log| step.is_none_or(|wanted| is_wanted_step(&log.step, wanted))).collect();
    Ok(LogsView { run: id.to_string(), dropped: kept.dropped, logs })
}

/// Collects the attempts that the run document has, by generation, unit and number.
fn collect_attempts(
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

/// Builds the view of an attempt; nothing if it neither printed anything nor went wrong.
fn build_log_view(
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
    let some = |tail: log::Tail| {
        let log::Tail { text, bytes, cut } = tail;
        (bytes > 0).then(|| Tail { text: text.to_string(), bytes, cut })
    };
    let ignored = ignored.into_iter().map(|log::IgnoredLine { line, text, why }| IgnoredLine {
        line,
        text: text.to_string(),
        why: why.to_string(),
    });
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
        ignored: ignored.collect(),
        more_ignored,
    })
}

/// Returns whether a step is the named one, or an item of it.
fn is_wanted_step(step: &str, wanted: &str) -> bool {
    step.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}
