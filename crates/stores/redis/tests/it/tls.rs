//! A server that speaks TLS only and verifies client certificates.
#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::sync::Arc;

use tollway_core::{Action, Charge, Operation, Outcome, Policy, Store, StoreError, Subject};
use tollway_redis::RedisStore;
use tollway_testkit::servers::{RedisServer, certificates};
use tollway_testkit::wait_for;

#[test]
fn tls_sends_the_client_certificate_and_verifies_the_servers() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| certificates(folder.path(), name).display().to_string();
    let (ours, theirs) = (made("ours"), made("theirs"));
    let tls_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _server = RedisServer::start_with(&[
        "--tls-port",
        &tls_port.to_string(),
        "--tls-cert-file",
        &format!("{ours}/one.crt"),
        "--tls-key-file",
        &format!("{ours}/one.key"),
        "--tls-ca-cert-file",
        &format!("{ours}/ca.crt"),
    ]);
    let url = |known: &str, shown: &str| {
        format!(
            "rediss://localhost:{tls_port}?deadline=3s&ca={known}/ca.crt&cert={shown}/one.crt&key={shown}/one.key"
        )
    };
    assert!(matches!(peek(&url(&ours, &ours)), Ok(Outcome::Peeked(_))));
    for url in [url(&theirs, &ours), url(&ours, &theirs)] {
        let error = peek(&url).unwrap_err();
        assert!(error.message.contains("no connection to Redis"), "{error}");
    }
    let missing = RedisStore::open("rediss://localhost?ca=/nowhere/ca.crt").err().unwrap();
    assert!(missing.message.contains("/nowhere/ca.crt"), "{missing}");
}

fn peek(url: &str) -> Result<Outcome, StoreError> {
    let store = RedisStore::open(url).unwrap();
    let policy = Policy::new("tls", ["1 / day"]).unwrap();
    let charge = Charge::new(Arc::new(policy), Subject::SHARED);
    wait_for(store.apply(&[Operation::one(charge, Action::Peek)])).map(|mut outcomes| outcomes.remove(0))
}
