//! Unix sockets, and addresses in use.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use tollway_server::{ListenAddress, ListenerKind, ServeError};

use crate::client::Client;
use crate::running::Setup;

const POLICIES: &str = r#"
    [policies.api]
    limits = ["2 / hour from first call"]
    [server.address]
    trusted_networks = ["unix"]
"#;

fn at(path: &Path) -> Setup {
    let mut setup = Setup::of(POLICIES);
    setup.config.listen = ListenAddress::Unix { path: path.to_owned(), mode: None };
    setup
}

#[test]
fn unix_socket_serves_and_is_removed_on_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.sock");
    let server = at(&path).start();
    assert_eq!(Client::unix(&path).take(r#"{"policy":"api"}"#).status, 200);
    assert!(
        matches!(at(&path).try_start().err(), Some(ServeError::Taken(_))),
        "a live socket is not replaced"
    );
    assert_eq!(Client::unix(&path).take(r#"{"policy":"api"}"#).status, 200);
    drop(server);
    assert!(!path.exists());
}

#[test]
fn stale_unix_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = at(&path).start();
    assert_eq!(Client::unix(&path).take(r#"{"policy":"api"}"#).status, 200);
    drop(server);
}

/// Connecting to any file fails with the same error as connecting to a stale socket.
#[test]
fn regular_file_at_the_socket_path_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "x").unwrap();
    let error = at(&path).try_start().err().unwrap().to_string();
    assert!(error.contains("is not a socket") && error.contains("precious"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");
    // The same for a symbolic link to it.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(at(&link).try_start().is_err());
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "x");
}

/// A server that stops does not remove a socket that another process has since created at its path.
#[test]
fn stop_keeps_the_socket_of_a_successor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.sock");
    let server = at(&path).start();
    std::fs::remove_file(&path).unwrap();
    let successor = at(&path).start();
    drop(server);
    assert_eq!(Client::unix(&path).take(r#"{"policy":"api"}"#).status, 200);
    drop(successor);
    assert!(!path.exists());
}

#[test]
fn unix_socket_has_the_configured_mode() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o660, 0o606] {
        let path = folder.path().join("tollway.sock");
        let mut setup = Setup::of(POLICIES);
        setup.config.listen = format!("unix:{}?mode={mode:o}", path.display()).parse().unwrap();
        let server = setup.start();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        drop(server);
    }
}

/// A client behind a unix socket has no address, except from a trusted proxy.
#[test]
fn unix_socket_client_address_comes_from_the_trusted_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.sock");
    let server = at(&path).start();
    let mut client = Client::unix(&path);
    let ask = |client: &mut Client, header: &str| client.get("/v1/authorize?policy=api", header).status;
    let statuses = [(); 3].map(|()| ask(&mut client, "x-forwarded-for: 203.0.113.7\r\n"));
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(ask(&mut client, ""), 400);
    drop(server);
}

#[test]
fn address_in_use_is_named_in_the_error() {
    let first = Setup::of(POLICIES).start();
    let mut second = Setup::of(POLICIES);
    second.config.listen = ListenAddress::Tcp(first.tcp(ListenerKind::Decisions));
    let error = second.try_start().err().unwrap().to_string();
    assert!(
        error.contains(&first.tcp(ListenerKind::Decisions).to_string()) && error.contains("is in use"),
        "{error}"
    );
}
