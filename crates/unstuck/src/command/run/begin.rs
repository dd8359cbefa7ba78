//! Begins or continues a run: opens the store and starts the engine.

use std::cell::RefCell;
use std::sync::Arc;

use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::refusal::Refusal;
use unstuck_engine::engine::Engine;
use unstuck_engine::flows::new_flow;
use unstuck_engine::request::{EngineError, StartRun};
use unstuck_engine::runtime::{Handle, Runtime};
use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::{AdminStore, FlowChange, NewFlow, PutFlowError, RunFilter, Store, StoreError};

use super::backlog::Teller;
use super::executors::Executors;
use super::seed;
use super::tree::Tree;
use super::turn::{self, NotBegun};
use crate::access::engine;
use crate::access::location::StoreLocation;
use crate::access::socket::{self, SocketError};
use crate::access::user_name;
use crate::error::{CommandError, Refused};
use crate::input::source::Source;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::problems;
use unstuck_api::owner::KeyView;
use unstuck_api::request::{OnDuplicate, Query, Request};
use unstuck_core::summary::RunSummary;
use unstuck_service::flows::{compile_flow, flows_for_reading};
use unstuck_service::owner::state_phrase;
use unstuck_service::{Service, ServiceError, convert, family, load_payload, run_name, service};

/// How many runs one query reads in the search for an interrupted one.
const PAGE: usize = 100;

/// What to start.
pub(super) struct Order<'a> {
    pub(super) file: &'a str,
    pub(super) flow: Option<&'a str>,
    pub(super) input: Json,
    /// Whether somebody gave it.
    pub(super) is_input_given: bool,
    pub(super) key: Option<&'a str>,
    pub(super) on_duplicate: OnDuplicate,
    /// By name and value; of two values of one name the last counts.
    pub(super) labels: &'a [(String, String)],
}

impl Order<'_> {
    /// Returns whether this run of the key is started again.
    fn restarts(&self, run: &Run) -> bool {
        run.is_final() && self.on_duplicate == OnDuplicate::RestartIfFinal
    }
}

/// A run under way in this process.
pub(super) struct Begun {
    pub(super) runtime: Runtime,
    pub(super) service: Service,
    /// What was known of it when it began here.
    pub(super) tree: Tree,
    /// What to say first.
    pub(super) notes: Vec<String>,
}

/// Starts a run of a flow in a file, once this process has the store.
pub(super) fn start(
    place: &StoreLocation,
    order: &Order<'_>,
    executors: &Executors,
    teller: Teller,
) -> Result<Begun, NotBegun> {
    let source = Source::read(order.file)?;
    if !place.has_store() {
        // A refused file must not create a store.
        load_flows(&source, &|_| false)?;
        place.create_folder()?;
    }
    let mut store = turn::wait_for_store(place, &teller.backlog, || find_run_of_key(place, order, &source))?;
    let flow = store_flows(&mut store, &source, order.flow)?;
    let known = match order.key {
        Some(key) => store.run_of_key(&flow, key).map_err(failed)?,
        None => None,
    };
    let known = match known {
        Some(run) => store.run(run).map_err(failed)?,
        None => None,
    };
    let home = match &known {
        Some(run) => run.home.clone(),
        None => Some(engine::new_home()?),
    };
    let mut notes = note_paused_policies(&mut store, place)?;
    let input = match &known {
        Some(run) if order.restarts(run) && !order.is_input_given => {
            load_payload(&*store.reader(), &run.input)
        }
        _ => order.input.clone(),
    };
    let seeded = match known {
        Some(run) => {
            notes.push(describe_known_key(order, &run));
            Some(seed::load_tree(&mut store, run.id)?)
        }
        None => None,
    };
    let runtime = start_engine(store, home.clone(), executors, teller)?;
    let run = start_run(&runtime.handle(), flow, (order, input), home.clone())?;
    notes.insert(0, format!("{run} is stored in {}", place.directory.display()));
    let tree = seeded.unwrap_or_else(|| Tree::new(run));
    let service = Service { home, run: Some(run), option: place.option.clone(), ..Service::default() };
    Ok(Begun { runtime, service, tree, notes })
}

/// Returns notes that automatic resumes are paused, for users who wait for one.
fn note_paused_policies(store: &mut SqliteStore, place: &StoreLocation) -> Result<Vec<String>, CommandError> {
    let switch = store.policy_switch().map_err(failed)?;
    let Some(since) = switch.paused() else { return Ok(Vec::new()) };
    let words = paused_policies::describe_paused(&unstuck_engine::document::policies_paused(since));
    Ok(vec![
        format!("automatic resumes are paused {words}"),
        format!("to unpause them: unstuck policy unpause{}", place.option),
    ])
}

