//! The application service: handles every request about the runs of a store.
//!
//! The process that owns the store has a service, which other processes reach through the socket. If no process owns
//! the store, a command opens it and has a service of its own. Requests and answers are JSON either way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use unstuck_api::request::{Query, Request};
use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_core::event::Actor;
use unstuck_core::home::{Homes, is_idle};
use unstuck_core::id::RunId;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::run::Run;
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_engine::call::{AuditContext, Call};
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::{CallOrigin, Reader};

use crate::flows::flows_for_reading;
use crate::{
    apply_flows, bulk, change_policies, change_run, counts, errors, explain, family, history, items, list,
    logs, owner, payload, policies, replay, run_name, schedules, show, start_run, status, tokens,
    try_policies,
};

/// Where questions about runs are answered.
#[derive(Clone, Debug)]
pub struct Service {
    /// The home of the run that this process executes, if it executes one.
    pub home: Option<Arc<str>>,
    /// That run.
    pub run: Option<RunId>,
    /// What a command that is to be typed needs to find the same store.
    pub option: String,
    /// Another process has the store open and does not answer: this is what the file says.
    pub silent: Option<SilentOwner>,
    /// Flows compiled for those who read.
    pub flows: ReadFlows,
    /// Where this process serves the store: its address. It executes every run that has no other home.
    pub serves: Option<String>,
    /// Whether `run:` steps are executed for those who start runs here.
    pub allow_run: bool,
}

impl Default for Service {
    fn default() -> Service {
        let flows = flows_for_reading();
        let (home, run, option, silent, serves) = (None, None, String::new(), None, None);
        Service { home, run, option, silent, flows, serves, allow_run: true }
    }
}

/// A process that has the store open and does not answer.
#[derive(Clone, Copy, Debug)]
pub struct SilentOwner {
    pub process: Option<u32>,
    /// Somebody has stopped it.
    pub is_stopped: bool,
}

