//! Sends requests about the runs of a store to its owner; without an owner, opens the store and handles them here.

use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use unstuck_api::ProblemType;
use unstuck_api::http::StartBody;
use unstuck_client::{Client, ClientError};
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::runtime::Runtime;
use unstuck_sqlite::{SqliteReader, SqliteStore, release_reserve};
use unstuck_store::contract::{Store, StoreError};

use crate::access::engine;
use crate::access::location::StoreLocation;
use crate::access::socket::{self, SocketError};
use crate::access::user_name;
use crate::error::CommandError;
use crate::view::json_text;
use crate::view::output::Output;
use unstuck_api::request::{
    BulkOperation, BulkRequest, BulkVerb, FlowOperation, FlowRequest, MigrateFlow, PolicyOperation,
    PolicyRequest, Query, Request, RunOperation, RunRequest, ScheduleOperation, ScheduleRequest,
    StartRequest, TokenOperation, TokenRequest,
};
use unstuck_service::flows::compile_flow;
use unstuck_service::{Service, ServiceError, SilentOwner};

/// How long a command waits for a store that another process has open.
const PATIENCE: Duration = Duration::from_secs(15);
const BETWEEN: Duration = Duration::from_millis(20);

/// An answer, as JSON.
pub(crate) struct Answer(String);

impl Answer {
    /// Parses the answer; an error means that another version of Unstuck answered.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, CommandError> {
        serde_json::from_str(&self.0).map_err(|error| {
            CommandError::internal(format!(
                "cannot read the answer ({error}); is another version of unstuck running?"
            ))
        })
    }

    /// Returns the JSON as it came.
    pub(crate) fn json(&self) -> &str {
        &self.0
    }

    /// Formats the JSON for reading.
    pub(crate) fn pretty(&self) -> String {
        json_text::pretty(&self.0)
    }
}

impl StoreLocation {
    /// Sends a query, which changes nothing.
    pub(crate) fn read(&self, query: Query) -> Result<Answer, CommandError> {
        self.send_request(&Request::Query(query))
    }

    /// The same, without a word on stderr, which may be a screen: what there is to say comes with the answer.
    pub(crate) fn read_quietly(&self, query: Query) -> Result<(Answer, Option<String>), CommandError> {
        self.answer_or_handle_request(&Request::Query(query), false)
    }

    /// Sends a request to change a run.
    pub(crate) fn change(&self, run: &str, what: RunOperation) -> Result<Answer, CommandError> {
        self.send_request(&Request::Change(RunRequest { run: run.to_owned(), by: user_name(), what }))
    }

    /// Sends a request about policies. Loading creates the store, because policies may be there before the first run.
    pub(crate) fn change_policies(&self, what: PolicyOperation) -> Result<Answer, CommandError> {
        self.change_or_try_policies(what, false)
    }

    /// The same; with `dry_run` nothing is changed.
    pub(crate) fn change_or_try_policies(
        &self,
        what: PolicyOperation,
        dry_run: bool,
    ) -> Result<Answer, CommandError> {
        // Policies may be loaded before the first run.
        let makes_store = matches!(what, PolicyOperation::Load { .. } | PolicyOperation::Set { .. });
        if makes_store && !self.has_store() {
            self.create_folder()?;
        }
        let request = PolicyRequest { by: user_name(), dry_run, what };
        self.send_or_handle_request(&Request::Policies(request), makes_store)
    }

    /// Starts a run. Without a server it is stored, and executed by the next server of the store.
    pub(crate) fn start_run(&self, start: StartBody) -> Result<Answer, CommandError> {
        self.send_request(&Request::Start(Box::new(StartRequest { by: user_name(), start })))
    }

    /// Sends a request about flows. Applying creates the store, because flows may be there before the first run.
    pub(crate) fn change_flows(&self, what: FlowOperation) -> Result<Answer, CommandError> {
        let makes_store = matches!(what, FlowOperation::Apply { dry_run: false, .. });
        if makes_store && !self.has_store() {
            self.create_folder()?;
        }
        self.send_or_handle_request(
            &Request::Flows(FlowRequest { by: user_name(), reason: None, what }),
            makes_store,
        )
    }

    /// Sends a request to move runs of a flow to another version.
    pub(crate) fn migrate_flow(
        &self,
        wanted: MigrateFlow,
        reason: Option<String>,
    ) -> Result<Answer, CommandError> {
        let what = FlowOperation::Migrate(wanted);
        self.send_request(&Request::Flows(FlowRequest { by: user_name(), reason, what }))
    }

    /// Sends a request about the schedule of a flow.
    pub(crate) fn change_schedule(
        &self,
        flow: String,
        reason: Option<String>,
        what: ScheduleOperation,
    ) -> Result<Answer, CommandError> {
        self.send_request(&Request::Schedule(ScheduleRequest { by: user_name(), flow, reason, what }))
    }

