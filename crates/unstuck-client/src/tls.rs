//! TLS towards a server: whose certificates are trusted, and what is wrong with one that is not.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use crate::address::Address;

/// The certificate that a server has shown, as it came (DER).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate(pub Vec<u8>);

/// Greets a server. Trusted are those whom browsers trust, and the authorities in this file.
pub(crate) async fn connect(
    address: &Address,
    ca_file: Option<&Path>,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, String> {
    let config = build_config(ca_file)?;
    let name = ServerName::try_from(address.bare_host().to_owned())
        .map_err(|_| format!("`{}` is not a name that a certificate can have", address.bare_host()))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| describe(&error))
}

/// Returns the certificate of a server.
pub(crate) fn peer_certificate(stream: &TlsStream<TcpStream>) -> Option<PeerCertificate> {
    let (_, connection) = stream.get_ref();
    let first = connection.peer_certificates()?.first()?;
    Some(PeerCertificate(first.to_vec()))
}

fn build_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        add_roots(&mut roots, path)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add_roots(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("the authorities in {} (--ca) cannot be used: {error}", path.display())
    };
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.len() == before {
        return Err(wrong(&"there is no certificate in it"));
    }
    Ok(())
}

/// Says what went wrong, and what to do.
fn describe(error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::InvalidMessage(_)) => "it speaks no TLS; use http:// in its address".to_owned(),
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "nobody who is trusted has signed its certificate. Name the file of its authority with --ca PATH or UNSTUCK_CA_FILE"
                .to_owned()
        }
        Some(Error::InvalidCertificate(why)) => format!("its certificate cannot be trusted: {why}"),
        Some(other) => other.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        None => error.to_string(),
    }
}
