//! A small server for the tests of requests: it remembers what it is sent, and answers whatever a test wants, right or wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What is answered to a path, and what happens then.
pub(crate) enum Reply {
    /// These bytes; then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes; then nothing, until the other side goes away.
    Silence(Vec<u8>),
}

/// Listens on a port of its own for as long as the test runs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    /// A word for each silent connection that the other side has closed.
    pub(crate) hung_up: Receiver<()>,
}

impl Server {
    /// Answers what `reply` says to the path of each request.
    pub(crate) fn new(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
        Server::listen(reply, None)
    }

    /// The same, by TLS with the certificate of the tests.
    pub(crate) fn with_tls(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
        let certificate = CertificateDer::from_pem_file(tls_file("server.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(tls_file("server-key.pem")).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("they belong together");
        Server::listen(reply, Some(Arc::new(config)))
    }

    fn listen(
        reply: impl Fn(&str) -> Reply + Send + Sync + 'static,
        tls: Option<Arc<ServerConfig>>,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (sender, hung_up) = channel();
        let (seen, reply) = (Arc::clone(&requests), Arc::new(reply));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, reply, sender, tls) =
                    (Arc::clone(&seen), Arc::clone(&reply), sender.clone(), tls.clone());
                thread::spawn(move || {
                    let hung_up = match tls {
                        None => serve(stream, &seen, &*reply),
                        Some(tls) => {
                            let connection = ServerConnection::new(tls).expect("a connection");
                            serve(StreamOwned::new(connection, stream), &seen, &*reply)
                        }
                    };
                    // A test that has ended hears no more.
                    let _ = if hung_up { sender.send(()) } else { Ok(()) };
                });
            }
        });
        Server { address, requests, hung_up }
    }

    /// A url on this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it was sent, in order: request line and headers in small letters, a blank line, the body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("nobody panicked").clone()
    }
}

/// A file of the tests' own authority.
pub(crate) fn tls_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/executors/tls").join(name)
}

/// Takes one request and answers it. Gives whether the other side went away from a silent connection.
fn serve<S: Read + Write>(
    mut stream: S,
    seen: &Mutex<Vec<String>>,
    reply: &(impl Fn(&str) -> Reply + ?Sized),
) -> bool {
    let Some(request) = read_request(&mut stream) else { return false };
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().expect("nobody panicked").push(request);
    let (bytes, is_silent) = match reply(&path) {
        Reply::Bytes(bytes) => (bytes, false),
        Reply::Silence(bytes) => (bytes, true),
    };
    // Who has seen enough does not read on.
    let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
    is_silent && !matches!(stream.read(&mut [0; 16]), Ok(count) if count > 0)
}

fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(text.replace("\r\n", "\n"));
        }
    }
}

/// Whether anybody listens there.
pub(crate) fn is_reachable(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// A whole response.
pub(crate) fn response(status: u16, headers: &str, body: &str) -> Reply {
    Reply::Bytes(
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes(),
    )
}
