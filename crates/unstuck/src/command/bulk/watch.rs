//! `unstuck bulk watch`: shows the progress of a bulk action, and drives it if neither a server nor another process has the store open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use unstuck_engine::engine::Engine;
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::runtime::Runtime;
use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::StoreError;

use crate::CommandResult;
use crate::Format;
use crate::access::engine;
use crate::access::location::{StoreArgument, StoreLocation};
use crate::access::socket::Server;
use crate::command::run::signals;
use crate::error::CommandError;
use crate::exit;
use crate::view::output::Output;
use crate::view::text;
use unstuck_api::bulk::BulkView;
use unstuck_api::request::{Query, Request};
use unstuck_service::Service;
use unstuck_service::flows::compile_flow;

/// The interval between two looks.
const BETWEEN: Duration = Duration::from_millis(100);

/// Watch a bulk action until it finishes, stops or is paused.
///
/// If another process has the store open, that process continues the bulk action; otherwise this command does. It
/// executes no steps: resumed steps wait until their runs are continued.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The bulk action: its id, the start of its id, or @latest.
    bulk: String,

    #[command(flatten)]
    store: StoreArgument,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let page: BulkView = place.read(Query::Bulk { bulk: self.bulk })?.read()?;
        let is_interrupted = listen_for_interrupt()?;
        let page = watch_or_drive(&place, &page.bulk, &is_interrupted)?;
        report_end(&page, &place, format, is_interrupted.load(Ordering::Relaxed))
    }
}

/// Shows the command that watches the bulk action.
pub(super) fn show_watch_command(bulk: &str, stdout: &mut Output, option: &str) {
    stdout.line(&text::visible(&format!("To watch it: unstuck bulk watch {bulk}{option}")));
}

/// Listens for Ctrl-C, and returns the flag that it sets.
pub(super) fn listen_for_interrupt() -> Result<Arc<AtomicBool>, CommandError> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let interrupted = is_interrupted.clone();
    signals::listen(move |_| interrupted.store(true, Ordering::Relaxed), || {})
        .map_err(|error| CommandError::new(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(is_interrupted)
}

/// Drives the bulk action while it acts, or watches a server that does; `None` if another process has the store.
pub(super) fn drive_bulk(
    place: &StoreLocation,
    bulk: &str,
    is_interrupted: &AtomicBool,
) -> Result<Option<BulkView>, CommandError> {
    // A server goes on with it, and is asked how far it is.
    if place.server.is_some() {
        let look = || place.read(Query::Bulk { bulk: bulk.to_owned() })?.read();
        return watch_until_rest(is_interrupted, look).map(Some);
    }
    let store = match SqliteStore::open(&place.directory) {
        Ok(store) => store,
        Err(StoreError::Away(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let engine = Engine::new(store, compile_flow(), engine::engine_settings(None)?)?;
    // This engine executes nothing, but ends processes that a killed engine has left.
    let runtime = Runtime::start(engine, vec![Box::new(ProcessExecutor::new(0))], None);
    let service = Service { option: place.option.clone(), ..Service::default() };
    // Without a socket the bulk action continues all the same.
    let server = Server::start(&place.directory, service.clone(), runtime.handle()).ok();
    let page = watch_until_rest(is_interrupted, || {
        let request = Request::Query(Query::Bulk { bulk: bulk.to_owned() });
        let answer = service.handle_request(&runtime.handle(), request);
        serde_json::from_str(&answer?).map_err(|error| CommandError::internal(error.to_string()))
    });
    if let Some(server) = server {
        server.close();
    }
    page.map(Some)
}

/// Watches the bulk action through the owner of the store, and drives it here once there is no owner.
fn watch_or_drive(
    place: &StoreLocation,
    bulk: &str,
    is_interrupted: &AtomicBool,
) -> Result<BulkView, CommandError> {
    loop {
        if let Some(page) = drive_bulk(place, bulk, is_interrupted)? {
            return Ok(page);
        }
        let page: BulkView = place.read(Query::Bulk { bulk: bulk.to_owned() })?.read()?;
        if draw_progress(&page, is_interrupted) {
            return Ok(page);
        }
        thread::sleep(BETWEEN);
    }
}

/// Shows progress until nothing more happens by itself, or until the user interrupts.
fn watch_until_rest(
    is_interrupted: &AtomicBool,
    look: impl Fn() -> Result<BulkView, CommandError>,
) -> Result<BulkView, CommandError> {
    loop {
        let page = look()?;
        if draw_progress(&page, is_interrupted) {
            return Ok(page);
        }
        thread::sleep(BETWEEN);
    }
}

/// Draws the progress in place on a terminal. Returns whether there is nothing more to watch.
fn draw_progress(page: &BulkView, is_interrupted: &AtomicBool) -> bool {
    let rests = !page.acts || is_interrupted.load(Ordering::Relaxed);
    let mut stderr = Output::stderr();
    if let Some(width) = stderr.width() {
        let line =
            text::cut(&text::visible(&super::page::summarize_results(page)), width.saturating_sub(1), "...");
        stderr.text(&format!("\r\u{1b}[K{}", if rests { "" } else { &line }));
    }
    rests
}

/// Reports the final state, and which process continues the bulk action.
pub(super) fn report_end(
    page: &BulkView,
    place: &StoreLocation,
    format: Format,
    is_interrupted: bool,
) -> CommandResult {
    let mut stdout = Output::stdout();
    match format {
        Format::Json => {
            let json =
                serde_json::to_string(page).map_err(|error| CommandError::internal(error.to_string()))?;
            stdout.line(&crate::view::json_text::pretty(&json));
        }
        Format::Text => {
            super::page::show_bulk(page, &mut stdout, &place.option);
            if is_interrupted && page.acts {
                stdout.line(if place.server.is_some() {
                    "\nThe bulk action is not finished. The server continues it."
                } else {
                    "\nThe bulk action is not finished. It continues as soon as a process opens the store."
                });
                show_watch_command(&page.bulk, &mut stdout, &place.option);
            }
        }
    }
    stdout.finish()?;
    Ok(exit::of(page.why.is_none()))
}
