//! A server that speaks TLS, and whose certificate is looked at.
#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use crate::support::{policy, subject, take, try_take};
use tollway_core::{Retry, StoreError};
use tollway_postgres::PostgresStore;
use tollway_testkit::servers::{PostgresServer, certificates};

#[test]
fn tls_verifies_the_servers_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (certificates(folder.path(), "ours"), certificates(folder.path(), "theirs"));
    let server = PostgresServer::start();
    server.require_tls("app", &ours);
    let port = server.port();
    let url = |host: &str, rest: &str| format!("postgres://app@{host}:{port}/postgres?deadline=20s{rest}");
    let trusting = |known: &Path| format!("&sslmode=require&sslrootcert={}", known.join("ca.crt").display());

    let store = PostgresStore::connect(&url("localhost", &trusting(&ours))).unwrap();
    assert!(try_take(&store, &policy("9 requests / day"), &subject("s")));
    let sessions = "pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'app'";
    assert_eq!(server.query(&format!("SELECT DISTINCT ssl FROM {sessions}")), "t");

    for (url, reason) in [
        (url("localhost", &trusting(&theirs)), "certificate"),
        (url("127.0.0.1", &trusting(&ours)), "certificate"),
        (url("localhost", "&sslmode=require&sslrootcert=/nowhere/ca.crt"), "/nowhere/ca.crt"),
        (url("localhost", "&sslmode=disable"), "pg_hba.conf"),
    ] {
        let error = error_of(&url);
        assert_eq!(error.retry, Retry::Useless, "{url}: {error}");
        assert!(error.message.contains(reason), "{url}: {error}");
    }
}

fn error_of(url: &str) -> StoreError {
    let store = PostgresStore::connect(url).unwrap();
    take(&store, &[&policy("9 requests / day")], &subject("s")).unwrap_err()
}
