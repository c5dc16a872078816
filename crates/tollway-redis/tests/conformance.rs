//! The store in Redis under the suite that every store must pass.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use tollway_redis::RedisStore;
use tollway_testkit::ManualRig;
use tollway_testkit::conformance::{Effort, run_with};
use tollway_testkit::servers::RedisServer;

#[test]
fn one_server_conforms() {
    let server = RedisServer::start();
    let url = format!("{}?deadline=20s", server.url());
    let rig = ManualRig::new(|clock| RedisStore::with_test_clock(&url, clock).unwrap());
    let report = run_with(&rig, Effort { sequences: 2_000, rounds: 8, ..Effort::default() });
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 50);
}
