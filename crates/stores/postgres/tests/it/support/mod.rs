//! What tests of the store share: a server, schemas of their own, and how many rows they have.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

pub(crate) mod lossy;

use std::sync::Arc;

use tollway_core::{Clock, Operation, Policy, Subject};
use tollway_postgres::PostgresStore;
use tollway_testkit::servers::PostgresServer;
use tollway_testkit::takes;
pub(crate) use tollway_testkit::takes::{
    fresh_name as fresh_schema, fresh_permit, policy, readings, subject, take, try_take, used,
};

pub(crate) fn server() -> &'static PostgresServer {
    PostgresServer::shared()
}

/// Busy machines are slow; no test is about how fast an answer comes.
pub(crate) fn url(schema: &str) -> String {
    format!("{}?schema={schema}&deadline=20s", server().url())
}

pub(crate) fn store(schema: &str) -> PostgresStore {
    PostgresStore::connect(&url(schema)).unwrap()
}

pub(crate) fn store_with_clock(schema: &str, clock: Arc<dyn Clock>) -> PostgresStore {
    PostgresStore::with_clock(&url(schema), clock).unwrap()
}

/// A take of one request that does not wait.
pub(crate) fn take_operation(policy: &Policy, subject: &Subject) -> Operation {
    takes::take_operation(&[policy], subject)
}

/// How many rows a table has.
pub(crate) fn rows(schema: &str, table: &str) -> usize {
    server().query(&format!("SELECT count(*) FROM {schema}.{table}")).parse().unwrap()
}
