//! How TLS is spoken: by the roots that browsers trust, and those that the user adds.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

use super::Client;

/// The configuration, made when it is first needed; what is wrong with it is a sentence.
pub(super) fn client_config(client: &Client) -> Result<Arc<ClientConfig>, String> {
    client.tls.get_or_init(|| build(client.settings.roots_file.as_deref())).clone()
}

/// Says what went wrong with TLS.
pub(super) fn describe(error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::InvalidMessage(_)) => "it does not answer in TLS; is it an `http://` url?".to_owned(),
        Some(Error::InvalidCertificate(why)) => format!("its certificate is not trusted: {why}"),
        Some(other) => other.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        None => error.to_string(),
    }
}

fn build(roots_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = roots_file {
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
        format!("the certificates in `{}` (SSL_CERT_FILE) cannot be used: {error}", path.display())
    };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    Ok(())
}
