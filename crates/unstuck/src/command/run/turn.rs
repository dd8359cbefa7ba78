//! Waits for the store while another process has it: only one process at a time executes runs.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::StoreError;

use super::backlog::Backlog;
use super::signals::Signal;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreLocation;
use crate::access::socket::{self, SocketError};
use crate::error::CommandError;
use crate::exit;
use crate::view::changed;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::text;
use unstuck_api::ProblemType;
use unstuck_api::owner::{KeyView, OwnerView};
use unstuck_api::request::{Query, Request};
use unstuck_service::owner::{describe_run, state_phrase};

/// How long to wait silently: a command that only reads has the store open for a moment.
const PATIENCE: Duration = Duration::from_secs(3);
/// The interval between two attempts to open the store.
const BETWEEN: Duration = Duration::from_millis(50);

/// Why no run begins in this process.
pub(super) enum NotBegun {
    Failed(CommandError),
    /// Somebody did not want to wait any longer.
    Interrupted(Signal),
    /// A server has the store, at this address, and executes its runs.
    Served(String),
    /// The key has a run already, and whoever has the store open has told how it stands.
    Known(Box<KeyView>),
}

impl From<CommandError> for NotBegun {
    fn from(failure: CommandError) -> NotBegun {
        NotBegun::Failed(failure)
    }
}

impl From<StoreError> for NotBegun {
    fn from(error: StoreError) -> NotBegun {
        NotBegun::Failed(error.into())
    }
}

/// Opens the store as soon as no other process has it. `of_key` asks its owner for the run of the key, which may exist
/// already.
pub(super) fn wait_for_store(
    place: &StoreLocation,
    backlog: &Backlog,
    of_key: impl Fn() -> Result<Option<KeyView>, CommandError>,
) -> Result<SqliteStore, NotBegun> {
    let begun = Instant::now();
    let mut shown: Option<u32> = None;
    let mut has_waited = false;
    loop {
        match SqliteStore::open(&place.directory) {
            Ok(store) => {
                if has_waited {
                    Output::stderr().line("The store is free.");
                }
                return Ok(store);
            }
            Err(StoreError::Away(_)) => {}
            Err(error) => return Err(error.into()),
        }
        match find_owner(place)? {
            Some(OwnerView { serves: Some(url), .. }) => return Err(NotBegun::Served(url)),
            Some(driven) if shown != Some(driven.process) => {
                // An idle run is continued here once the store is free.
                if let Some(keyed) = of_key()?.filter(|keyed| !keyed.is_idle) {
                    return Err(NotBegun::Known(Box::new(keyed)));
                }
                shown = Some(driven.process);
                has_waited = true;
                show_owner(place, &driven);
            }
            None if shown.is_none() && !has_waited && begun.elapsed() > PATIENCE => {
                has_waited = true;
                let directory = place.directory.display();
                let what =
                    format!("Another process has the store {directory} open. Waiting for it to finish.");
                Output::stderr().line(&text::visible(&what));
            }
            Some(_) | None => {}
        }
        if let Some(signal) = backlog.signal() {
            return Err(NotBegun::Interrupted(signal));
        }
        thread::sleep(BETWEEN);
    }
}

/// Asks which process has the store open and executes runs.
fn find_owner(place: &StoreLocation) -> Result<Option<OwnerView>, CommandError> {
    match socket::send_request(&place.directory, "", &Request::Query(Query::Executing)) {
        Ok(json) => {
            serde_json::from_str(&json).map(Some).map_err(|error| CommandError::internal(error.to_string()))
        }
        Err(SocketError::Nobody | SocketError::HungUp | SocketError::Busy) => Ok(None),
        Err(unheard) => Err(unheard.into()),
    }
}

/// Shows which process is waited for.
fn show_owner(place: &StoreLocation, driven: &OwnerView) {
    let mut stderr = Output::stderr();
    let what = describe_run(driven).map_or_else(String::new, |run| format!(" and executes {run}"));
    let process = driven.process;
    let sentence = format!("Process {process} has the store {} open{what}.", place.directory.display());
    stderr.line(&text::visible(&sentence));
    stderr.line("Waiting for it to finish. Ctrl-C stops waiting; --store PATH uses another store.");
}

impl NotBegun {
    /// Reports why nothing begins here, and ends the command.
    pub(super) fn end(self, format: Format, key: &str) -> CommandResult {
        match self {
            NotBegun::Failed(failure) => Err(failure),
            NotBegun::Served(url) => Err(CommandError::unavailable(
                ProblemType::StoreAway,
                format!("the server at {url} has the store open and executes its runs"),
            )),
            NotBegun::Interrupted(signal) => {
                let what =
                    format!("Stopped waiting for the store ({}). Nothing was started.", signal.reason());
                Output::stderr().line(&what);
                Ok(signal.exit_code())
            }
            NotBegun::Known(keyed) => show_known_run(&keyed, format, key),
        }
    }
}

/// Shows the run that the key has already.
fn show_known_run(keyed: &KeyView, format: Format, key: &str) -> CommandResult {
    let mut stdout = Output::stdout();
    match format {
        Format::Json => stdout.line(&json_text::pretty(keyed.document.get())),
        Format::Text => {
            let elsewhere = if keyed.is_driven { ", and another process is executing it" } else { "" };
            let what = format!(
                "Key `{key}` already has {}, which is {}{elsewhere}. Nothing was started.",
                keyed.run,
                state_phrase(&keyed.state)
            );
            changed::write_wrapped(&mut stdout, &what);
            changed::write_wrapped(&mut stdout, &text::sentence(&keyed.headline));
        }
    }
    stdout.finish()?;
    Ok(match keyed.state.as_str() {
        "completed" => ExitCode::SUCCESS,
        "held" => ExitCode::from(exit::HELD),
        _ if keyed.is_driven => ExitCode::from(exit::EXECUTING),
        _ => ExitCode::from(exit::FAILED),
    })
}
