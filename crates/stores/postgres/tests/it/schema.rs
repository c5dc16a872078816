//! Tables that make themselves, once, and that no older program touches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Barrier;
use std::thread;

use crate::support::{fresh_schema, policy, rows, server, store, subject, take, try_take, url, used};
use tollway_core::{Fault, Retry};
use tollway_postgres::PostgresStore;

#[test]
fn concurrent_processes_create_the_tables_once() {
    for _ in 0..5 {
        let schema = fresh_schema();
        let policy = policy("100 requests / day");
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let store = store(&schema);
                    barrier.wait();
                    assert!(try_take(&store, &policy, &subject("s")));
                });
            }
        });
        assert_eq!(used(&store(&schema), &policy, &subject("s")), 8);
        assert_eq!((rows(&schema, "schema_version"), rows(&schema, "horizon")), (1, 1));
    }
}

#[test]
fn tables_of_a_newer_version_are_refused() {
    let schema = fresh_schema();
    let policy = policy("1 request / day");
    assert!(try_take(&store(&schema), &policy, &subject("s")));
    server().query(&format!("UPDATE {schema}.schema_version SET version = 99"));
    let error = take(&store(&schema), &[&policy], &subject("s")).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless));
    assert!(error.message.contains("version 99") && error.message.contains("newer Tollway"), "{error}");
    assert_eq!(server().query(&format!("SELECT version FROM {schema}.schema_version")), "99");
}

/// A user with existing tables needs no right to create more.
#[test]
fn missing_rights_are_reported_and_existing_tables_need_none() {
    let (schema, user) = (fresh_schema(), fresh_schema());
    server().query(&format!("CREATE ROLE {user} LOGIN"));
    let policy = policy("5 requests / day");
    let poor = || PostgresStore::connect(&url(&schema).replace("postgres@", &format!("{user}@"))).unwrap();
    let error = take(&poor(), &[&policy], &subject("s")).unwrap_err();
    assert_eq!(error.retry, Retry::Useless);
    assert!(error.message.contains("GRANT CREATE"), "{error}");
    assert!(try_take(&store(&schema), &policy, &subject("s")));
    server().query(&format!("GRANT USAGE ON SCHEMA {schema} TO {user}"));
    server()
        .query(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}"));
    assert!(try_take(&poor(), &policy, &subject("s")));
}
