//! Asking about the runs of a store: its owner if there is one, else the store itself.

use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use unstuck_api::ProblemType;
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
    BulkOperation, BulkRequest, BulkVerb, PolicyOperation, PolicyRequest, Query, Request, RunOperation,
    RunRequest,
};
use unstuck_service::flows::compile_flow;
use unstuck_service::{Service, ServiceError, SilentOwner};

/// Another command has the store open for a moment; a run that ends waits for its processes.
const PATIENCE: Duration = Duration::from_secs(15);
const BETWEEN: Duration = Duration::from_millis(20);

/// An answer, as JSON.
pub(crate) struct Answer(String);

impl Answer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, CommandError> {
        serde_json::from_str(&self.0).map_err(|error| {
            CommandError::internal(format!(
                "cannot read the answer ({error}); is another version of unstuck running?"
            ))
        })
    }

    /// Laid out for reading.
    pub(crate) fn pretty(&self) -> String {
        json_text::pretty(&self.0)
    }
}

impl StoreLocation {
    /// Asks for something that changes nothing.
    pub(crate) fn read(&self, query: Query) -> Result<Answer, CommandError> {
        self.ask(&Request::Query(query))
    }

    /// Asks something of a run.
    pub(crate) fn change(&self, run: &str, what: RunOperation) -> Result<Answer, CommandError> {
        self.ask(&Request::Change(RunRequest { run: run.to_owned(), by: user_name(), what }))
    }

    /// Asks something about policies.
    pub(crate) fn change_policies(&self, what: PolicyOperation) -> Result<Answer, CommandError> {
        // They may be there before the first run is.
        let makes_store = matches!(what, PolicyOperation::Load { .. });
        if makes_store && !self.has_store() {
            self.make()?;
        }
        self.ask_or_make(&Request::Policies(PolicyRequest { by: user_name(), what }), makes_store)
    }

    /// Asks something about bulk actions.
    pub(crate) fn change_bulk(&self, what: BulkOperation) -> Result<Answer, CommandError> {
        self.ask(&Request::Bulk(BulkRequest { by: user_name(), what }))
    }

    fn ask(&self, request: &Request) -> Result<Answer, CommandError> {
        self.ask_or_make(request, false)
    }

    fn ask_or_make(&self, request: &Request, makes_store: bool) -> Result<Answer, CommandError> {
        let until = Instant::now() + PATIENCE;
        loop {
            if !makes_store && !self.has_store() {
                return Err(self.no_store());
            }
            match socket::ask(&self.directory, &self.option, request) {
                Ok(json) => return Ok(Answer(json)),
                Err(SocketError::Silent(sentence, process)) if let Request::Query(query) = request => {
                    return self.beside(query, &sentence, process, false).map(Answer);
                }
                Err(SocketError::Stopped(sentence, process)) if let Request::Query(query) = request => {
                    return self.beside(query, &sentence, process, true).map(Answer);
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
                    return Err(unknown_outcome(request));
                }
                Err(SocketError::Busy) if Instant::now() >= until => return Err(SocketError::Busy.into()),
                Err(SocketError::Busy) => {
                    thread::sleep(BETWEEN);
                    continue;
                }
                // Nobody has the store, or it is about to change hands.
                Err(SocketError::Nobody | SocketError::HungUp) => {}
            }
            match self.open(request, engine::settings(None)?) {
                Ok(opened) => return self.alone(opened, request).map(Answer),
                Err(StoreError::Away(_)) if Instant::now() < until => thread::sleep(BETWEEN),
                // To forget makes room, and there is some in reserve for it.
                Err(StoreError::Full(_)) if is_forget(request) && release_reserve(&self.directory) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads what is in the file, beside an owner that does not answer.
    fn beside(
        &self,
        query: &Query,
        why: &str,
        process: Option<u32>,
        is_stopped: bool,
    ) -> Result<String, CommandError> {
        Output::stderr().line(&format!("note: {why}. Showing what is stored on disk."));
        let silent = Some(SilentOwner { process, is_stopped });
        let service = Service { option: self.option.clone(), silent, ..Service::default() };
        let reader = SqliteReader::open_beside(&self.directory)?;
        service.run_query(&reader, query).map_err(CommandError::from)
    }

    /// Opens a store that nobody has. A full or read-only disk is no hindrance to who only reads.
    fn open(&self, request: &Request, settings: Settings) -> Result<Opened, StoreError> {
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
        // It is there for one answer, which should not wait for a line of batches about other runs.
        let settings = Settings { max_outstanding: 2, ..settings };
        Engine::new(store, compile_flow(), settings).map(|engine| Opened::WithEngine(Box::new(engine)))
    }

    /// Answers from a store that nobody else has.
    fn alone(&self, opened: Opened, request: &Request) -> Result<String, CommandError> {
        let service = Service { option: self.option.clone(), ..Service::default() };
        let answer = match (opened, request) {
            (Opened::ForReading(reader), Request::Query(query)) => service.run_query(&reader, query),
            (Opened::Owned(mut store), Request::Query(query)) => service.run_query(&*store.reader(), query),
            (Opened::WithEngine(engine), request) => {
                // It executes nothing, and ends what processes of an engine that was killed are left.
                let runtime = Runtime::start(*engine, vec![Box::new(ProcessExecutor::new(0))], None);
                service.handle_request(&runtime.handle(), request.clone())
            }
            (
                Opened::ForReading(_) | Opened::Owned(_),
                Request::Change(_) | Request::Policies(_) | Request::Bulk(_),
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

fn is_forget(request: &Request) -> bool {
    match request {
        Request::Change(change) => matches!(change.what, RunOperation::Forget),
        Request::Bulk(request) => {
            matches!(&request.what, BulkOperation::Begin(begin) if matches!(begin.action, BulkVerb::Forget))
        }
        Request::Query(_) | Request::Policies(_) => false,
    }
}

fn unknown_outcome(request: &Request) -> CommandError {
    let command = match request {
        Request::Change(change) => format!("unstuck history {}", change.run),
        Request::Policies(_) => "unstuck policy audit".to_owned(),
        Request::Bulk(_) => "unstuck bulk list".to_owned(),
        Request::Query(_) => "unstuck runs".to_owned(),
    };
    CommandError::unknown(
        ProblemType::Stopping,
        format!(
            "the process that had the store open stopped before it answered. To see whether the command was carried out: {command}"
        ),
    )
}
