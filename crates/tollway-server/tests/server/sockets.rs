//! Unix sockets, and addresses that are taken.

use std::os::unix::net::UnixListener;
use std::path::Path;

use tollway::ListenAddress;
use tollway_server::{Door, ServeError};

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
    setup.config.listen = ListenAddress::Unix(path.to_owned());
    setup
}

#[test]
fn a_unix_socket_serves_and_is_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.sock");
    let server = at(&path).start();
    assert_eq!(Client::unix(&path).take(r#"{"policy":"api"}"#).status, 200);
    assert!(
        matches!(at(&path).try_start().err(), Some(ServeError::Taken(_))),
        "it is not taken from who listens"
    );
    assert_eq!(Client::unix(&path).take(r#"{"policy":"api"}"#).status, 200);
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_socket_that_was_left_over_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = at(&path).start();
    assert_eq!(Client::unix(&path).take(r#"{"policy":"api"}"#).status, 200);
    drop(server);
}

/// A client behind a unix socket has no address: a trusted proxy says whom it speaks for, or nobody knows.
#[test]
fn a_client_behind_a_unix_socket_is_known_by_its_proxy_only() {
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
fn an_address_that_is_taken_is_named() {
    let first = Setup::of(POLICIES).start();
    let mut second = Setup::of(POLICIES);
    second.config.listen = ListenAddress::Tcp(first.tcp(Door::Decisions));
    let error = second.try_start().err().unwrap().to_string();
    assert!(error.contains(&first.tcp(Door::Decisions).to_string()) && error.contains("is taken"), "{error}");
}
