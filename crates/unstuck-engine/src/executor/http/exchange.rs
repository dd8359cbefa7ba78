//! One exchange after the other, redirects included: a connection to an address that was looked at, a request, a response.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, LOCATION};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use unstuck_core::command::Report;
use unstuck_core::decide::MAX_PAYLOAD_BYTES;
use unstuck_core::model::error::Error;
use unstuck_core::model::http::StatusRules;

use super::request::{PreparedRequest, wrong};
use super::response::{Response, too_large};
use super::target::Target;
use super::{CLOSED_EARLY, Client, HttpSettings, tls};

/// So many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// Makes the request, and the requests that redirects ask for, or says how the attempt has ended.
pub(super) async fn make_request(
    mut request: PreparedRequest,
    rules: &StatusRules,
    client: &Client,
) -> Result<Response, Report> {
    let mut redirects = 0;
    loop {
        let response = exchange(&request, rules, client).await?;
        match response {
            Exchanged::Response(response) => return Ok(*response),
            Exchanged::Redirect(status, location) => {
                redirects += 1;
                if redirects > MAX_REDIRECTS {
                    let from = &request.target;
                    return Err(failed(format!(
                        "more than {MAX_REDIRECTS} redirects, the last one from {from}"
                    )));
                }
                request = request.redirected(status, &location).map_err(failed)?;
            }
        }
    }
}

enum Exchanged {
    Response(Box<Response>),
    Redirect(hyper::StatusCode, String),
}

async fn exchange(
    request: &PreparedRequest,
    rules: &StatusRules,
    client: &Client,
) -> Result<Exchanged, Report> {
    let target = &request.target;
    let stream = connect(target, &client.settings).await?;
    if !target.is_https {
        return speak(stream, request, rules).await;
    }
    let config = tls::client_config(client).map_err(failed)?;
    let name = ServerName::try_from(target.host.clone())
        .map_err(|_| wrong(format!("`{}` is not the name of a host", target.host)))?;
    let handshake = TlsConnector::from(Arc::clone(&config)).connect(name, stream);
    match timeout(client.settings.connect_timeout, handshake).await {
        Ok(Ok(stream)) => speak(stream, request, rules).await,
        Ok(Err(error)) => {
            Err(stalled(format!("TLS with {} failed: {}", target.authority(), tls::describe(&error))))
        }
        Err(_) => Err(stalled(format!(
            "TLS with {} failed: no answer within {}",
            target.authority(),
            friendly(client.settings.connect_timeout)
        ))),
    }
}

/// Connects to the first address of the host that answers, out of those that requests may go to.
async fn connect(target: &Target, settings: &HttpSettings) -> Result<TcpStream, Report> {
    let host = &target.host;
    let found =
        timeout(settings.connect_timeout, tokio::net::lookup_host((host.as_str(), target.port))).await;
    let addresses: Vec<SocketAddr> = match found {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => {
            return Err(stalled(format!("cannot find the address of `{host}`: {}", plain(&error))));
        }
        Err(_) => {
            let limit = friendly(settings.connect_timeout);
            return Err(stalled(format!("cannot find the address of `{host}`: no answer within {limit}")));
        }
    };
    let mut refused = None;
    let mut last = None;
    for address in addresses {
        // The very address that is connected to: what a name means may change from one look to the next.
        if let Err(kind) = settings.addresses.check(address.ip()) {
            refused.get_or_insert((address.ip(), kind));
            continue;
        }
        match timeout(settings.connect_timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without this a small request waits for what comes after it, and nothing does.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = Some(why_not_connected(target, address, &error)),
            Err(_) => {
                let limit = friendly(settings.connect_timeout);
                last = Some(format!("no connection to {} within {limit}", place(target, address)));
            }
        }
    }
    match (last, refused) {
        (Some(cause), _) => Err(stalled(cause)),
        (None, Some((address, kind))) => {
            let is = if is_literal(host, address) {
                format!("{address} is")
            } else {
                format!("`{host}` is at {address},")
            };
            Err(wrong(format!("{is} {kind}: requests to such addresses are not allowed here")))
        }
        (None, None) => Err(stalled(format!("cannot find the address of `{host}`: it has none"))),
    }
}

