//! TLS with the ring provider. The server's certificate is always verified.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use tollway_core::{Fault, Retry, StoreError};

use crate::ErrorText;

/// Trusts the certificates in the file, or else those of the system.
pub(crate) fn connector(roots: Option<&Path>, text: &ErrorText) -> Result<MakeRustlsConnect, StoreError> {
    let roots = match roots {
        None => system_roots(),
        Some(file) => roots_of_file(file)?,
    };
    if roots.is_empty() {
        let advice = format!("name a file by sslrootcert in {}", text.url);
        return Err(not_retryable("no certificate to trust", &advice));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|error| not_retryable("TLS", &error))?.with_root_certificates(roots);
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn roots_of_file(file: &Path) -> Result<RootCertStore, StoreError> {
    let what = format!("sslrootcert {}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| not_retryable(&what, &error))? {
        let certificate = certificate.map_err(|error| not_retryable(&what, &error))?;
        roots.add(certificate).map_err(|error| not_retryable(&what, &error))?;
    }
    Ok(roots)
}

fn not_retryable(what: &str, why: &dyn Display) -> StoreError {
    StoreError { fault: Fault::Store, retry: Retry::Useless, message: format!("{what}: {why}") }
}
