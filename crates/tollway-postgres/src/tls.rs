//! TLS with the ring provider. Certificates are always verified: what is not is no protection from anybody.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use tollway_core::{Fault, Retry, StoreError};

/// Trusts the certificates in the file, or else those of the system.
pub(crate) fn connector(roots: Option<&Path>) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|error| useless("TLS", &error))?.with_root_certificates(read_roots(roots)?);
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn read_roots(file: Option<&Path>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match file {
        None => {
            let (_, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let what = format!("sslrootcert {}", path.display());
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| useless(&what, &error))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| useless(&what, &error))?;
                roots.add(certificate).map_err(|error| useless(&what, &error))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(useless("no certificate to trust", &"name a file by sslrootcert in the store's URL"));
    }
    Ok(roots)
}

fn useless(what: &str, why: &dyn Display) -> StoreError {
    StoreError { fault: Fault::Store, retry: Retry::Useless, message: format!("{what}: {why}") }
}
