//! What all requests share: the service, the engine, the settings, and whose turn it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use unstuck_engine::runtime::Handle;
use unstuck_service::Service;
use unstuck_store::contract::{OnChange, Reader};

use crate::event_pages::EventPages;
use crate::settings::ServerSettings;

/// A server without its sockets.
pub struct App {
    pub(crate) service: Service,
    pub(crate) handle: Handle,
    pub(crate) settings: ServerSettings,
    pub(crate) started_at: Timestamp,
    /// Turns of those who read.
    pub(crate) queries: Arc<Semaphore>,
    /// Turns of those who change something.
    pub(crate) changes: Arc<Semaphore>,
    /// Grows whenever something has become durable.
    pub(crate) commits: watch::Receiver<u64>,
    /// Whether the server is about to stop.
    pub(crate) stopping: watch::Sender<bool>,
    /// Event streams that are open.
    pub(crate) streams: Arc<AtomicUsize>,
    /// What streams at the end of the log share.
    pub(crate) event_pages: EventPages,
    requests: AtomicU64,
    /// Called by the store; it stops when this is dropped.
    _watcher: OnChange,
}

impl App {
    /// Makes a server of a service and a running engine.
    pub fn new(service: Service, handle: Handle, settings: ServerSettings) -> App {
        let (sender, commits) = watch::channel(0);
        let watcher: OnChange = Arc::new(move || sender.send_modify(|count| *count += 1));
        handle.reader().on_change(&watcher);
        App {
            queries: Arc::new(Semaphore::new(settings.limits.queries)),
            changes: Arc::new(Semaphore::new(settings.limits.changes)),
            service,
            handle,
            settings,
            started_at: Timestamp::now(),
            commits,
            stopping: watch::channel(false).0,
            streams: Arc::default(),
            event_pages: EventPages::default(),
            requests: AtomicU64::new(0),
            _watcher: watcher,
        }
    }

    pub(crate) fn reader(&self) -> &dyn Reader {
        self.handle.reader()
    }

    /// Returns a number for a request that has none: different for each while this server runs, and for servers that
    /// started at different times.
    pub(crate) fn next_request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{:x}-{number:x}", self.started_at.as_millisecond())
    }

    /// Returns whether the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}
