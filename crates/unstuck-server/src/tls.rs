//! TLS: the certificate and its key, read again when their files change, and what is said to whoever speaks no TLS.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The files are looked at this often, when somebody connects.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The first byte of whoever speaks TLS.
const HANDSHAKE: u8 = 0x16;
/// How long whoever speaks plain HTTP may take to read the answer.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What is said to them.
const PLAIN_ANSWER: &str = "this port speaks TLS; use https:// in its address\n";

/// Where a certificate and its key are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, then its chain (PEM).
    pub cert: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
}

impl TlsFiles {
    /// Returns what is unsafe about the files, in a sentence.
    pub fn warning(&self) -> Option<String> {
        let mode = std::fs::metadata(&self.key).ok()?.mode();
        (mode & 0o077 != 0).then(|| {
            format!(
                "other users can read the private key {} (mode {:03o}). Let only its owner read it: chmod 600",
                self.key.display(),
                mode & 0o777
            )
        })
    }

    /// Tells one version of the files from another.
    fn stamp(&self) -> Stamp {
        let of = |path: &Path| {
            let about = std::fs::metadata(path).ok()?;
            Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
        };
        (of(&self.cert), of(&self.key))
    }

    /// Reads both, or says which one is wrong and what to do.
    fn load(&self) -> Result<Arc<ServerConfig>, String> {
        let cannot = |path: &Path, why: &str| format!("cannot use {}: {why}", path.display());
        let certificates = read_certificates(&self.cert).map_err(|why| cannot(&self.cert, &why))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| cannot(&self.key, &describe_pem_error(&error, "private key")))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| match error {
                Error::InconsistentKeys(_) => format!(
                    "the private key {} is not the one of the certificate {}. Give the two that were made together",
                    self.key.display(),
                    self.cert.display()
                ),
                error => cannot(&self.cert, &format!("{error}. Give a certificate and its key as PEM files")),
            })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// What is known of a file: its inode, length, and time of change.
type FileStamp = Option<(u64, u64, i64, i64)>;
type Stamp = (FileStamp, FileStamp);

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(certificates) if certificates.is_empty() => {
            Err("there is no certificate in it. Give a PEM file that begins with the server's own".to_owned())
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(describe_pem_error(&error, "certificate")),
    }
}

fn describe_pem_error(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::Io(error) => match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
            _ => error.to_string(),
        },
        pem::Error::NoItemsFound => format!("there is no {what} in it. Give a PEM file, without a password"),
        error => format!("it is not a PEM file with a {what}: {error:?}"),
    }
}

/// Speaks TLS with a certificate that may be renewed while the server runs.
pub struct Tls {
    files: TlsFiles,
    handshake_time: Duration,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// Of the files that it was read from.
    stamp: Stamp,
    /// Of files that could not be used, so that this is said once.
    refused: Option<Stamp>,
    looked_at: Instant,
}

impl Tls {
    /// Reads the files. A handshake must be done within `handshake_time`.
    pub fn load(files: TlsFiles, handshake_time: Duration) -> Result<Tls, String> {
        let stamp = files.stamp();
        let config = files.load()?;
        let current = Current { config, stamp, refused: None, looked_at: Instant::now() };
        Ok(Tls { files, handshake_time, current: Mutex::new(current) })
    }

    /// Returns the configuration, read again if its files have changed. What cannot be used leaves the old one in place.
    fn config(&self) -> Arc<ServerConfig> {
        let mut current: MutexGuard<'_, Current> =
            self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked_at.elapsed() >= BETWEEN_LOOKS {
            current.looked_at = Instant::now();
            let stamp = self.files.stamp();
            if stamp != current.stamp && current.refused != Some(stamp) {
                match self.files.load() {
                    Ok(config) => {
                        tracing::info!(cert = %self.files.cert.display(), "certificate read again");
                        (current.config, current.stamp, current.refused) = (config, stamp, None);
                    }
                    Err(why) => {
                        tracing::warn!(%why, "the new certificate cannot be used; the old one stays");
                        current.refused = Some(stamp);
                    }
                }
            }
        }
        current.config.clone()
    }

    /// Greets whoever has connected. Whoever speaks plain HTTP is told in their language.
    pub(crate) async fn accept(&self, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let greeting = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
                refuse_plain(&mut stream).await;
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer speaks no TLS"));
            }
            TlsAcceptor::from(self.config()).accept(stream).await
        };
        timeout(self.handshake_time, greeting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Answers a request that came without TLS. What it says is read first, or the answer would be lost with the connection.
async fn refuse_plain(stream: &mut TcpStream) {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{PLAIN_ANSWER}",
        PLAIN_ANSWER.len()
    );
    let mut said = [0; 4096];
    let talk = async {
        let _ = stream.read(&mut said).await;
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        // Until the peer closes its side, too.
        while stream.read(&mut said).await.is_ok_and(|read| read > 0) {}
    };
    // Whoever takes longer does not want to hear it.
    let _ = timeout(LAST_WORDS, talk).await;
}