    /// Sends a request about bulk actions.
    pub(crate) fn change_bulk(&self, what: BulkOperation) -> Result<Answer, CommandError> {
        self.send_request(&Request::Bulk(BulkRequest { by: user_name(), what }))
    }

    /// Sends a request about tokens. Creating one creates the store: a server may be prepared before its first run.
    pub(crate) fn change_tokens(
        &self,
        what: TokenOperation,
        reason: Option<String>,
    ) -> Result<Answer, CommandError> {
        let makes_store = matches!(what, TokenOperation::Create(_));
        if makes_store && !self.has_store() {
            self.create_folder()?;
        }
        let request = Request::Tokens(TokenRequest { by: user_name(), reason, what });
        self.send_or_handle_request(&request, makes_store)
    }

    fn send_request(&self, request: &Request) -> Result<Answer, CommandError> {
        self.send_or_handle_request(request, false)
    }

    /// Sends a request to the owner of the store, or handles it here if there is none; retries while the store changes
    /// hands. A request whose outcome is unknown is not repeated unless that is safe. With `makes_store`, the store may
    /// not exist yet.
    fn send_or_handle_request(&self, request: &Request, makes_store: bool) -> Result<Answer, CommandError> {
        let (answer, note) = self.answer_or_handle_request(request, makes_store)?;
        if let Some(note) = note {
            Output::stderr().line(&format!("note: {note}"));
        }
        Ok(answer)
    }

