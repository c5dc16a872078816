//! A self-signed certificate for localhost, and a client that trusts it.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tollway_server::TlsFiles;
use tollway_testkit::servers::self_signed_certificate;

use crate::running::LONG;

/// Creates a self-signed certificate in this folder.
pub(crate) fn certificate(folder: &Path) -> TlsFiles {
    self_signed_certificate(folder);
    TlsFiles { certificate: folder.join("server.pem"), key: folder.join("server.key") }
}

/// A TLS connection that trusts this certificate.
pub(crate) fn over_tls(address: SocketAddr, files: &TlsFiles) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.certificate).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection =
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    StreamOwned::new(connection, socket)
}