impl SilentOwner {
    /// Describes what the silent owner means for every run of the store.
    pub fn sentence(self) -> String {
        let process = self.process.map_or_else(|| "A process".to_owned(), |id| format!("Process {id}"));
        if self.is_stopped {
            format!(
                "{process} has the store open and is suspended (Ctrl-Z, SIGSTOP): no run continues until it does."
            )
        } else {
            format!("{process} has the store open but does not answer. The run may have changed since.")
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handled {
    pub json: String,
    /// It was carried out before under the same key, and nothing was done now.
    pub is_replayed: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceError {
    /// What is wrong, and what to do. Nothing was changed.
    Refused(Box<ProblemDocument>),
    /// The store is busy, full or out of reach. Nothing was changed, and the same may succeed later.
    Unavailable(Box<ProblemDocument>),
    /// The engine has stopped, and may or may not have done it.
    Stopped,
}

impl Service {
    /// Handles a request with a running engine, and returns the answer as JSON.
    pub fn handle_request(&self, handle: &Handle, request: Request) -> Result<String, ServiceError> {
        let audit = request.by().map(|by| AuditContext {
            by: Actor::User(by.into()),
            reason: None,
            origin: CallOrigin::default(),
        });
        self.handle_once(handle, request, &Call { audit, ..Call::default() })
    }

    /// The same, with what comes with the request. A repeat under the same key is answered from the present state.
    pub fn handle_request_as(
        &self,
        handle: &Handle,
        request: &Request,
        call: &Call,
    ) -> Result<Handled, ServiceError> {
        let repeat = || -> Result<Option<Handled>, ServiceError> {
            let Some(outcome) = replay::find_outcome(handle.reader(), call)? else { return Ok(None) };
            let json = replay::answer_repeat(self, handle.reader(), request, outcome)?;
            Ok(Some(Handled { json, is_replayed: true }))
        };
        if let Some(repeated) = repeat()? {
            return Ok(repeated);
        }
        match self.handle_once(handle, request.clone(), call) {
            Ok(json) => Ok(Handled { json, is_replayed: false }),
            // Another server may have carried it out meanwhile.
            Err(error) => repeat()?.ok_or(error),
        }
    }

    fn handle_once(&self, handle: &Handle, request: Request, call: &Call) -> Result<String, ServiceError> {
        self.carry_out(handle, request, call).map_err(|error| name_similar_flow(handle.reader(), error))
    }

    fn carry_out(&self, handle: &Handle, request: Request, call: &Call) -> Result<String, ServiceError> {
        match request {
            Request::Query(Query::Trial(of)) => to_json(&try_policies::try_with_engine(handle, of)?),
            Request::Query(query) => self.answer_query(handle.reader(), &query),
            Request::Change(change) => change_run::change_run(self, handle, change, call),
            Request::Policies(request) => change_policies::change_policies(handle, request, call),
            Request::Bulk(request) => bulk::change_bulk(self, handle, request, call),
            Request::Tokens(request) => to_json(&tokens::change_tokens(handle, request, call)?),
            Request::Start(request) => start_run::start_run(self, handle, *request, call),
            Request::Flows(request) => apply_flows::change_flows(self, handle, request, call),
            Request::Schedule(request) => schedules::change_schedule(self, handle, request, call),
        }
    }

    /// Answers a query from the store alone.
    pub fn answer_query(&self, reader: &dyn Reader, query: &Query) -> Result<String, ServiceError> {
        self.answer(reader, query).map_err(|error| name_similar_flow(reader, error))
    }

    fn answer(&self, reader: &dyn Reader, query: &Query) -> Result<String, ServiceError> {
        let flows = &self.flows;
        catch_panic(|| match query {
            Query::Owner => to_json(&std::process::id()),
            Query::Executing => to_json(&owner::build_owner_view(self, reader, flows)?),
            Query::Key { flow, key, input, on_duplicate } => {
                to_json(&owner::find_run_of_key(self, reader, (flow, key), input, *on_duplicate)?)
            }
            Query::Status => to_json(&status::build_status(self, reader, flows)?),
            Query::Runs(wanted) => to_json(&list::list_runs(self, reader, flows, wanted)?),
            Query::Counts(wanted) => to_json(&counts::count_runs(reader, flows, wanted)?),
            Query::Show { run, options } => to_json(&show::show_run(self, reader, run, *options)?),
            Query::Items(wanted) => to_json(&items::list_items(reader, flows, wanted)?),
            Query::Payload { run, of } => payload::load_named_payload(reader, flows, run, of),
            Query::Explain { run } => {
                let explained = explain::explain_named_run(self, reader, run)?;
                to_json(&explained.build_document(&self.option))
            }
            Query::ExplainPage { run, columns, without_happened } => {
                to_json(&explain::explain_on_page(self, reader, run, *columns, *without_happened)?)
            }
            Query::History { run, after, limit } => {
                to_json(&history::load_history_page(reader, flows, run, *after, *limit)?)
            }
            Query::Logs { run, step } => {
                to_json(&logs::list_logs(self, reader, flows, run, step.as_deref())?)
            }
            Query::Policies => to_json(&policies::list_policies(reader)?),
            Query::Policy { name } => to_json(&policies::show_policy(reader, name)?),
            Query::Kept { names } => to_json(&policies::list_stored_policies(reader, names)?),
            Query::Audit { name, before, limit } => {
                to_json(&policies::list_audit(reader, name.as_deref(), *before, *limit)?)
            }
            Query::Trial(of) => to_json(&try_policies::try_on_store(reader, of.clone())?),
            Query::Errors(wanted) => to_json(&errors::list_groups(reader, wanted)?),
            Query::ErrorGroup { group } => to_json(&errors::show_group(reader, group)?),
            Query::OpenErrors { group, after, limit } => {
                to_json(&errors::list_open(reader, group, after.as_deref(), *limit)?)
            }
            Query::ErrorRecords(wanted) => to_json(&errors::list_records(reader, wanted)?),
            Query::Names { first, second } => {
                to_json(&run_name::is_second_run(reader, flows, first, second)?)
            }
            Query::Schedules { after, limit } => {
                to_json(&schedules::list_schedules(reader, flows, after.as_deref(), *limit)?)
            }
            Query::Schedule { flow } => to_json(&schedules::show_schedule(reader, flows, flow)?),
            Query::Bulks { open_only, after, limit } => {
                to_json(&bulk::list_bulks(reader, *open_only, after.as_deref(), *limit)?)
            }
            Query::Bulk { bulk } => to_json(&bulk::show_bulk(self, reader, bulk)?),
            Query::Tokens { all } => to_json(&tokens::list_tokens(reader, *all)?),
            Query::BulkTargets { bulk, result, from, limit } => {
                to_json(&bulk::list_targets(reader, flows, (bulk, *result), *from, *limit)?)
            }
            Query::Flows { after, limit } => {
                to_json(&apply_flows::list_flows(reader, flows, &[], after.as_deref(), *limit)?)
            }
            Query::Flow { flow, version } => {
                to_json(&apply_flows::show_flow(reader, flows, flow, version.as_deref())?)
            }
        })
    }

    /// Returns the homes that this process drives.
    pub(crate) fn homes(&self) -> Homes {
        let homes = Homes::of(self.home.clone());
        if self.serves.is_some() { homes } else { homes.unserved() }
    }

    /// Returns the command that continues a run which is idle, or which has an idle run below it.
    pub(crate) fn continue_command(
        &self,
        reader: &dyn Reader,
        run: &RunSummary,
        below: &[Run],
    ) -> Result<Option<String>, ServiceError> {
        // The process that has the store open may execute it.
        if self.silent.is_some() {
            return Ok(None);
        }
        let homes = self.homes();
        if !run.is_idle(&homes) && !below.iter().any(|run| is_idle(run, &homes)) {
            return Ok(None);
        }
        let root = family::find_root(reader, run)?;
        if run.home.is_none() {
            return Ok(Some(format!("unstuck serve{}", self.option)));
        }
        Ok(Some(format!("unstuck run --continue {root}{}", self.option)))
    }
}

/// Adds the flow that may be meant to the error of one that is not there.
pub fn name_similar_flow(reader: &dyn Reader, error: ServiceError) -> ServiceError {
    let ServiceError::Refused(problem) = &error else { return error };
    let missing = problem.about.name.clone().filter(|_| problem.about.what.as_deref() == Some("flow"));
    let Some(name) = missing.filter(|_| problem.kind == ProblemType::NotFound) else { return error };
    let known = reader.flow_names(None, LOOKED_THROUGH).unwrap_or_default();
    error.similar_to(&name, known.iter().map(|flow| &*flow.name))
}

/// So many flows are looked through for one that may be meant.
const LOOKED_THROUGH: usize = 1_000;

/// Turns a panic in a query into an error, so that a bug does not stop the engine.
fn catch_panic(answer: impl FnOnce() -> Result<String, ServiceError>) -> Result<String, ServiceError> {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        Err(ServiceError::internal("the command failed because of a bug in Unstuck; please report it"))
    })
}

/// Writes an answer as JSON: every caller, socket or terminal, gets the same text.
pub(crate) fn to_json(answer: &impl Serialize) -> Result<String, ServiceError> {
    serde_json::to_string(answer)
        .map_err(|error| ServiceError::internal(format!("the answer cannot be written as JSON: {error}")))
}

/// Loads the text of a payload.
pub fn load_payload(reader: &dyn Reader, payload: &Payload) -> Json {
    match payload {
        Payload::Inline(json) => json.clone(),
        Payload::Stored(id) => {
            let found = reader.payloads(&[*id]).map(|mut found| found.pop().flatten());
            match found {
                Ok(found) => found.unwrap_or_default(),
                // A text instead of null, which would look like a value.
                Err(error) => Json::of(&serde_json::json!({ "damaged": error.to_string() })),
            }
        }
    }
}

/// Returns the current wall-clock time.
pub fn now() -> Time {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
