//! A server that speaks TLS, and whose certificate is looked at.
#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{policy, subject, take, try_take};
use tollway_core::{Retry, StoreError};
use tollway_postgres::PostgresStore;
use tollway_testkit::servers::PostgresServer;

#[test]
fn tls_verifies_the_servers_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (certificates(folder.path(), "ours"), certificates(folder.path(), "theirs"));
    let server = PostgresServer::start();
    teach_tls(&server, &ours);
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

/// From here on, `app` must come over TLS. The key has to be the server's own, or it refuses it.
fn teach_tls(server: &PostgresServer, certificates: &Path) {
    let data = PathBuf::from(server.query("SHOW data_directory"));
    let owner = fs::metadata(&data).unwrap();
    for name in ["one.crt", "one.key"] {
        fs::copy(certificates.join(name), data.join(name)).unwrap();
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        chown(data.join(name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    fs::write(data.join("pg_hba.conf"), "host all postgres all trust\nhostssl all app all trust\n").unwrap();
    for statement in [
        "CREATE ROLE app LOGIN",
        "GRANT CREATE ON DATABASE postgres TO app",
        "ALTER SYSTEM SET ssl_cert_file = 'one.crt'",
        "ALTER SYSTEM SET ssl_key_file = 'one.key'",
        "ALTER SYSTEM SET ssl = on",
    ] {
        server.query(statement);
    }
    server.restart();
}

/// An authority, and one certificate of it for localhost; answers the folder they are in.
fn certificates(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for arguments in [
        format!("req -x509 {key} -keyout ca.key -out ca.crt -days 2 -subj /CN={name}"),
        format!("req {key} -keyout one.key -out one.csr -subj /CN=localhost"),
        "x509 -req -in one.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out one.crt"
            .to_owned(),
    ] {
        let made = Command::new("openssl").args(arguments.split(' ')).current_dir(&folder).output();
        let made = made
            .unwrap_or_else(|error| panic!("openssl is needed (Debian: apt-get install openssl): {error}"));
        assert!(made.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&made.stderr));
    }
    folder
}
