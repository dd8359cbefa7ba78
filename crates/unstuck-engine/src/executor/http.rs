//! The executor of HTTP requests: each attempt a connection of its own, all of them on one thread.

pub mod address;
mod base64;
mod exchange;
mod request;
mod response;
mod target;
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio_rustls::rustls::ClientConfig;
use unstuck_core::command::Report;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Kind;

use self::address::AddressRules;
use self::request::PreparedRequest;
pub use self::response::empty_response;
use super::lock;
use super::{Executor, Job, ReportSink};
use crate::secrets::Secrets;

/// The cause where whoever answers goes away in the middle of it.
pub const CLOSED_EARLY: &str = "the connection was closed before the response was complete";

/// How long it may take to get a connection, of the time that the step has.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Looking up names blocks: so many threads do it.
const LOOKUP_THREADS: usize = 4;
/// After a pause, every connection is looked at so many times for what has come meanwhile: a response takes a few.
const LOOKS: usize = 64;
/// How long that may take.
const LOOK: Duration = Duration::from_secs(1);

/// How requests are made.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// How much load it takes at once.
    pub max_load: u32,
    /// Where requests may go: by default to public addresses only.
    pub addresses: AddressRules,
    /// What is put into requests that refer to them.
    pub secrets: Secrets,
    /// A file with certificates (PEM) that are trusted besides those that browsers trust.
    pub roots_file: Option<PathBuf>,
    /// How long it may take to get a connection.
    pub connect_timeout: Duration,
}

/// Made when it is first needed.
type TlsConfig = OnceLock<Result<Arc<ClientConfig>, String>>;

impl HttpSettings {
    /// So much load at once, to public addresses only, without secrets.
    pub fn new(max_load: u32) -> HttpSettings {
        HttpSettings {
            max_load,
            addresses: AddressRules::default(),
            secrets: Secrets::default(),
            roots_file: None,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }
}

/// Carries out the `http` steps of flows.
///
/// The request is the input of the attempt. A request that loses its attempt, by a limit or a cancel, is cut off: its
/// connection is closed. One thread is enough for as many requests as it takes at once; it is started with the first one.
pub struct HttpExecutor {
    client: Arc<Client>,
    requests: Arc<Requests>,
    thread: Option<RequestThread>,
    stopped: bool,
}

/// What every request needs.
struct Client {
    settings: HttpSettings,
    tls: TlsConfig,
}

/// The attempts that have not had their last word.
#[derive(Default)]
struct Requests {
    under_way: Mutex<HashMap<AttemptId, watch::Sender<StopRequest>>>,
    ended: Condvar,
}

/// Why a request is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopRequest {
    Nothing,
    /// The executor stops.
    Stop,
    /// The attempt is no longer its own.
    Interrupt,
}

/// The thread that all requests are made on.
struct RequestThread {
    handle: Handle,
    close: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl HttpExecutor {
    /// Makes requests as these settings say.
    pub fn new(settings: HttpSettings) -> HttpExecutor {
        let client = Arc::new(Client { settings, tls: TlsConfig::new() });
        HttpExecutor { client, requests: Arc::default(), thread: None, stopped: false }
    }

    fn handle(&mut self) -> io::Result<Handle> {
        if self.thread.is_none() {
            self.thread = Some(RequestThread::start()?);
        }
        self.thread.as_ref().map(|thread| thread.handle.clone()).ok_or_else(|| io::Error::other("no thread"))
    }
}

impl Executor for HttpExecutor {
    fn name(&self) -> Arc<str> {
        "http".into()
    }

    fn queues(&self) -> Vec<Arc<str>> {
        vec![Kind::HTTP_QUEUE.into()]
    }

    fn max_load(&self) -> u32 {
        self.client.settings.max_load
    }

    fn execute(&mut self, job: Job, answers: &ReportSink) {
        let attempt = job.attempt;
        if self.stopped {
            return answers.report(attempt, Report::Release);
        }
        match self.handle() {
            Ok(handle) => {
                let (stop, stopped) = watch::channel(StopRequest::Nothing);
                lock(&self.requests.under_way).insert(attempt, stop);
                let requests = Arc::clone(&self.requests);
                let last = LastReport { requests, attempt, answers: answers.clone(), report: None, stopped };
                handle.spawn(run_attempt(job, Arc::clone(&self.client), last));
            }
            Err(error) => {
                let lacking = Some(format!("no thread to make requests: {error}").into());
                answers.report(attempt, Report::Defer { asked: None, lacking });
            }
        }
    }

    fn interrupt(&mut self, attempt: AttemptId, _why: &str) {
        if let Some(stop) = lock(&self.requests.under_way).get(&attempt) {
            stop.send_replace(StopRequest::Interrupt);
        }
    }

