//! Sends HTTP calls and reads their answers; each call has a connection of its own.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::header;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use unstuck_api::request::{Query, Request};
use unstuck_api::{ProblemDocument, ProblemType};

use crate::address::Address;
use crate::http_call::{HttpCall, build_call, read_view};
use crate::tls::{self, PeerCertificate};

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWERING: Duration = Duration::from_secs(30);
/// How long it may take where there may be a hundred thousand errors to look at.
const LONG: Duration = Duration::from_mins(10);
/// The largest answer.
const LARGEST: usize = 256 << 20;
/// How long a server waits for a run, in one call.
const WAIT: Duration = Duration::from_secs(20);

/// The header that has the cursor of what an answer does not show yet.
const EVENTS_HEADER: &str = "unstuck-events";

/// Talks to one server.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    /// The name of the person, for the record.
    user: String,
    token: Option<String>,
    /// Authorities that are trusted besides those that browsers trust.
    ca_file: Option<PathBuf>,
    /// What a command that is to be typed needs to find this server, such as ` --server URL`.
    option: String,
    /// How it is connected to, where that is not over the network.
    socket: Option<Socket>,
}

/// Connects to the socket of a server on this machine.
#[derive(Clone)]
struct Socket(Arc<dyn Fn() -> io::Result<std::os::unix::net::UnixStream> + Send + Sync>);

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The server has refused, or could not do it: a problem says why.
    Problem(Box<ProblemDocument>),
    /// Nothing was sent, in a sentence.
    Unreachable(String),
    /// It was sent and no answer came, in a sentence: it may or may not have been done.
    Lost(String),
}

impl ClientError {
    /// Says why there is no answer.
    pub fn sentence(&self) -> String {
        match self {
            ClientError::Problem(problem) => problem.detail.clone(),
            ClientError::Unreachable(sentence) | ClientError::Lost(sentence) => sentence.clone(),
        }
    }
}

/// What a server has answered.
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Events from there on miss nothing that the answer does not show yet.
    pub(crate) events: Option<String>,
}

impl Client {
    pub fn new(address: Address, user: impl Into<String>) -> Client {
        let (token, ca_file, socket) = (None, None, None);
        Client { address, user: user.into(), token, ca_file, option: String::new(), socket }
    }

    /// The same, with a token of the API.
    #[must_use]
    pub fn with_token(self, token: Option<String>) -> Client {
        Client { token, ..self }
    }

    /// The same, trusting the authorities in this file (PEM) too.
    #[must_use]
    pub fn with_ca_file(self, ca_file: Option<PathBuf>) -> Client {
        Client { ca_file, ..self }
    }

    /// The same, with what commands that are to be typed need to find this server.
    #[must_use]
    pub fn with_option(self, option: impl Into<String>) -> Client {
        Client { option: option.into(), ..self }
    }

    /// The same, over a socket of this machine that is connected to so.
    #[must_use]
    pub fn over_socket(
        self,
        connect: impl Fn() -> io::Result<std::os::unix::net::UnixStream> + Send + Sync + 'static,
    ) -> Client {
        Client { socket: Some(Socket(Arc::new(connect))), ..self }
    }

    /// Returns where the server is, for people.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Reads a page of the server, with its status: for looking at the server itself.
    pub fn get_page(&self, parts: &[&str]) -> Result<(u16, String), ClientError> {
        self.send(&HttpCall::get(parts), ANSWERING).map(|answer| (answer.status, answer.body))
    }

    /// Posts a document and returns the status: for servers of others.
    pub fn post_document(&self, parts: &[&str], document: &serde_json::Value) -> Result<u16, ClientError> {
        self.send(&HttpCall::post(parts, document), CONNECTING).map(|answer| answer.status)
    }

    /// Returns the certificate of a server that speaks TLS.
    pub fn certificate(&self) -> Result<Option<PeerCertificate>, ClientError> {
        if !self.address.is_encrypted {
            return Ok(None);
        }
        build_runtime()?.block_on(async {
            let stream = self.greet(self.connect().await?).await?;
            Ok(tls::peer_certificate(&stream))
        })
    }

    /// Sends a request, and returns its view as JSON, as the service behind the server has written it.
    pub fn request(&self, request: &Request) -> Result<String, ClientError> {
        let patience = if request.takes_long() { LONG } else { ANSWERING };
        let Some(call) = build_call(request) else {
            return self.resolve_names(request);
        };
        if call.has_empty_name() {
            let sentence = "there is no such thing: its name is empty; give a name";
            return Err(ClientError::Problem(Box::new(ProblemDocument::new(
                ProblemType::NotFound,
                sentence,
            ))));
        }
        let answer = self.send(&call, patience)?;
        let view = read_view(request, answer).map_err(ClientError::Problem)?;
        if let Request::Query(Query::Kept { names }) = request {
            self.check_policies(names, &view)?;
        }
        Ok(view)
    }

