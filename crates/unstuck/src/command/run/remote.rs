//! Runs a flow on a server: applies its file and starts it there, or finds the run that goes on, and shows it live.

mod at_rest;
mod screen_view;
mod watch;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use serde_json::value::RawValue;
use unstuck_api::flows::{FlowView, FlowsAppliedView};
use unstuck_api::http::StartBody;
use unstuck_api::request::{FlowOperation, OnDuplicate, Query, RunsQuery};
use unstuck_api::runs::{ChangedView, RunState, RunsView};
use unstuck_api::{ProblemType, Run};
use unstuck_client::Client;
use unstuck_core::model::flow::Flow;
use unstuck_service::owner::state_phrase;

use self::watch::{RemoteRun, RemoteWatch};
use super::Message;
use super::backlog::Backlog;
use super::begin::{Order, choose_flow, load_flows, show_warnings};
use crate::CommandResult;
use crate::Format;
use crate::access::connection::unanswered_query;
use crate::access::location::StoreLocation;
use crate::error::CommandError;
use crate::input::source::Source;

/// What is to be done on the server.
pub(super) enum Wanted<'a> {
    Start(Order<'a>),
    /// Show a run that is there: the one that is named, else the newest that is not final.
    Continue(Option<&'a str>),
}

/// Starts a run on the server or finds one, and shows it until it ends, rests or is left alone.
pub(super) fn execute(
    place: StoreLocation,
    server: Client,
    wanted: &Wanted<'_>,
    (sender, receiver): (Sender<Message>, &Receiver<Message>),
    backlog: Backlog,
    format: Format,
) -> CommandResult {
    let found = match wanted {
        Wanted::Start(order) => start(&place, &server, order)?,
        Wanted::Continue(name) => find(&place, &server, *name)?,
    };
    RemoteWatch::new(place, server, found, format, backlog).watch_to_end(sender, receiver)
}

/// Starts a run of a flow in a file.
fn start(place: &StoreLocation, server: &Client, order: &Order<'_>) -> Result<RemoteRun, CommandError> {
    let source = Source::read(order.file)?;
    let (flows, name) = load(place, &source, order.flow)?;
    let version = apply(place, &source, &flows, &name)?;
    let known = match order.key {
        Some(key) => server.get_run_of_key(&name, key).map_err(unanswered_query)?,
        None => None,
    };
    let (known, cursor) = match known {
        Some((document, cursor)) => (Some(read_document(&document)?), cursor),
        None => (None, None),
    };
    let cursor = match cursor {
        Some(cursor) => cursor,
        None => server.get_cursor().map_err(unanswered_query)?,
    };
    let restarts = |run: &Run| is_final(&run.state) && order.on_duplicate == OnDuplicate::RestartIfFinal;
    let input = match &known {
        Some(run) if restarts(run) && !order.is_input_given => run.input.clone(),
        _ => RawValue::from_string(order.input.text().to_owned())
            .map_err(|error| CommandError::new(format!("--input: {error}")))?,
    };
    let started: ChangedView = place
        .start_run(StartBody {
            flow: name.to_string(),
            input: Some(input),
            key: order.key.map(str::to_owned),
            on_duplicate: Some(order.on_duplicate),
            version: Some(version),
            labels: order.labels.iter().cloned().collect(),
            ..StartBody::default()
        })?
        .read()?;
    let mut notes = vec![format!("{} runs on {}", started.run, server.address())];
    if let Some(run) = &known {
        notes.push(describe_known_key(order.key.unwrap_or_default(), run, restarts(run)));
    }
    Ok(RemoteRun { id: started.run, cursor, notes, is_new: known.is_none() })
}

/// Loads the flows of the file, as if it were the server's: it may name flows that are there.
fn load(
    place: &StoreLocation,
    source: &Source,
    wanted: Option<&str>,
) -> Result<(Vec<Flow>, Arc<str>), CommandError> {
    let failed = RefCell::new(None);
    let is_known = |name: &str| match place.read(Query::Flow { flow: name.to_owned(), version: None }) {
        Ok(_) => true,
        Err(CommandError::Problem(problem)) if problem.kind == ProblemType::NotFound => false,
        Err(error) => {
            failed.borrow_mut().get_or_insert(error);
            false
        }
    };
    let loaded = load_flows(source, &is_known);
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let loaded = loaded?;
    show_warnings(source, &loaded.warnings);
    let name = choose_flow(source, wanted, &loaded.flows)?;
    Ok((loaded.flows, name))
}

/// Applies the file, and returns the version of the flow to start. Whoever may not apply flows may still start one that is there as it is in
/// the file.
fn apply(place: &StoreLocation, source: &Source, flows: &[Flow], name: &str) -> Result<String, CommandError> {
    let (text, file, directory) = (source.text.clone(), source.file.clone(), source.directory());
    let applied =
        place.change_flows(FlowOperation::Apply { text, file, directory, dry_run: false, migrate: false });
    match applied {
        Ok(answer) => {
            let view: FlowsAppliedView = answer.read()?;
            let applied = view.flows.into_iter().find(|flow| flow.flow == name);
            applied.map(|flow| flow.version).ok_or_else(|| {
                CommandError::internal(format!("the server did not say which version of `{name}` it has"))
            })
        }
        Err(CommandError::Problem(problem)) if problem.kind == ProblemType::Forbidden => {
            for flow in flows {
                check_same(place, source, flow)?;
            }
            let there = find_flow(place, name)?;
            there.map(|there| there.version).ok_or_else(|| not_allowed(source, name))
        }
        Err(error) => Err(error.in_file(&source.file)),
    }
}

/// Refuses a flow that the server does not have as it is in the file.
fn check_same(place: &StoreLocation, source: &Source, flow: &Flow) -> Result<(), CommandError> {
    let there = find_flow(place, &flow.name)?;
    let ours: Option<serde_json::Value> = serde_json::from_str(&flow.source).ok();
    if there.is_some_and(|there| Some(there.definition) == ours) {
        return Ok(());
    }
    Err(not_allowed(source, &flow.name))
}

fn find_flow(place: &StoreLocation, name: &str) -> Result<Option<FlowView>, CommandError> {
    match place.read(Query::Flow { flow: name.to_owned(), version: None }) {
        Ok(answer) => answer.read().map(Some),
        Err(CommandError::Problem(problem)) if problem.kind == ProblemType::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn not_allowed(source: &Source, name: &str) -> CommandError {
    CommandError::of(
        ProblemType::Forbidden,
        format!(
            "the token may not apply flows, and the server does not have flow `{name}` as it is in {file}. Somebody with the role admin can apply it (`unstuck flow apply {file}`); `unstuck start {name}` starts it as the server has it",
            file = source.file
        ),
    )
}

/// Finds a run that is there.
fn find(place: &StoreLocation, server: &Client, wanted: Option<&str>) -> Result<RemoteRun, CommandError> {
    let name = match wanted {
        Some(name) => name.to_owned(),
        None => find_open(place)?.ok_or_else(|| {
            CommandError::not_found(format!(
                "every run on {} has ended; `unstuck runs{}` lists them",
                server.address(),
                place.option
            ))
        })?,
    };
    // A name that is not found gets the sentence of every command.
    let Some((document, Some(cursor))) = server.get_run(&name).map_err(unanswered_query)? else {
        place.read(Query::show(name.clone()))?;
        return Err(CommandError::internal("the server has no stream of events; use a newer version"));
    };
    let run = read_document(&document)?;
    let mut notes = vec![format!("{} runs on {}", run.id, server.address())];
    if run.state == RunState::Paused.word() {
        notes.push(format!("it is paused; to continue it: unstuck unpause {}{}", run.id, place.option));
    }
    Ok(RemoteRun { id: run.id, cursor, notes, is_new: false })
}

/// Finds the newest run that is not final.
fn find_open(place: &StoreLocation) -> Result<Option<String>, CommandError> {
    let states = RunState::ALL.into_iter().filter(|state| !is_final(state.word())).collect();
    let query = RunsQuery { states, limit: 1, ..RunsQuery::default() };
    let page: RunsView = place.read(Query::Runs(Box::new(query)))?.read()?;
    Ok(page.runs.into_iter().next().map(|run| run.id))
}

/// Describes that the key has a run already, and what happens to it.
fn describe_known_key(key: &str, run: &Run, is_restarted: bool) -> String {
    let what = match (is_restarted, is_final(&run.state)) {
        (true, _) => "starting its next generation",
        (false, true) => "nothing was started",
        (false, false) => "continuing it",
    };
    format!("key `{key}` already has this run ({}); {what}", state_phrase(&run.state))
}

fn is_final(state: &str) -> bool {
    matches!(state, "completed" | "failed" | "cancelled" | "superseded")
}

fn read_document(document: &str) -> Result<Run, CommandError> {
    serde_json::from_str(document).map_err(|error| {
        CommandError::internal(format!(
            "cannot read the run ({error}); is the server another version of unstuck?"
        ))
    })
}
