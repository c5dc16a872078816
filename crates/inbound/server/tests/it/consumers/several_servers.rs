//! Several servers that share records and a store.

use std::sync::Arc;

use tollway::core::Period;
use tollway_testkit::servers::RedisServer;

use super::bank::{CONSUMERS, Place, Plan, only, told, until};

/// C3: a change on one server applies on all servers that share the records; counters are shared as well.
#[test]
fn record_change_reaches_the_other_servers() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let redis = Arc::new(RedisServer::start());
    let start = || Plan { folder: Arc::clone(&folder), ..Plan::at(Place::Redis(Arc::clone(&redis))) }.start();
    let (mut one, mut other) = (start(), start());
    // Both servers cache that the consumer is unlimited.
    assert_eq!((told(&one.call("c")), told(&other.call("c"))), (None, None));

    let id = one.record("c", only(Period::Hour, 5));
    assert_eq!(
        told(&one.call("c")).unwrap()[0..2],
        [5, 4],
        "the changed server applies it with the next call"
    );
    let mut seen = None;
    until("the other server sees the record", || {
        seen = told(&other.call("c"));
        seen.is_some()
    });
    assert_eq!(seen.unwrap()[0..2], [5, 3], "and counts on");

    other.change("c", &id, only(Period::Hour, 2));
    assert_eq!(other.call("c").status, 429);
    until("the first server sees the change", || one.call("c").status == 429);

    one.manage("PUT", &format!("{CONSUMERS}/c/blocked"), r#"{"blocked": true}"#);
    until("the other server sees that it is blocked", || other.call("c").status == 403);
}
