//! The errors that callers get when Postgres is unreachable, refuses them, or goes away.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::thread;
use std::time::Duration;

use crate::support::{fresh_schema, policy, server, subject, take, try_take, url, used};
use tollway_core::{Fault, Policy, Retry, StoreError};
use tollway_postgres::PostgresStore;
use tollway_testkit::servers::PostgresServer;

fn error_of(url: &str) -> StoreError {
    let store = PostgresStore::connect(url).unwrap();
    take(&store, &[&policy("1 request / day")], &subject("s")).unwrap_err()
}

/// Retries until the take is decided.
fn take_at_last(store: &PostgresStore, policy: &Policy) {
    for _ in 0..300 {
        if take(store, &[policy], &subject("s")).is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("the store did not find its way back");
}

#[test]
fn connection_refused_is_retryable() {
    let error = error_of("postgres://me:hunter2@127.0.0.1:1/db?deadline=300ms");
    assert_eq!((error.fault, error.retry), (Fault::Network, Retry::Safe), "{error}");
    assert!(!error.to_string().contains("hunter2"));
}

#[test]
fn lasting_errors_are_reported_at_once() {
    let known = url("tollway");
    for (url, advice) in [
        (known.replace("/postgres?", "/nowhere?"), "make the database"),
        (known.replace("postgres@", "nobody:hunter2@"), "check user and password"),
    ] {
        let error = error_of(&url);
        assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless), "{error}");
        assert!(error.message.contains(advice) && !error.message.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_wrong_password_is_reported_at_once() {
    let strict = PostgresServer::start_with(&["password_encryption=scram-sha-256"]);
    strict.query("CREATE ROLE app LOGIN PASSWORD 'right'");
    let rules = strict.query("SHOW hba_file");
    std::fs::write(&rules, "host all postgres all trust\nhost all app all scram-sha-256\n").unwrap();
    strict.query("SELECT pg_reload_conf()");
    strict.query("GRANT CREATE ON DATABASE postgres TO app");
    let at = strict.addr();
    let right = PostgresStore::connect(&format!("postgres://app:right@{at}/postgres?deadline=20s")).unwrap();
    assert!(try_take(&right, &policy("1 request / day"), &subject("s")));
    let error = error_of(&format!("postgres://app:hunter2@{at}/postgres?deadline=20s"));
    assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless), "{error}");
    assert!(
        error.message.contains("check user and password") && !error.message.contains("hunter2"),
        "{error}"
    );
    let error = error_of(&format!("postgres://app@{at}/postgres?deadline=20s"));
    assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless), "{error}");
}

/// What was granted is there after a crash, and the store finds its way back by itself.
#[test]
fn a_server_crash_loses_no_grant() {
    let mortal = PostgresServer::start();
    let store = PostgresStore::connect(&format!("{}?deadline=20s", mortal.url())).unwrap();
    let policy = policy("10 requests / day");
    for taken in 1..=3 {
        assert!(try_take(&store, &policy, &subject("s")));
        mortal.restart();
        assert_eq!(used(&store, &policy, &subject("s")), taken);
    }
}

/// A frozen server takes connections and answers nothing. Callers hear all the same, and nothing is stuck afterwards.
#[test]
fn a_frozen_server_is_unreachable_until_it_resumes() {
    let server = PostgresServer::start();
    let policy = policy("1000 requests / day");
    let open = || PostgresStore::connect(&format!("{}?deadline=500ms", server.url())).unwrap();
    let (known, new) = (open(), open());
    take_at_last(&known, &policy);
    server.pause();
    for store in [&known, &new] {
        let error = take(store, &[&policy], &subject("s")).unwrap_err();
        assert_eq!(error.fault, Fault::Network, "{error}");
    }
    server.resume();
    take_at_last(&known, &policy);
    take_at_last(&new, &policy);
}

#[test]
fn a_terminated_session_is_replaced() {
    let schema = fresh_schema();
    let store = PostgresStore::connect(&format!("{}&application_name={schema}", url(&schema))).unwrap();
    let policy = policy("100 requests / day");
    for taken in 1..=5 {
        assert!(try_take(&store, &policy, &subject("s")));
        assert_eq!(used(&store, &policy, &subject("s")), taken);
        let of_ours = format!("FROM pg_stat_activity WHERE application_name = '{schema}'");
        server().query(&format!("SELECT pg_terminate_backend(pid) {of_ours}"));
    }
}

/// Safe by default, even where the server's own default is not; and the choice is the user's.
#[test]
fn grants_wait_for_the_disk_by_default() {
    let careless = PostgresServer::start_with(&["synchronous_commit=off", "log_statement=all"]);
    let careful = PostgresStore::connect(&format!("{}?deadline=20s", careless.url())).unwrap();
    assert!(try_take(&careful, &policy("9 requests / day"), &subject("s")));
    assert!(careless.log().contains("set_config('synchronous_commit', 'on'"), "{}", careless.log());
    assert!(!careless.log().contains("SET synchronous_commit = off"));
    let fast = format!("{}?deadline=20s&crash=may-forget", careless.url());
    assert!(try_take(&PostgresStore::connect(&fast).unwrap(), &policy("9 requests / day"), &subject("s")));
    assert!(careless.log().contains("SET synchronous_commit = off"));
}