fn why_not_connected(target: &Target, address: SocketAddr, error: &io::Error) -> String {
    let place = place(target, address);
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("connection refused by {place}"),
        io::ErrorKind::TimedOut => format!("no connection to {place}: it does not answer"),
        _ => format!("cannot connect to {place}: {}", plain(error)),
    }
}

/// Whether the host was given as its address.
fn is_literal(host: &str, address: IpAddr) -> bool {
    host.parse() == Ok(address)
}

/// `127.0.0.1:9`, or `example.com (93.184.216.34:443)`.
fn place(target: &Target, address: SocketAddr) -> String {
    if is_literal(&target.host, address.ip()) {
        address.to_string()
    } else {
        format!("{} ({address})", target.host)
    }
}

/// Sends the request on a connection, and reads the response. The connection ends with the future: whoever drops it closes it.
async fn speak<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: &PreparedRequest,
    rules: &StatusRules,
) -> Result<Exchanged, Report> {
    let (mut sender, connection) = http1::Builder::new()
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&request.target, &error))?;
    let exchange = async {
        let response =
            sender.send_request(message(request)?).await.map_err(|error| broken(&request.target, &error))?;
        let status = response.status();
        let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        if is_redirect
            && rules.given(status.as_u16()).is_none()
            && let Some(location) = response.headers().get(LOCATION)
        {
            return Ok(Exchanged::Redirect(
                status,
                String::from_utf8_lossy(location.as_bytes()).into_owned(),
            ));
        }
        let (head, body) = response.into_parts();
        let body = read_body(body, &request.target).await?;
        let from = request.target.clone();
        Ok(Exchanged::Response(Box::new(Response {
            status: status.as_u16(),
            headers: head.headers,
            body,
            from,
        })))
    };
    beside(connection, exchange).await
}

/// Lets the connection do its work for as long as the exchange takes.
async fn beside<T>(
    connection: impl Future<Output = hyper::Result<()>>,
    exchange: impl Future<Output = T>,
) -> T {
    let mut connection = pin!(connection);
    let mut exchange = pin!(exchange);
    let mut is_open = true;
    poll_fn(move |context| {
        // How it ended is known to the exchange as well.
        if is_open && connection.as_mut().poll(context).is_ready() {
            is_open = false;
        }
        match exchange.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn message(request: &PreparedRequest) -> Result<hyper::Request<Full<Bytes>>, Report> {
    let body = Full::new(request.body.clone().unwrap_or_default());
    let unsendable = || wrong(format!("the request to {} cannot be sent", request.target));
    let mut message = hyper::Request::builder()
        .method(request.method.clone())
        .uri(request.target.path_and_query())
        .body(body)
        .map_err(|_| unsendable())?;
    *message.headers_mut() = request.headers.clone();
    let host = HeaderValue::from_str(&request.target.authority()).map_err(|_| unsendable())?;
    message.headers_mut().insert(HOST, host);
    Ok(message)
}

/// Reads a body to its end, up to what an output may have.
async fn read_body(mut body: Incoming, from: &Target) -> Result<Vec<u8>, Report> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(from, &error))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > MAX_PAYLOAD_BYTES {
                return Err(too_large(from));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// A connection that broke, or whoever is there does not speak HTTP.
fn broken(target: &Target, error: &hyper::Error) -> Report {
    if error.is_parse() {
        return stalled(format!("{target} does not answer in HTTP: {error}"));
    }
    stalled(format!("{CLOSED_EARLY} ({target})"))
}

fn stalled(cause: String) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal: false }
}

fn failed(cause: String) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal: true }
}

/// The error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(text).to_owned()
}

fn friendly(span: Duration) -> String {
    unstuck_core::time::Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).to_string()
}
