//! Records in a Postgres that requires TLS; the client verifies its certificate.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{draft, soon};
use tollway_consumers::{PostgresRecords, Records};
use tollway_core::Retry;
use tollway_testkit::servers::PostgresServer;

#[test]
fn a_certificate_must_be_trusted_and_name_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let (known, stranger) = (folder.path().join("known"), folder.path().join("stranger"));
    make_certificate(&known);
    make_certificate(&stranger);
    let server = PostgresServer::start();
    want_tls(&server, &known);
    let create = |host: &str, parameters: &str| {
        let url = format!("postgres://bank@{host}:{}/postgres?{parameters}", server.port());
        soon(PostgresRecords::connect(&url).unwrap().create(draft("c", 1)))
    };
    let trusting = |folder: &Path| format!("sslmode=require&sslrootcert={}/cert.pem", folder.display());
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

/// A self-signed certificate for localhost.
fn make_certificate(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem \
                     -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE";
    let made = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
    let made = made.unwrap_or_else(|error| panic!("install openssl (apt-get install openssl): {error}"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The user `bank` must use TLS from here on. The server refuses a key file that it does not own.
fn want_tls(server: &PostgresServer, certificate: &Path) {
    let data = PathBuf::from(server.query("SHOW data_directory"));
    let owner = fs::metadata(&data).unwrap();
    for name in ["cert.pem", "key.pem"] {
        fs::copy(certificate.join(name), data.join(name)).unwrap();
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        chown(data.join(name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    server.query("CREATE ROLE bank LOGIN");
    server.query("GRANT CREATE ON DATABASE postgres TO bank");
    for setting in ["ssl_cert_file = 'cert.pem'", "ssl_key_file = 'key.pem'", "ssl = on"] {
        server.query(&format!("ALTER SYSTEM SET {setting}"));
    }
    fs::write(data.join("pg_hba.conf"), "host all postgres all trust\nhostssl all bank all trust\n").unwrap();
    server.restart();
}