/// Asks the owner of the store for the run that the key has already.
fn find_run_of_key(
    place: &StoreLocation,
    order: &Order<'_>,
    source: &Source,
) -> Result<Option<KeyView>, CommandError> {
    let Some(key) = order.key else { return Ok(None) };
    let loaded = load_flows(source, &|_| true)?;
    let flow = choose_flow(source, order.flow, &loaded.flows)?.to_string();
    let input = order.input.text().to_owned();
    let (key, on_duplicate) = (key.to_owned(), order.on_duplicate);
    let request = Request::Query(Query::Key { flow, key, input, on_duplicate });
    match socket::send_request(&place.directory, &place.option, &request) {
        Ok(json) => serde_json::from_str(&json).map_err(|error| CommandError::internal(error.to_string())),
        // The owner has gone, or will answer soon.
        Err(SocketError::Nobody | SocketError::HungUp | SocketError::Busy) => Ok(None),
        Err(unheard) => Err(unheard.into()),
    }
}

/// Continues an interrupted run: the named one, else the newest.
pub(super) fn continue_run(
    place: &StoreLocation,
    wanted: Option<&str>,
    executors: &Executors,
    teller: Teller,
) -> Result<Begun, NotBegun> {
    if !place.has_store() {
        return Err(place.no_store().into());
    }
    let mut store = turn::wait_for_store(place, &teller.backlog, || Ok(None))?;
    let run = match wanted {
        Some(wanted) => find_named_root(&mut store, wanted)?,
        None => find_interrupted(&mut store)?.ok_or_else(|| {
            CommandError::not_found(format!(
                "there is no interrupted run in {}; `unstuck runs` lists all runs",
                place.directory.display()
            ))
        })?,
    };
    let mut notes = vec![format!("{} is stored in {}", run.id, place.directory.display())];
    if !run.is_final() {
        notes.push(match run.paused {
            Some(_) => format!("it is paused; to continue it: unstuck unpause {}{}", run.id, place.option),
            None => "continuing from the last completed step".to_owned(),
        });
    }
    notes.extend(note_paused_policies(&mut store, place)?);
    let (id, home) = (run.id, run.home.clone());
    let tree = seed::load_tree(&mut store, id)?;
    let runtime = start_engine(store, home.clone(), executors, teller)?;
    let service = Service { home, run: Some(id), option: place.option.clone(), ..Service::default() };
    Ok(Begun { runtime, service, tree, notes })
}

/// Describes that the key has a run already, and what happens to it.
fn describe_known_key(order: &Order<'_>, run: &Run) -> String {
    let (key, state) = (order.key.unwrap_or_default(), state_phrase(run.state().word()));
    if order.restarts(run) {
        return format!("key `{key}` already has this run ({state}); starting its next generation");
    }
    if run.is_final() {
        return format!("key `{key}` already has this run ({state}); nothing was started");
    }
    format!("key `{key}` already has this run ({state}); continuing it")
}

/// Finds the run of this name, and returns the root of its family.
fn find_named_root(store: &mut SqliteStore, wanted: &str) -> Result<Run, CommandError> {
    let found = run_name::find_run(&*store.reader(), &flows_for_reading(), wanted)?;
    let gone = || CommandError::not_found(format!("there is no run {found}"));
    let run = store.run(found).map_err(failed)?.ok_or_else(gone)?;
    let root = family::find_root(&*store.reader(), &RunSummary::of(&run)).map_err(failed)?;
    store.run(root).map_err(failed)?.ok_or_else(gone)
}

/// Finds the newest run that `unstuck run` started and that is not final.
fn find_interrupted(store: &mut SqliteStore) -> Result<Option<Run>, CommandError> {
    let mut newest: Option<Run> = None;
    // There may be many final runs, so that they are not read.
    for state in RunState::ALL.into_iter().filter(|state| !state.is_final()) {
        let found = newest_with_home(store, state)?;
        if found.as_ref().map(|run| run.id) > newest.as_ref().map(|run| run.id) {
            newest = found;
        }
    }
    Ok(newest)
}

/// Finds the newest root run in this state that has a home.
fn newest_with_home(store: &mut SqliteStore, state: RunState) -> Result<Option<Run>, CommandError> {
    let filter = RunFilter { states: vec![state], roots_only: true, ..RunFilter::default() };
    let mut before = None;
    loop {
        let page = store.list(&filter, before, PAGE).map_err(failed)?;
        let Some(last) = page.last() else { return Ok(None) };
        before = Some(last.id);
        if let Some(run) = page.into_iter().find(|run| run.home.is_some()) {
            return Ok(Some(run));
        }
    }
}

