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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::pin;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

use crate::access::Peer;
use crate::activity::Activity;
use crate::app::App;
use crate::dispatch::build_router;
use crate::settings::Limits;
use crate::tls::Tls;
use crate::trace_runs::follow_runs;
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
    tls: Option<Tls>,
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
    /// Takes over a socket that listens, with TLS or without. To be called on the threads that serve.
    pub fn new(app: App, listener: std::net::TcpListener, tls: Option<Tls>) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Server { app: Arc::new(app), listener, local: None, tls })
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
        let Server { app, listener, local, tls } = self;
        let limits = app.settings.limits;
        let protocol = Arc::new(Protocol {
            router: build_router(app.clone()),
            builder: build_protocol(&limits),
            limits,
            tls,
        });
        // Every connection has one, so that the last of them is known to have ended.
        let (open, mut all_ended) = mpsc::channel::<()>(1);
        let room = Arc::new(Semaphore::new(limits.connections));
        let following = app.tracer.clone().map(|tracer| tokio::spawn(follow_runs(app.clone(), tracer)));
        let mut stopping = app.stopping.subscribe();
        loop {
            tokio::select! {
                (stream, address, permit) = accept(&listener, &room) => {
                    let (protocol, open) = (protocol.clone(), open.clone());
                    let stopping = app.stopping.subscribe();
                    // Nobody else waits for a handshake.
                    tokio::spawn(async move {
                        protocol.serve_network((stream, address), stopping).await;
                        drop((permit, open));
                    });
                }
                (stream, permit) = accept_local(local.as_ref(), &room) => {
                    let (protocol, open) = (protocol.clone(), open.clone());
                    let stopping = app.stopping.subscribe();
                    tokio::spawn(async move {
                        protocol.serve_local(stream, stopping).await;
                        drop((permit, open));
                    });
                }
                _ = stopping.wait_for(|stops| *stops) => break,
            }
        }
        drop((listener, local, open));
        if timeout(LAST_ANSWERS, all_ended.recv()).await.is_err() {
            tracing::warn!("some requests were not answered before the server stopped");
        }
        if let Some(following) = following {
            // What cannot be told in time is not told.
            let _ = timeout(LAST_ANSWERS, following).await.is_ok();
        }
    }
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

/// How every connection is spoken with.
struct Protocol {
    router: Router,
    builder: auto::Builder<TokioExecutor>,
    limits: Limits,
    tls: Option<Tls>,
}

impl Protocol {
    /// Serves a connection over the network, after its handshake where there is TLS.
    async fn serve_network(
        &self,
        (stream, address): (TcpStream, SocketAddr),
        mut stopping: watch::Receiver<bool>,
    ) {
        let peer = Peer::Network(address.ip());
        let ended = match &self.tls {
            None => self.speak(stream, peer, stopping).await,
            Some(tls) => {
                let greeted = tokio::select! {
                    greeted = tls.accept(stream) => greeted,
                    _ = stopping.wait_for(|stops| *stops) => Err(io::ErrorKind::ConnectionAborted.into()),
                };
                match greeted {
                    Ok(stream) => self.speak(stream, peer, stopping).await,
                    Err(error) => Err(error.into()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%address, %error, "connection ended");
        }
    }

    /// Serves a connection of this machine.
    async fn serve_local(&self, stream: UnixStream, stopping: watch::Receiver<bool>) {
        if let Err(error) = self.speak(stream, Peer::Socket, stopping).await {
            tracing::debug!(%error, "connection ended");
        }
    }

    /// Answers on a connection until it ends: when its peer ends it, when it has had no request for too long, or when the server
    /// stops and what is under way is answered.
    async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        peer: Peer,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let activity = Activity::new();
        let service = service_of(self.router.clone(), peer, activity.clone());
        let stream = TokioIo::new(BoundedStream::new(stream, self.limits.idle_time, self.limits.stall_time));
        let connection = self.builder.serve_connection(stream, service);
        pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = activity.wait_until_idle(self.limits.idle_time) => {}
            _ = stopping.wait_for(|stops| *stops) => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => ended,
            // A peer that does not end its side is given as long as one that takes nothing of an answer.
            () = activity.wait_until_idle(self.limits.stall_time) => {
                Err(io::Error::from(io::ErrorKind::TimedOut).into())
            }
        }
    }
}

fn build_protocol(limits: &Limits) -> auto::Builder<TokioExecutor> {
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
    builder
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
    activity: Activity,
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
        let open = activity.begin_request(request.version());
        let answer = router.clone().call(request);
        async move {
            let response = answer.await?;
            Ok(match open {
                Some(open) => open.keep_with(response),
                None => response,
            })
        }
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
