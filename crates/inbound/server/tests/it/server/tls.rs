//! TLS on the server's own sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use tollway_server::{ClientTimeouts, ListenerKind, ServeError, TlsFiles};

use crate::certificate::{certificate, over_tls};
use crate::client::Client;
use crate::running::{Running, Setup};

const POLICIES: &str = "[policies.api]\nlimits = [\"100 / hour\"]";

fn client(server: &Running, kind: ListenerKind, files: &TlsFiles) -> Client {
    Client::over(over_tls(server.tcp(kind), files))
}

/// Both listeners speak TLS; a plaintext connection is closed and affects no others.
#[test]
fn both_http_listeners_speak_tls() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let mut setup = Setup::of(POLICIES);
    setup.config.tls = Some(files.clone());
    let server = setup.start();
    let mut plain = server.client();
    plain.write("GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    assert!(!plain.closed().contains("HTTP/"));
    assert_eq!(client(&server, ListenerKind::Decisions, &files).take(r#"{"policy":"api"}"#).status, 200);
    assert_eq!(client(&server, ListenerKind::Administration, &files).get("/health", "").status, 200);
}

/// T21: a handshake that never ends is cut off by the head timeout.
#[test]
fn endless_tls_handshake_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let mut setup = Setup::of(POLICIES);
    setup.config.tls = Some(files.clone());
    setup.timeouts =
        ClientTimeouts { head: std::time::Duration::from_millis(500), ..ClientTimeouts::default() };
    let server = setup.start();
    let mut slow = TcpStream::connect(server.tcp(ListenerKind::Decisions)).unwrap();
    slow.write_all(&[22, 3, 1]).unwrap();
    assert_eq!(slow.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(client(&server, ListenerKind::Decisions, &files).take(r#"{"policy":"api"}"#).status, 200);
}

#[test]
fn unusable_certificate_is_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let other = tempfile::tempdir().unwrap();
    let another = certificate(other.path());
    for (certificate, key, named) in [
        (folder.path().join("nowhere.pem"), files.key.clone(), "nowhere.pem"),
        (files.certificate.clone(), files.certificate.clone(), "server.pem"),
        (files.certificate.clone(), another.key, "server.pem"),
    ] {
        let mut setup = Setup::of(POLICIES);
        setup.config.tls = Some(TlsFiles { certificate, key });
        let refused = setup.try_start().err().unwrap();
        assert!(
            matches!(&refused, ServeError::Tls { .. }) && refused.to_string().contains(named),
            "{refused}"
        );
    }
}