/// Loads every flow of the file, or returns every problem.
pub(super) fn load_flows(
    source: &Source,
    known: &dyn Fn(&str) -> bool,
) -> Result<unstuck_flow::Loaded, CommandError> {
    source.load(known).map_err(|problems| {
        let (file, text) = (source.file.clone(), source.text.clone());
        CommandError::Refused(vec![Refused { file, text, problems }])
    })
}

/// Shows what a file is warned of.
pub(super) fn show_warnings(source: &Source, warnings: &[unstuck_flow::Problem]) {
    let mut stderr = Output::stderr();
    for warning in warnings {
        stderr.line(&problems::format_problem(warning, &source.text, stderr.look));
    }
}

/// Stores every flow of the file, and returns the name of the one to run.
fn store_flows(
    store: &mut SqliteStore,
    source: &Source,
    wanted: Option<&str>,
) -> Result<Arc<str>, CommandError> {
    let shared = RefCell::new(&mut *store);
    let in_store = |name: &str| shared.borrow_mut().newest_flow(name).is_ok_and(|flow| flow.is_some());
    let loaded = load_flows(source, &in_store)?;
    show_warnings(source, &loaded.warnings);
    let name = choose_flow(source, wanted, &loaded.flows)?;
    let refused = |error: PutFlowError| CommandError::from(ServiceError::from(error)).in_file(&source.file);
    let new: Vec<NewFlow> = loaded.flows.iter().map(new_flow).collect();
    let planned = store.plan_flows(&new).map_err(refused)?;
    let (at, by) = (service::now(), Actor::User(user_name().into()));
    let records = planned.into_iter().map(|flow| flow.into_record(at, &by)).collect();
    let made_on = store.versions().map_err(failed)?.flows;
    store
        .change_flows(FlowChange { records, ..FlowChange::default() }, made_on)
        .map_err(|error| refused(error.into()))?;
    Ok(name)
}

/// Returns the name of the flow to run: the one named, else the first.
pub(super) fn choose_flow(
    source: &Source,
    wanted: Option<&str>,
    flows: &[Flow],
) -> Result<Arc<str>, CommandError> {
    let mut names = flows.iter().map(|flow| flow.name.clone());
    let name = match wanted {
        None => names.next(),
        Some(wanted) => names.find(|name| **name == *wanted),
    };
    name.ok_or_else(|| no_such_flow_error(&source.file, wanted, flows))
}

fn no_such_flow_error(file: &str, wanted: Option<&str>, flows: &[Flow]) -> CommandError {
    let names: Vec<String> = flows.iter().map(|flow| format!("`{}`", flow.name)).collect();
    let wanted = wanted.unwrap_or_default();
    CommandError::not_found(format!("{file} has no flow `{wanted}`; it has {}", names.join(", ")))
}

/// Starts the run on the engine, after checking its input.
fn start_run(
    handle: &Handle,
    flow: Arc<str>,
    (order, input): (&Order<'_>, Json),
    home: Option<Arc<str>>,
) -> Result<RunId, CommandError> {
    // An input that does not fit must not cost the engine, for which others may be waiting. With a key the run may be there
    // already, and what counts is whether it has the same input.
    if order.key.is_none() {
        let name = flow.clone();
        let flow = handle.read(move |store, flows| flows.newest(store, &name))??;
        unstuck_flow::check_input(&flow, &input.value())
            .map_err(|problems| EngineError::from(Refusal::BadInput(problems)))?;
    }
    let start = StartRun {
        flow,
        version: None,
        key: order.key.map(Arc::from),
        input,
        labels: Some(Arc::new(order.labels.iter().cloned().collect())),
        priority: 0,
        deadline: None,
        on_duplicate: convert::to_core_on_duplicate(order.on_duplicate),
        home,
        by: Actor::User(user_name().into()),
    };
    match handle.start(start) {
        Ok(Answer::Started(run) | Answer::Exists(run)) => Ok(run),
        Ok(Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled) => {
            Err(CommandError::internal("the engine did not name the run it started; please report this"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Starts an engine that executes the runs of this home.
fn start_engine(
    store: SqliteStore,
    home: Option<Arc<str>>,
    executors: &Executors,
    teller: Teller,
) -> Result<Runtime, CommandError> {
    let engine = Engine::new(store, compile_flow(), engine::engine_settings(home)?).map_err(failed)?;
    let observer = Box::new(move |run, event: &Event| teller.happened(run, event));
    Ok(Runtime::start(engine, executors.all(), Some(observer)))
}

pub(super) fn failed(error: StoreError) -> CommandError {
    error.into()
}
