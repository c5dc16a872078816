//! What tests of the store share: a server, tables of their own, and what an item says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tollway_core::Clock;
use tollway_dynamodb::DynamoStore;
use tollway_testkit::servers::DynamoServer;
pub(crate) use tollway_testkit::takes::{
    fresh_name as fresh_table, fresh_permit, policy, subject, take, take_operation, try_take, used,
};

pub(crate) fn server() -> &'static DynamoServer {
    DynamoServer::shared()
}

/// Busy machines are slow; no test is about how fast an answer comes.
pub(crate) fn url(table: &str) -> String {
    url_through(server().addr(), table)
}

pub(crate) fn url_through(proxy: SocketAddr, table: &str) -> String {
    format!("{}&deadline=20s", DynamoServer::url_through(proxy, table))
}

/// The URL of a new table for a clock in the test's hand. Its items stay: what is still to come by that clock may be long
/// past by the server's, and a server that keeps to `ttl` would delete it.
pub(crate) fn url_without_ttl(table: &str) -> String {
    let request = json!({
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{ "AttributeName": "key", "KeyType": "HASH" }],
        "AttributeDefinitions": [{ "AttributeName": "key", "AttributeType": "S" }],
    });
    server().ask("CreateTable", &request);
    url(table).replace("create=yes", "create=no")
}

pub(crate) fn store(table: &str) -> DynamoStore {
    DynamoStore::connect(&url(table)).unwrap()
}

/// A store over a new table whose time is this clock's.
pub(crate) fn store_with_clock(table: &str, clock: Arc<dyn Clock>) -> DynamoStore {
    DynamoStore::with_clock(&url_without_ttl(table), clock).unwrap()
}

pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

/// A number of an item.
pub(crate) fn number(item: &serde_json::Value, name: &str) -> u64 {
    item[name]["N"].as_str().unwrap().parse().unwrap()
}