    /// Refuses a name that no policy has, with the sentence that the server has for it.
    fn check_policies(&self, names: &[String], kept: &str) -> Result<(), ClientError> {
        let kept: Vec<serde_json::Value> = serde_json::from_str(kept).unwrap_or_default();
        for name in names {
            if !kept.iter().any(|policy| policy["name"] == **name || policy["id"] == **name) {
                self.request(&Request::Query(Query::Policy { name: name.clone() }))?;
            }
        }
        Ok(())
    }

    /// Returns the document of a run when it rests, or after a while as it is then.
    pub fn wait_for_run(&self, run: &str) -> Result<String, ClientError> {
        let call = HttpCall::get(&["v1", "runs", run]).with("wait", Some(format!("{}s", WAIT.as_secs())));
        let answer = self.send(&call, WAIT + ANSWERING)?;
        check_status(answer).map(|answer| answer.body)
    }

    /// Returns the document of a run, and the cursor of all that happens to it after that; neither where there is no such run.
    pub fn get_run(&self, run: &str) -> Result<Option<(String, Option<String>)>, ClientError> {
        self.find(&["v1", "runs", run])
    }

    /// The same of the run that has a key.
    pub fn get_run_of_key(
        &self,
        flow: &str,
        key: &str,
    ) -> Result<Option<(String, Option<String>)>, ClientError> {
        self.find(&["v1", "flows", flow, "keys", key])
    }

    /// Returns a cursor of all that happens from now on.
    pub fn get_cursor(&self) -> Result<String, ClientError> {
        let answer = self.send(&HttpCall::get(&["v1", "flows"]).with("limit", Some(1)), ANSWERING)?;
        check_status(answer)?.events.ok_or_else(|| {
            ClientError::Unreachable(format!("{} has no stream of events; use a newer version", self.address))
        })
    }

    /// Answers whether the second of two names is a run, which takes two calls.
    fn resolve_names(&self, request: &Request) -> Result<String, ClientError> {
        let Request::Query(Query::Names { first, second }) = request else {
            return Err(ClientError::Unreachable("this cannot be asked of a server".to_owned()));
        };
        let first_name = first.as_str();
        let (first, _) = self.get_run(first)?.unwrap_or_default();
        let run: serde_json::Value = serde_json::from_str(&first).unwrap_or_default();
        let step = second.split_once('[').map_or(second.as_str(), |(step, _)| step);
        let has_step =
            run["steps"].as_array().is_some_and(|steps| steps.iter().any(|found| found["id"] == step));
        if has_step {
            let call = HttpCall::get(&["v1", "runs"]).with("key", Some(second)).with("all", Some(true));
            let answer = check_status(self.send(&call.with("limit", Some(1)), ANSWERING)?)?;
            let found: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
            return match found["runs"][0]["id"].as_str() {
                None => Ok("false".to_owned()),
                Some(other) => Err(ambiguous_step(second, run["id"].as_str().unwrap_or(first_name), other)),
            };
        }
        Ok(self.get_run(second)?.is_some().to_string())
    }

    fn find(&self, parts: &[&str]) -> Result<Option<(String, Option<String>)>, ClientError> {
        let answer = self.send(&HttpCall::get(parts), ANSWERING)?;
        if answer.status == 404 {
            return Ok(None);
        }
        check_status(answer).map(|answer| Some((answer.body, answer.events)))
    }

    fn send(&self, call: &HttpCall, patience: Duration) -> Result<HttpAnswer, ClientError> {
        build_runtime()?.block_on(self.exchange(call, patience))
    }

