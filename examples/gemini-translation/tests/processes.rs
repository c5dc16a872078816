//! Runs the example in a short form, with a file and with Redis as the store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod short_form;

use short_form::{check, report};
use tollway_testkit::servers::RedisServer;

/// B3, D5: eight processes share requests, tokens and a day; none is refused, though one of them is killed.
#[test]
fn processes_share_one_account_over_a_file() {
    check(&report(&[]));
}

/// The same over Redis.
#[test]
fn processes_share_one_account_over_redis() {
    let redis = RedisServer::start();
    check(&report(&[&redis.url()]));
}
