//! Starts runs: checks what can be checked on the caller's thread, and returns the run as it is then.

use std::collections::HashMap;
use std::sync::Arc;

use unstuck_api::http::StartBody;
use unstuck_api::request::StartRequest;
use unstuck_api::runs::ChangedView;
use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_core::decide::Answer;
use unstuck_core::duration::{parse_duration, parse_instant};
use unstuck_core::event::{Actor, Event};
use unstuck_core::id::RunId;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::run::Run;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Time;
use unstuck_engine::call::Call;
use unstuck_engine::request::{EngineError, StartRun};
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::Reader;

use crate::change_run::{describe_run, parse_json, view_of_explained};
use crate::service::{Service, ServiceError, now, to_json};
use crate::{apply_flows, convert, explain};

/// Flows that were looked up for several starts, each once.
pub struct StartFlows {
    found: HashMap<(String, Option<String>), Arc<Flow>>,
    /// Whether local processes are executed here.
    allow_run: bool,
}

impl StartFlows {
    pub fn new(allow_run: bool) -> StartFlows {
        StartFlows { found: HashMap::new(), allow_run }
    }

    fn find(
        &mut self,
        service: &Service,
        reader: &dyn Reader,
        body: &StartBody,
    ) -> Result<Arc<Flow>, ServiceError> {
        let name = (body.flow.clone(), body.version.clone());
        if let Some(flow) = self.found.get(&name) {
            return Ok(flow.clone());
        }
        let record = apply_flows::find_version(reader, &body.flow, body.version.as_deref())?;
        let flow = service.flows.get(reader, record.id)?;
        if !self.allow_run {
            check_runs_nothing(&flow)?;
        }
        self.found.insert(name, flow.clone());
        Ok(flow)
    }
}

/// Refuses a flow with steps that are commands of this machine, where these are not executed.
pub fn check_runs_nothing(flow: &Flow) -> Result<(), ServiceError> {
    let Some(step) = flow.steps.iter().find(|step| matches!(step.kind, Kind::Process(_))) else {
        return Ok(());
    };
    let mut problem = ProblemDocument::new(
        ProblemType::NotEnabled,
        format!(
            "step `{}` of flow `{}` is a command (`run:`), and this server executes none. Start it with --allow-run, or let a worker do it",
            step.id, flow.name
        ),
    );
    problem.about.setting = Some("allow-run".to_owned());
    problem.about.flow = Some(flow.name.to_string());
    problem.about.step = Some(step.id.to_string());
    Err(ServiceError::Refused(Box::new(problem)))
}

/// Builds the order to start a run, and checks its input on this thread, so that validation does not delay the engine. With a key
/// the run may be there already, and what counts is whether it has the same input.
pub fn build_start(
    service: &Service,
    reader: &dyn Reader,
    flows: &mut StartFlows,
    body: StartBody,
    by: &str,
    now: Time,
) -> Result<StartRun, ServiceError> {
    let flow = flows.find(service, reader, &body)?;
    let input = match &body.input {
        Some(input) => parse_json(input.get(), "the input")?,
        None => parse_json("{}", "the input")?,
    };
    if body.key.is_none() {
        unstuck_flow::check_input(&flow, &input.value())
            .map_err(|problems| EngineError::from(Refusal::BadInput(problems)))?;
    }
    Ok(StartRun {
        flow: flow.name.clone(),
        version: body.version.map(Arc::from),
        key: body.key.map(Arc::from),
        input,
        labels: Some(Arc::new(body.labels)),
        priority: body.priority.unwrap_or(0),
        deadline: body.deadline.as_deref().map(|text| read_deadline(text, now)).transpose()?,
        on_duplicate: convert::to_core_on_duplicate(body.on_duplicate.unwrap_or_default()),
        home: None,
        by: Actor::User(by.into()),
    })
}

/// Starts a run, and returns it as it is then, as JSON.
pub(crate) fn start_run(
    service: &Service,
    handle: &Handle,
    request: StartRequest,
    call: &Call,
) -> Result<String, ServiceError> {
    let mut flows = StartFlows::new(service.allow_run);
    let order = build_start(service, handle.reader(), &mut flows, request.start, &request.by, now())?;
    let started = read_started(&handle.start_call(order, call.clone())?)?;
    to_json(&build_started_view(service, handle.reader(), started)?)
}

/// Reads a deadline: how long from now, or until when.
fn read_deadline(text: &str, now: Time) -> Result<Time, ServiceError> {
    match (parse_duration(text), parse_instant(text)) {
        (Ok(span), _) => Ok(now + span),
        (Err(_), Ok(instant)) => Ok(instant),
        (Err(_), Err(_)) => Err(ServiceError::refused(format!(
            "`deadline`: `{text}` is neither a length of time such as `2h` nor an instant such as `2030-01-31T08:30:00Z`"
        ))),
    }
}

/// What came of an order to start a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedRun {
    pub run: RunId,
    /// Whether it was started now.
    pub is_new: bool,
}

/// Reads the engine's answer to a start.
pub fn read_started(answer: &Answer) -> Result<StartedRun, ServiceError> {
    match answer {
        Answer::Started(run) => Ok(StartedRun { run: *run, is_new: true }),
        Answer::Exists(run) => Ok(StartedRun { run: *run, is_new: false }),
        Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled => {
            Err(ServiceError::internal("the engine did not name the run it started; please report this"))
        }
    }
}

/// Returns the run that was started, or was there already, as it is now.
pub fn build_started_view(
    service: &Service,
    reader: &dyn Reader,
    started: StartedRun,
) -> Result<ChangedView, ServiceError> {
    describe_run(service, reader, started.run, !started.is_new)
}

/// So many runs are read at once. One that was there already may have a long history.
const READ_AT_ONCE: usize = 64;

/// The same of many, in the same order: they are read together.
pub fn build_started_views(
    service: &Service,
    reader: &dyn Reader,
    started: &[StartedRun],
) -> Result<Vec<Result<ChangedView, ServiceError>>, ServiceError> {
    let view = |(started, loaded): (&StartedRun, Option<(Run, Vec<Event>)>)| {
        let (run, history) = loaded.ok_or_else(|| explain::no_such_run(started.run))?;
        let explained = explain::explain_loaded_run(service, reader, run, &history)?;
        Ok(view_of_explained(&explained, !started.is_new))
    };
    let mut views = Vec::with_capacity(started.len());
    for some in started.chunks(READ_AT_ONCE) {
        let ids: Vec<RunId> = some.iter().map(|started| started.run).collect();
        views.extend(some.iter().zip(reader.runs_with_history(&ids)?).map(view));
    }
    Ok(views)
}
