//! What all requests share: the service, the engine, the settings, and whose turn it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use unstuck_engine::runtime::Handle;
use unstuck_service::in_flight::InFlight;
use unstuck_service::tokens::{KnownTokens, TokenUses};
use unstuck_service::{Service, ServiceError};
use unstuck_store::contract::{OnChange, Reader};

use crate::event_pages::EventPages;
use crate::metrics::Metrics;
use crate::open_streams::OpenStreams;
use crate::rates::RateLimiter;
use crate::run_waiters::RunWaiters;
use crate::settings::ServerSettings;
use crate::store_jobs::StoreJobs;
use crate::trace::{SpanSink, Tracer};

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
    /// Room for bodies, in KiB.
    pub(crate) body_room: Arc<Semaphore>,
    /// Grows whenever something has become durable.
    pub(crate) commits: watch::Receiver<u64>,
    /// Whether the server is about to stop.
    pub(crate) stopping: watch::Sender<bool>,
    /// Event streams that are open.
    pub(crate) streams: OpenStreams,
    /// Who waits for which run.
    pub(crate) run_waiters: RunWaiters,
    /// What streams at the end of the log share.
    pub(crate) event_pages: EventPages,
    requests: AtomicU64,
    /// None before they are read for the first time: a server that took this for no tokens would let everybody in.
    tokens: RwLock<Option<Arc<KnownTokens>>>,
    pub(crate) metrics: Metrics,
    pub(crate) token_uses: TokenUses,
    /// What each token may still ask now.
    pub(crate) rates: RateLimiter,
    /// Changes under an idempotency key that are being carried out.
    pub(crate) in_flight: InFlight,
    pub(crate) store_jobs: StoreJobs,
    /// Where traces are collected.
    pub(crate) tracer: Option<Tracer>,
    /// Called by the store; it stops when this is dropped.
    _watcher: OnChange,
}

impl App {
    /// Makes a server of a service and a running engine.
    pub fn new(service: Service, handle: Handle, settings: ServerSettings) -> App {
        let (sender, commits) = watch::channel(0);
        let watcher: OnChange = Arc::new(move || sender.send_modify(|count| *count += 1));
        handle.reader().on_change(&watcher);
        handle.metrics().limit_labels(settings.metric_labels);
        let rates = RateLimiter::new(settings.rates);
        App {
            queries: Arc::new(Semaphore::new(settings.limits.queries)),
            changes: Arc::new(Semaphore::new(settings.limits.changes)),
            body_room: Arc::new(Semaphore::new(settings.limits.bodies >> 10)),
            service,
            handle,
            settings,
            started_at: Timestamp::now(),
            commits,
            stopping: watch::channel(false).0,
            streams: OpenStreams::default(),
            run_waiters: RunWaiters::default(),
            event_pages: EventPages::default(),
            requests: AtomicU64::new(0),
            tokens: RwLock::default(),
            metrics: Metrics::default(),
            token_uses: TokenUses::default(),
            rates,
            in_flight: InFlight::default(),
            store_jobs: StoreJobs::default(),
            tracer: None,
            _watcher: watcher,
        }
    }

    /// Records spans of requests, runs and attempts: of a hundred traces that begin here, so many.
    #[must_use]
    pub fn with_traces(self, sink: Arc<dyn SpanSink>, percent: u64) -> App {
        App { tracer: Some(Tracer::new(sink, percent)), ..self }
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

    /// Returns the tokens as they are now; they are read again when some were changed.
    pub(crate) fn tokens(&self) -> Result<Arc<KnownTokens>, ServiceError> {
        let version = self.handle.tokens_version();
        let known = self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.version == version) {
            return Ok(known);
        }
        let loaded = Arc::new(KnownTokens::load(self.reader(), version)?);
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Some(loaded.clone());
        Ok(loaded)
    }

    /// Returns whether the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}
