//! Records in a Postgres that requires TLS; the client verifies its certificate.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use crate::support::{draft, soon};
use tollway_consumers::{PostgresRecords, Records};
use tollway_core::Retry;
use tollway_testkit::servers::{PostgresServer, certificates};

#[test]
fn a_certificate_must_be_trusted_and_name_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let (known, stranger) = (certificates(folder.path(), "known"), certificates(folder.path(), "stranger"));
    let server = PostgresServer::start();
    server.require_tls("bank", &known);
    let create = |host: &str, parameters: &str| {
        let url = format!("postgres://bank@{host}:{}/postgres?{parameters}", server.port());
        soon(PostgresRecords::connect(&url).unwrap().create(draft("c", 1)))
    };
    let trusting = |folder: &Path| format!("sslmode=require&sslrootcert={}/ca.crt", folder.display());
    create("localhost", &trusting(&known)).unwrap();
    for (host, parameters, reason) in [
        ("localhost", trusting(&stranger), "certificate"),
        ("127.0.0.1", trusting(&known), "certificate"),
        ("localhost", "sslmode=require&sslrootcert=/nowhere.pem".to_owned(), "/nowhere.pem"),
        ("localhost", "sslmode=disable".to_owned(), "pg_hba.conf"),
    ] {
        let error = create(host, &parameters).unwrap_err();
        assert_eq!(error.retry, Retry::Useless, "{parameters}: {error}");
        assert!(error.message.contains(reason), "{parameters}: {error}");
    }
}
