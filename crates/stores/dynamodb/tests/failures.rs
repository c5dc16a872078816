//! The errors that callers get when DynamoDB is unreachable, refuses them, or is misconfigured.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

#[path = "it/support.rs"]
mod support;

use std::process::Command;

use support::{count, fresh_table, policy, server, subject, take, try_take, url, url_through, used};
use tollway_core::{Fault, Retry, StoreError};
use tollway_dynamodb::DynamoStore;
use tollway_testkit::faults::{AwsFront, Treatment};

fn error_of(url: &str) -> StoreError {
    let store = DynamoStore::connect(url).unwrap();
    take(&store, &[&policy("1 request / day")], &subject("s")).unwrap_err()
}

#[test]
fn connection_refused_is_retryable() {
    let error = error_of("dynamodb://k:hunter2@tollway?endpoint=http://127.0.0.1:1&deadline=300ms");
    assert_eq!((error.fault, error.retry), (Fault::Network, Retry::Safe), "{error}");
    assert!(!error.to_string().contains("hunter2"));
}

#[test]
fn a_missing_table_error_says_how_to_create_it() {
    let error = error_of(&url(&fresh_table()).replace("create=yes", "create=no"));
    assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless), "{error}");
    assert!(error.message.contains("`tollway provision aws --apply`"), "{error}");
    let place = format!(" at http://{}: ", server().addr());
    assert!(error.message.starts_with("DynamoDB, table ") && error.message.contains(&place), "{error}");
}

#[test]
fn a_permission_error_names_the_needed_actions() {
    let front = AwsFront::to(server().addr());
    let store = DynamoStore::connect(&url_through(front.addr(), &fresh_table())).unwrap();
    let policy = policy("9 requests / day");
    assert!(try_take(&store, &policy, &subject("s")));
    front.always("PutItem", Treatment::Denied);
    let error = take(&store, &[&policy], &subject("s")).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Useless), "{error}");
    assert!(error.message.contains("`tollway provision aws --iam worker`"), "{error}");
}

/// Not a test: takes in a process whose environment has no AWS settings.
#[test]
fn in_a_bare_environment() {
    if let Ok(url) = std::env::var("TOLLWAY_TEST_URL") {
        let error = error_of(&url);
        println!("{:?} {:?} {error}", error.fault, error.retry);
    }
}

/// The error that a caller gets in such a process.
fn told_in_a_bare_environment(url: &str) -> String {
    let mut asks = Command::new(std::env::current_exe().unwrap());
    asks.args(["in_a_bare_environment", "--exact", "--nocapture"]).env_clear();
    asks.env("AWS_EC2_METADATA_DISABLED", "true").env("HOME", "/nonexistent").env("TOLLWAY_TEST_URL", url);
    String::from_utf8(asks.output().unwrap().stdout).unwrap()
}

#[test]
fn missing_credentials_error_says_where_to_set_them() {
    let told = told_in_a_bare_environment(&url(&fresh_table()).replace("test:test@", ""));
    assert!(told.contains("Store Useless") && told.contains("AWS_ACCESS_KEY_ID"), "{told}");
}

#[test]
fn missing_region_error_says_where_to_set_it() {
    let told = told_in_a_bare_environment("dynamodb://test:test@tollway?deadline=20s");
    assert!(told.contains("Store Useless") && told.contains("AWS_REGION"), "{told}");
}

/// G8: five retries, and then an error.
#[test]
fn g8_a_throttled_call_is_retried_five_times_and_then_fails() {
    let front = AwsFront::to(server().addr());
    let store = DynamoStore::connect(&url_through(front.addr(), &fresh_table())).unwrap();
    let policy = policy("9 requests / day");
    assert!(try_take(&store, &policy, &subject("s")));
    let before = front.count("PutItem");
    front.always("PutItem", Treatment::Throttled);
    let error = take(&store, &[&policy], &subject("s")).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Throttled, Retry::Safe), "{error}");
    assert_eq!(front.count("PutItem") - before, 6);
    assert_eq!(count(&store.counters().throttles), 6);
    front.clear();
    front.next(5, "PutItem", Treatment::Throttled);
    assert!(try_take(&store, &policy, &subject("s")), "the fifth retry succeeds");
    assert_eq!(used(&store, &policy, &subject("s")), 2);
}

#[test]
fn throttled_reads_and_transactions_are_retried_too() {
    let front = AwsFront::to(server().addr());
    let store = DynamoStore::connect(&url_through(front.addr(), &fresh_table())).unwrap();
    let (one, two) = (policy("9 requests / day"), tollway_core::Policy::new("q", ["9 / day"]).unwrap());
    front.next(3, "GetItem", Treatment::Throttled);
    front.next(2, "Transact", Treatment::Throttled);
    assert!(take(&store, &[&one, &two], &subject("s")).unwrap().is_some());
    assert_eq!(count(&store.counters().throttles), 5);
    assert_eq!((used(&store, &one, &subject("s")), used(&store, &two, &subject("s"))), (1, 1));
}

#[test]
fn a_transaction_conflict_is_retried() {
    let front = AwsFront::to(server().addr());
    let store = DynamoStore::connect(&url_through(front.addr(), &fresh_table())).unwrap();
    let (one, two) = (policy("9 requests / day"), tollway_core::Policy::new("q", ["9 / day"]).unwrap());
    front.next(4, "PutItem", Treatment::Conflict);
    assert!(try_take(&store, &one, &subject("s")));
    front.next(4, "Transact", Treatment::Conflict);
    assert!(take(&store, &[&one, &two], &subject("s")).unwrap().is_some());
    assert_eq!(count(&store.counters().conflicts), 8);
    assert_eq!((used(&store, &one, &subject("s")), used(&store, &two, &subject("s"))), (2, 1));
}