    async fn exchange(&self, call: &HttpCall, patience: Duration) -> Result<HttpAnswer, ClientError> {
        let mut sender = self.open().await?;
        let request = self.build_request(call)?;
        let lost = |why: String| ClientError::Lost(format!("{} {why}", self.address));
        let answered = timeout(patience, async {
            let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            let events = answer.headers().get(EVENTS_HEADER).and_then(|cursor| cursor.to_str().ok());
            let events = events.map(str::to_owned);
            let body = Limited::new(answer.into_body(), LARGEST).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok::<_, String>((status, body, events))
        })
        .await;
        let (status, body, events) = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return Err(lost(format!("hung up before it answered ({why})"))),
            Err(_) => return Err(lost(format!("has not answered for {} s", patience.as_secs()))),
        };
        let body = String::from_utf8(body.to_vec())
            .map_err(|_| lost("sent an answer that is not text".to_owned()))?;
        Ok(HttpAnswer { status, body, events })
    }

    /// Opens a connection, which is driven until its sender is gone.
    pub(crate) async fn open(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        match &self.socket {
            None if self.address.is_encrypted => {
                let stream = self.connect().await?;
                self.shake_hands(self.greet(stream).await?).await
            }
            None => self.shake_hands(self.connect().await?).await,
            Some(Socket(connect)) => {
                let connected = connect().and_then(|stream| {
                    stream.set_nonblocking(true)?;
                    UnixStream::from_std(stream)
                });
                let stream =
                    connected.map_err(|error| self.unreachable(&without_number(&error.to_string())))?;
                self.shake_hands(stream).await
            }
        }
    }

    /// Speaks TLS from here on.
    async fn greet(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, ClientError> {
        let greeting = tls::connect(&self.address, self.ca_file.as_deref(), stream);
        let greeted = timeout(CONNECTING, greeting).await;
        let greeted =
            greeted.unwrap_or_else(|_| Err(format!("no handshake within {} s", CONNECTING.as_secs())));
        greeted.map_err(|why| {
            ClientError::Unreachable(format!(
                "no secure connection to {}: {why}. Nothing was changed",
                self.address
            ))
        })
    }

    async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
    ) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| {
                ClientError::Unreachable(format!("{} does not speak HTTP: {error}", self.address))
            })?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn unreachable(&self, why: &str) -> ClientError {
        ClientError::Unreachable(format!(
            "no server answers at {}: {why}. Nothing was changed. `unstuck serve` starts one",
            self.address
        ))
    }

    async fn connect(&self) -> Result<TcpStream, ClientError> {
        let connecting = TcpStream::connect((self.address.bare_host(), self.address.port));
        match timeout(CONNECTING, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.unreachable(&without_number(&error.to_string()))),
            Err(_) => Err(self.unreachable(&format!("no connection within {} s", CONNECTING.as_secs()))),
        }
    }

    pub(crate) fn build_request(&self, call: &HttpCall) -> Result<hyper::Request<Full<Bytes>>, ClientError> {
        let mut request = hyper::Request::builder()
            .method(call.method)
            .uri(call.target())
            .header(header::HOST, format!("{}:{}", self.address.host, self.address.port))
            .header(header::ACCEPT, call.accept)
            .header("unstuck-user", &self.user);
        if !self.option.is_empty() {
            let option: String = form_urlencoded::byte_serialize(self.option.as_bytes()).collect();
            request = request.header("unstuck-option", option);
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, call.content);
        }
        let body = Full::new(Bytes::from(call.body.clone().unwrap_or_default()));
        request.body(body).map_err(|error| ClientError::Unreachable(format!("this cannot be sent: {error}")))
    }
}

/// Builds the problem that a name is a step and a run, as the service does.
fn ambiguous_step(name: &str, run: &str, other: &str) -> ClientError {
    let sentence = format!(
        "`{name}` is both a step of {run} and the key of {other}; name the other run by its id or FLOW:KEY"
    );
    let mut problem = ProblemDocument::new(ProblemType::Ambiguous, sentence);
    problem.about.candidates = vec![other.to_owned()];
    ClientError::Problem(Box::new(problem))
}

/// Builds what drives calls on this thread.
pub(crate) fn build_runtime() -> Result<Runtime, ClientError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ClientError::Unreachable(format!("cannot use the network: {error}")))
}

/// Reads the problem of an answer that is none.
pub(crate) fn check_status(answer: HttpAnswer) -> Result<HttpAnswer, ClientError> {
    if answer.status < 300 {
        return Ok(answer);
    }
    Err(ClientError::Problem(Box::new(read_problem(&answer))))
}

/// Reads a problem; something between us and the server may have answered with another kind of page.
pub(crate) fn read_problem(answer: &HttpAnswer) -> ProblemDocument {
    serde_json::from_str(&answer.body).unwrap_or_else(|_| {
        let beginning: String = answer.body.chars().take(200).collect();
        ProblemDocument::new(
            ProblemType::Internal,
            format!("the server answered with status {} and no reason: {beginning}", answer.status),
        )
    })
}

/// Cuts ` (os error 111)` off.
fn without_number(message: &str) -> String {
    message.split_once(" (os error").map_or(message, |(message, _)| message).to_lowercase()
}
