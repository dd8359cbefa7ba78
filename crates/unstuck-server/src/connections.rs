//! The listener: accepts connections up to a bound, reads heads up to a bound, and stops in good order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

use crate::access::Peer;
use crate::app::App;
use crate::dispatch::build_router;
use crate::transport::BoundedStream;

/// How long requests under way may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(20);
/// A head is at least allowed this much, or hyper refuses to start.
const SMALLEST_HEAD: usize = 8 << 10;

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    /// A socket of this machine, and the user who may use it.
    local: Option<(UnixListener, u32)>,
}

/// Tells a server to stop.
#[derive(Clone)]
pub struct Stopping(Arc<App>);

impl Stopping {
    /// Asks the server to stop: what is under way is answered, what comes is turned away.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }
}

impl Server {
    /// Takes over a socket that listens. To be called on the threads that serve.
    pub fn new(app: App, listener: std::net::TcpListener) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        Ok(Server { app: Arc::new(app), listener: TcpListener::from_std(listener)?, local: None })
    }

    /// Serves a socket in the folder of the store too, on which this user is admin without a token.
    pub fn with_socket(self, listener: std::os::unix::net::UnixListener, user: u32) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        Ok(Server { local: Some((UnixListener::from_std(listener)?, user)), ..self })
    }

    /// Returns what stops it.
    pub fn stopping(&self) -> Stopping {
        Stopping(self.app.clone())
    }

    /// Serves until it is told to stop and the last request is answered.
    pub async fn serve(self) {
        let Server { app, listener, local } = self;
        let router = build_router(app.clone());
        let limits = app.settings.limits;
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle_time)
            .max_buf_size(limits.head.max(SMALLEST_HEAD))
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.head).unwrap_or(u32::MAX))
            .keep_alive_interval(Some(limits.idle_time));
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(limits.connections));
        let mut stopping = app.stopping.subscribe();
        loop {
            let bounds = (limits.idle_time, limits.stall_time);
            tokio::select! {
                (stream, address, permit) = accept(&listener, &room) => {
                    let service = service_of(router.clone(), Peer::Network(address.ip()));
                    serve_stream(&builder, &graceful, (stream, bounds), service, permit);
                }
                (stream, permit) = accept_local(local.as_ref(), &room) => {
                    let service = service_of(router.clone(), Peer::Socket);
                    serve_stream(&builder, &graceful, (stream, bounds), service, permit);
                }
                _ = stopping.wait_for(|stops| *stops) => break,
            }
        }
        drop((listener, local));
        if timeout(LAST_ANSWERS, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests were not answered before the server stopped");
        }
    }
}

/// Serves a connection until it ends.
fn serve_stream<S, H>(
    builder: &auto::Builder<TokioExecutor>,
    graceful: &GracefulShutdown,
    (stream, (idle_time, stall_time)): (S, (Duration, Duration)),
    service: H,
    permit: Option<OwnedSemaphorePermit>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: hyper::service::Service<
            Request<Incoming>,
            Response = axum::response::Response,
            Error = std::convert::Infallible,
            Future: Send,
        > + Send
        + 'static,
{
    let stream = TokioIo::new(BoundedStream::new(stream, idle_time, stall_time));
    let connection = graceful.watch(builder.serve_connection(stream, service).into_owned());
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended");
        }
        drop(permit);
    });
}

/// Accepts the next connection of the user to the socket of the store; never, where there is none.
async fn accept_local(
    local: Option<&(UnixListener, u32)>,
    room: &Arc<Semaphore>,
) -> (UnixStream, Option<OwnedSemaphorePermit>) {
    let Some((listener, user)) = local else { return std::future::pending().await };
    let permit = room.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) if stream.peer_cred().is_ok_and(|peer| peer.uid() == *user) => {
                return (stream, permit);
            }
            Ok(_) => tracing::warn!("a connection of another user to the socket of the store is refused"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Accepts the next connection, when there is room for one more. Out of file descriptors, it waits a moment.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    let permit = room.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Answers are written whole: waiting for more to send would only delay them.
                let _ = stream.set_nodelay(true);
                return (stream, address, permit);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The service of one connection.
fn service_of(
    router: Router,
    peer: Peer,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future = impl Future<Output = Result<axum::response::Response, std::convert::Infallible>> + Send,
> {
    hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        name_host(&mut request);
        request.extensions_mut().insert(peer);
        router.clone().call(request)
    })
}

/// Puts the host that a request names in its target, as every request by HTTP/2 does, where handlers look for it. It counts more
/// than the header.
fn name_host(request: &mut Request<Body>) {
    let named = request.uri().authority().map(|authority| HeaderValue::from_str(authority.as_str()));
    if let Some(Ok(host)) = named {
        request.headers_mut().insert(header::HOST, host);
    }
}
