//! Sends HTTP calls and reads their answers; each call has a connection of its own.

use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use unstuck_api::request::Request;
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

/// Talks to one server.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    /// The name of the person, for the record.
    user: String,
    token: Option<String>,
    /// Authorities that are trusted besides those that browsers trust.
    ca_file: Option<PathBuf>,
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

/// What a server has answered.
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Client {
    pub fn new(address: Address, user: impl Into<String>) -> Client {
        Client { address, user: user.into(), token: None, ca_file: None }
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

    /// Returns where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Reads a page of the server, with its status: for looking at the server itself.
    pub fn get_page(&self, parts: &[&str]) -> Result<(u16, String), ClientError> {
        self.send(&HttpCall::get(parts), ANSWERING).map(|answer| (answer.status, answer.body))
    }

    /// Returns the certificate of a server that speaks TLS.
    pub fn certificate(&self) -> Result<Option<PeerCertificate>, ClientError> {
        if !self.address.is_encrypted {
            return Ok(None);
        }
        start_runtime()?.block_on(async {
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
        let answer = self.send(&call, patience)?;
        read_view(request, answer).map_err(ClientError::Problem)
    }

    /// Returns the document of a run when it rests, or after a while as it is then.
    pub fn wait_for_run(&self, run: &str) -> Result<String, ClientError> {
        let call = HttpCall::get(&["v1", "runs", run]).with("wait", Some(format!("{}s", WAIT.as_secs())));
        let answer = self.send(&call, WAIT + ANSWERING)?;
        check_status(answer).map(|answer| answer.body)
    }

    /// Answers whether the second of two names is a run, which takes two calls.
    fn resolve_names(&self, request: &Request) -> Result<String, ClientError> {
        let Request::Query(unstuck_api::request::Query::Names { first, second }) = request else {
            return Err(ClientError::Unreachable("this cannot be asked of a server".to_owned()));
        };
        let first = self.get_run(first)?.unwrap_or_default();
        let run: serde_json::Value = serde_json::from_str(&first).unwrap_or_default();
        let step = second.split_once('[').map_or(second.as_str(), |(step, _)| step);
        let has_step =
            run["steps"].as_array().is_some_and(|steps| steps.iter().any(|found| found["id"] == step));
        if has_step {
            return Ok("false".to_owned());
        }
        Ok(self.get_run(second)?.is_some().to_string())
    }

    fn get_run(&self, name: &str) -> Result<Option<String>, ClientError> {
        let answer = self.send(&HttpCall::get(&["v1", "runs", name]), ANSWERING)?;
        if answer.status == 404 {
            return Ok(None);
        }
        check_status(answer).map(|answer| Some(answer.body))
    }

    fn send(&self, call: &HttpCall, patience: Duration) -> Result<HttpAnswer, ClientError> {
        start_runtime()?.block_on(async {
            let stream = self.connect().await?;
            if self.address.is_encrypted {
                let stream = self.greet(stream).await?;
                return self.exchange(stream, call, patience).await;
            }
            self.exchange(stream, call, patience).await
        })
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

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        call: &HttpCall,
        patience: Duration,
    ) -> Result<HttpAnswer, ClientError> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| {
                ClientError::Unreachable(format!("{} does not speak HTTP: {error}", self.address))
            })?;
        let driving = tokio::spawn(connection);
        let request = self.build_request(call)?;
        let lost = |why: String| ClientError::Lost(format!("{} {why}", self.address));
        let answered = timeout(patience, async {
            let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), LARGEST).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok::<_, String>((status, body))
        })
        .await;
        driving.abort();
        let (status, body) = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return Err(lost(format!("hung up before it answered ({why})"))),
            Err(_) => return Err(lost(format!("has not answered for {} s", patience.as_secs()))),
        };
        let body = String::from_utf8(body.to_vec())
            .map_err(|_| lost("sent an answer that is not text".to_owned()))?;
        Ok(HttpAnswer { status, body })
    }

    async fn connect(&self) -> Result<TcpStream, ClientError> {
        let connecting = TcpStream::connect((self.address.bare_host(), self.address.port));
        let unreachable = |why: String| {
            ClientError::Unreachable(format!(
                "no server answers at {}: {why}. Nothing was changed. `unstuck serve` starts one",
                self.address
            ))
        };
        match timeout(CONNECTING, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(unreachable(without_number(&error.to_string()))),
            Err(_) => Err(unreachable(format!("no connection within {} s", CONNECTING.as_secs()))),
        }
    }

    fn build_request(&self, call: &HttpCall) -> Result<hyper::Request<Full<Bytes>>, ClientError> {
        let mut request = hyper::Request::builder()
            .method(call.method)
            .uri(call.target())
            .header(header::HOST, format!("{}:{}", self.address.host, self.address.port))
            .header(header::ACCEPT, call.accept)
            .header("unstuck-user", &self.user);
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

fn start_runtime() -> Result<tokio::runtime::Runtime, ClientError> {
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