    /// Returns the answer, and what there is to say about where it is from.
    fn answer_or_handle_request(
        &self,
        request: &Request,
        makes_store: bool,
    ) -> Result<(Answer, Option<String>), CommandError> {
        let plain = |json| (Answer(json), None);
        if let Some(server) = &self.server {
            return send_to_server(server, request).map(plain);
        }
        let until = Instant::now() + PATIENCE;
        loop {
            if !makes_store && !self.has_store() {
                return Err(self.no_store());
            }
            match socket::send_request(&self.directory, &self.option, request) {
                Ok(json) => return Ok(plain(json)),
                Err(SocketError::Silent(sentence, process)) if let Request::Query(query) = request => {
                    return self.read_beside_owner(query, &sentence, process, false);
                }
                Err(SocketError::Stopped(sentence, process)) if let Request::Query(query) = request => {
                    return self.read_beside_owner(query, &sentence, process, true);
                }
                Err(SocketError::Silent(sentence, _)) => {
                    return Err(CommandError::unknown(ProblemType::StoreAway, sentence));
                }
                Err(SocketError::Stopped(sentence, _)) => {
                    return Err(CommandError::unavailable(
                        ProblemType::StoreAway,
                        format!("{sentence}. Nothing was changed"),
                    ));
                }
                Err(unheard @ (SocketError::Refused(_) | SocketError::Unavailable(_))) => {
                    return Err(unheard.into());
                }
                Err(SocketError::HungUp) if !request.may_be_repeated() => {
                    return Err(unknown_outcome_error(request));
                }
                Err(SocketError::Busy) if Instant::now() >= until => return Err(SocketError::Busy.into()),
                Err(SocketError::Busy) => {
                    thread::sleep(BETWEEN);
                    continue;
                }
                // No process has the store, or it is changing owners.
                Err(SocketError::Nobody | SocketError::HungUp) => {}
            }
            match self.open_store(request, engine::engine_settings(None)?) {
                Ok(opened) => return self.handle_alone(opened, request).map(plain),
                Err(StoreError::Away(_)) if Instant::now() < until => thread::sleep(BETWEEN),
                // Forgetting frees space, and a reserve is kept for doing so on a full disk.
                Err(StoreError::Full(_))
                    if is_forget_request(request) && release_reserve(&self.directory) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers a query from the file of the store while its owner does not answer, with a note that says so.
    fn read_beside_owner(
        &self,
        query: &Query,
        why: &str,
        process: Option<u32>,
        is_stopped: bool,
    ) -> Result<(Answer, Option<String>), CommandError> {
        let note = format!("{why}. Showing what is stored on disk.");
        let silent = Some(SilentOwner { process, is_stopped });
        let service = Service { option: self.option.clone(), silent, ..Service::default() };
        let reader = SqliteReader::open_beside(&self.directory)?;
        let json = service.answer_query(&reader, query)?;
        Ok((Answer(json), Some(note)))
    }

    /// Opens a store that no other process has. A query can be answered from a full or read-only disk too.
    fn open_store(&self, request: &Request, settings: Settings) -> Result<Opened, StoreError> {
        let is_reading = matches!(request, Request::Query(_));
        if is_reading && !unstuck_sqlite::is_writable(&self.directory) {
            return SqliteReader::open(&self.directory).map(Opened::ForReading);
        }
        let store = match SqliteStore::open(&self.directory) {
            Err(StoreError::Full(_)) if is_reading => {
                return SqliteReader::open(&self.directory).map(Opened::ForReading);
            }
            opened => opened?,
        };
        if is_reading {
            return Ok(Opened::Owned(Box::new(store)));
        }
        // This engine answers one request, which should not wait for batches about other runs.
        let settings = Settings { max_outstanding: 2, ..settings };
        Engine::new(store, compile_flow(), settings).map(|engine| Opened::WithEngine(Box::new(engine)))
    }

    /// Handles a request on a store that no other process has.
    fn handle_alone(&self, opened: Opened, request: &Request) -> Result<String, CommandError> {
        let service = Service { option: self.option.clone(), ..Service::default() };
        let answer = match (opened, request) {
            (Opened::ForReading(reader), Request::Query(query)) => service.answer_query(&reader, query),
            (Opened::Owned(mut store), Request::Query(query)) => {
                service.answer_query(&*store.reader(), query)
            }
            (Opened::WithEngine(engine), request) => {
                // This engine executes nothing, but ends processes that a killed engine has left.
                let runtime = Runtime::start(*engine, vec![Box::new(ProcessExecutor::new(0))], None);
                service.handle_request(&runtime.handle(), request.clone())
            }
            (
                Opened::ForReading(_) | Opened::Owned(_),
                Request::Change(_)
                | Request::Policies(_)
                | Request::Bulk(_)
                | Request::Start(_)
                | Request::Flows(_)
                | Request::Schedule(_)
                | Request::Tokens(_),
            ) => Err(ServiceError::internal("the store is open for reading only")),
        };
        answer.map_err(CommandError::from)
    }
}

/// A store that nobody else has.
enum Opened {
    ForReading(SqliteReader),
    Owned(Box<SqliteStore>),
    WithEngine(Box<Engine<SqliteStore>>),
}

/// Returns whether a request forgets runs, which may use the reserve of a full disk.
fn is_forget_request(request: &Request) -> bool {
    match request {
        Request::Change(change) => matches!(change.what, RunOperation::Forget),
        Request::Bulk(request) => {
            matches!(&request.what, BulkOperation::Begin(begin) if matches!(begin.action, BulkVerb::Forget))
        }
        Request::Query(_)
        | Request::Policies(_)
        | Request::Start(_)
        | Request::Flows(_)
        | Request::Schedule(_)
        | Request::Tokens(_) => false,
    }
}

/// Sends a request to a server; one that can be repeated is, if its answer was lost.
fn send_to_server(server: &Client, request: &Request) -> Result<String, CommandError> {
    let answered = match server.request(request) {
        Err(ClientError::Lost(_)) if request.may_be_repeated() => server.request(request),
        answered => answered,
    };
    answered.map_err(|error| match error {
        ClientError::Lost(sentence) if !matches!(request, Request::Query(_)) => CommandError::unknown(
            ProblemType::Stopping,
            format!("{sentence}. To see whether the command was carried out: {}", look_command(request)),
        ),
        error => unanswered_query(error),
    })
}

/// Builds the error of something that changes nothing and was not answered.
pub(crate) fn unanswered_query(error: ClientError) -> CommandError {
    match error {
        ClientError::Problem(problem) if problem.status == 503 => CommandError::Unavailable(problem),
        ClientError::Problem(problem) => CommandError::Problem(problem),
        ClientError::Unreachable(sentence) | ClientError::Lost(sentence) => {
            CommandError::unavailable(ProblemType::StoreAway, sentence)
        }
    }
}

/// Returns the command that shows whether a request was carried out.
fn look_command(request: &Request) -> String {
    match request {
        Request::Change(change) => format!("unstuck history {}", change.run),
        Request::Policies(_) => "unstuck policy audit".to_owned(),
        Request::Bulk(_) => "unstuck bulk list".to_owned(),
        Request::Query(_) | Request::Start(_) => "unstuck runs".to_owned(),
        Request::Flows(_) => "unstuck flow list".to_owned(),
        Request::Tokens(_) => "unstuck token list".to_owned(),
        Request::Schedule(request) => format!("unstuck schedule show {}", request.flow),
    }
}

/// Builds the error of a request whose answer was lost, with the command that shows whether it was carried out.
fn unknown_outcome_error(request: &Request) -> CommandError {
    let command = look_command(request);
    CommandError::unknown(
        ProblemType::Stopping,
        format!(
            "the process that had the store open stopped before it answered. To see whether the command was carried out: {command}"
        ),
    )
}
