//! `unstuck bulk watch`: a bulk action is shown as it goes on; where nobody has the store open, this goes on with it.

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

/// How often it is looked at.
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
        let is_interrupted = interrupts()?;
        let page = watch(&place, &page.bulk, &is_interrupted)?;
        end(&page, &place, format, is_interrupted.load(Ordering::Relaxed))
    }
}

/// How to watch it, and to steer it.
pub(super) fn how(bulk: &str, stdout: &mut Output, option: &str) {
    stdout.line(&text::visible(&format!("To watch it: unstuck bulk watch {bulk}{option}")));
}

/// Set when somebody wants to stop watching.
pub(super) fn interrupts() -> Result<Arc<AtomicBool>, CommandError> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let interrupted = is_interrupted.clone();
    signals::listen(move |_| interrupted.store(true, Ordering::Relaxed), || {})
        .map_err(|error| CommandError::new(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(is_interrupted)
}

/// Goes on with it as long as it acts, if nobody else has the store; `None` if somebody has.
pub(super) fn go_on(
    place: &StoreLocation,
    bulk: &str,
    is_interrupted: &AtomicBool,
) -> Result<Option<BulkView>, CommandError> {
    let store = match SqliteStore::open(&place.directory) {
        Ok(store) => store,
        Err(StoreError::Away(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let engine = Engine::new(store, compile_flow(), engine::settings(None)?)?;
    // It executes nothing, and ends what processes of an engine that was killed are left.
    let runtime = Runtime::start(engine, vec![Box::new(ProcessExecutor::new(0))], None);
    let service = Service { option: place.option.clone(), ..Service::default() };
    // Without a socket it goes on all the same.
    let server = Server::start(&place.directory, service.clone(), runtime.handle()).ok();
    let page = until_it_rests(is_interrupted, || {
        let request = Request::Query(Query::Bulk { bulk: bulk.to_owned() });
        let answer = service.handle_request(&runtime.handle(), request);
        serde_json::from_str(&answer?).map_err(|error| CommandError::internal(error.to_string()))
    });
    if let Some(server) = server {
        server.close();
    }
    page.map(Some)
}

/// Asks whoever has the store, as long as it acts; when nobody has it any more, this goes on with it.
fn watch(place: &StoreLocation, bulk: &str, is_interrupted: &AtomicBool) -> Result<BulkView, CommandError> {
    loop {
        if let Some(page) = go_on(place, bulk, is_interrupted)? {
            return Ok(page);
        }
        let page: BulkView = place.read(Query::Bulk { bulk: bulk.to_owned() })?.read()?;
        if draw(&page, is_interrupted) {
            return Ok(page);
        }
        thread::sleep(BETWEEN);
    }
}

/// Shows how far it is until nothing more happens by itself, or somebody has seen enough.
fn until_it_rests(
    is_interrupted: &AtomicBool,
    look: impl Fn() -> Result<BulkView, CommandError>,
) -> Result<BulkView, CommandError> {
    loop {
        let page = look()?;
        if draw(&page, is_interrupted) {
            return Ok(page);
        }
        thread::sleep(BETWEEN);
    }
}

/// Draws how far it is in place, on a terminal. Gives whether there is no more to be seen.
fn draw(page: &BulkView, is_interrupted: &AtomicBool) -> bool {
    let rests = !page.acts || is_interrupted.load(Ordering::Relaxed);
    let mut stderr = Output::stderr();
    if let Some(width) = stderr.width() {
        let line = text::cut(&text::visible(&super::page::in_short(page)), width.saturating_sub(1), "...");
        stderr.text(&format!("\r\u{1b}[K{}", if rests { "" } else { &line }));
    }
    rests
}

/// Tells how it stands, and who goes on with it.
pub(super) fn end(
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
            super::page::show(page, &mut stdout, &place.option);
            if is_interrupted && page.acts {
                stdout.line(
                    "\nThe bulk action is not finished. It continues as soon as a process opens the store.",
                );
                how(&page.bulk, &mut stdout, &place.option);
            }
        }
    }
    stdout.finish()?;
    Ok(exit::of(page.why.is_none()))
}
