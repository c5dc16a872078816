//! TLS on the server's own sockets, with rustls and ring.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{ServeError, TlsFiles};

/// Reads the certificate and its key. ALPN offers HTTP/2 and HTTP/1.1.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &Path, problem: String| ServeError::Tls { path: path.to_owned(), problem };
    let chain =
        CertificateDer::pem_file_iter(&files.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| wrong(&files.certificate, error.to_string()))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ServeError::Machine(error.to_string()))?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
