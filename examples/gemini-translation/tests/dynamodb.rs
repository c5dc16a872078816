//! Runs the example in a short form, with DynamoDB as the store, which an emulator stands in for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod short_form;

use short_form::{check, report};
use tollway_testkit::servers::DynamoServer;

const TABLE: &str = "tollway";

/// B3, D5: one argument moves the usage to DynamoDB; eight processes share requests, tokens and a day, and none is refused,
/// though one of them is killed.
#[test]
fn processes_share_one_account_over_dynamodb() {
    let server = DynamoServer::start();
    // A busy machine may take longer than the default to create the table.
    let url = format!("{}&deadline=30s", server.url(TABLE));
    check(&report(&[&url]));
    let items = server.items(TABLE);
    let keys: Vec<&str> = items.iter().filter_map(|item| item["key"]["S"].as_str()).collect();
    assert!(keys.iter().any(|key| key.contains(":gemini:")), "the usage is in the table: {keys:?}");
}