    fn catch_up(&mut self) {
        let Some(thread) = &self.thread else { return };
        let (sender, looked) = std::sync::mpsc::channel();
        thread.handle.spawn(async move {
            for _ in 0..LOOKS {
                tokio::task::yield_now().await;
            }
            // Nobody listens any more if that took too long.
            let _ = sender.send(());
        });
        let _ = looked.recv_timeout(LOOK);
    }

    fn stop(&mut self) {
        self.stopped = true;
        let under_way = lock(&self.requests.under_way);
        for stop in under_way.values() {
            stop.send_if_modified(|asked| {
                let is_first = *asked == StopRequest::Nothing;
                if is_first {
                    *asked = StopRequest::Stop;
                }
                is_first
            });
        }
        let waited = self.requests.ended.wait_while(under_way, |under_way| !under_way.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for HttpExecutor {
    fn drop(&mut self) {
        self.stop();
        if let Some(RequestThread { close, thread, .. }) = self.thread.take() {
            // The thread waits for nothing else; an error is a panic, which has been printed.
            let _ = close.send(());
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for HttpExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = lock(&self.requests.under_way).len();
        f.debug_struct("HttpExecutor").field("under_way", &under_way).finish_non_exhaustive()
    }
}

impl RequestThread {
    fn start() -> io::Result<RequestThread> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(LOOKUP_THREADS)
            .thread_name("unstuck-lookup")
            .build()?;
        let handle = runtime.handle().clone();
        let (close, closed) = oneshot::channel();
        let thread = thread::Builder::new().name("unstuck-request".to_owned()).spawn(move || {
            // It ends when it is told to, or when nobody could tell it any more.
            let _ = runtime.block_on(closed);
            // A name that is being looked up is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(RequestThread { handle, close, thread })
    }
}

async fn run_attempt(job: Job, client: Arc<Client>, mut last: LastReport) {
    let mut stopped = last.stopped.clone();
    let asked_to_stop =
        async { stopped.wait_for(|asked| *asked != StopRequest::Nothing).await.map(|asked| *asked) };
    let report = unless(asked_to_stop, Box::pin(report_of_request(&job, &client))).await;
    // Without a report it was stopped: the request is gone with what it had open.
    last.report = Some(report.unwrap_or(Report::Release));
}

async fn report_of_request(job: &Job, client: &Client) -> Report {
    let AttemptId { run, attempt, .. } = job.attempt;
    let step = job.step();
    let Kind::Http(rules) = &step.kind else {
        let error = Error::new(format!("step `{}` has no `http`: there is no request to make", step.id));
        return Report::Fail { error: Box::new(error), fatal: true };
    };
    let secrets = match client.settings.secrets.resolve(step) {
        Ok(secrets) => secrets,
        Err(report) => return report,
    };
    let mut redactor = secrets.redactor();
    let request = match PreparedRequest::new(job, &secrets, &mut redactor) {
        Ok(request) => request,
        Err(report) => return redactor.report(report),
    };
    let shown = redactor.text(&request.target.to_string()).into_owned();
    tracing::debug!(%run, step = %step.id, attempt, method = %request.method, url = shown, "request");
    let report = match exchange::make_request(request, rules, client).await {
        Ok(response) => {
            tracing::debug!(%run, step = %step.id, attempt, status = response.status, bytes = response.body.len(), "response");
            response.into_report(rules, &redactor, jiff::Timestamp::now())
        }
        Err(report) => report,
    };
    redactor.report(report)
}

/// The result of some work, unless something else comes first. What is left of the work is dropped.
async fn unless<S, T>(stop: impl Future<Output = S>, work: impl Future<Output = T>) -> Option<T> {
    let mut stop = pin!(stop);
    let mut work = pin!(work);
    poll_fn(|context| match stop.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

/// Says the last word about an attempt when its task ends, however that ends, and strikes it off after that.
struct LastReport {
    requests: Arc<Requests>,
    attempt: AttemptId,
    answers: ReportSink,
    report: Option<Report>,
    stopped: watch::Receiver<StopRequest>,
}

impl Drop for LastReport {
    fn drop(&mut self) {
        // Said and struck off at once for whoever looks: an attempt is under way until its last word.
        let mut under_way = lock(&self.requests.under_way);
        let is_interrupted = *self.stopped.borrow() == StopRequest::Interrupt;
        match self.report.take() {
            // Whatever it came to, the attempt is no longer its own.
            _ if is_interrupted => self.answers.freed(self.attempt),
            Some(report) => self.answers.report(self.attempt, report),
            // A fault of ours.
            None => self.answers.lost(self.attempt),
        }
        under_way.remove(&self.attempt);
        self.requests.ended.notify_all();
    }
}
