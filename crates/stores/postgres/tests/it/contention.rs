//! Accounts that others keep locked, and clients that hold locks for a long round trip.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::thread;
use std::time::Duration;

use tokio_postgres::NoTls;
use tollway_core::{Fault, Fingerprint, Policy, Subject};
use tollway_postgres::PostgresStore;
use tollway_testkit::faults::{Fault as NetworkFault, FaultProxy};

use crate::support::{
    fresh_schema, policy, server, store, subject, take, take_operation, try_take, url, used,
};

/// The lock of this account, as the store takes it.
fn lock(schema: &str, policy: &Policy, subject: &Subject) -> i64 {
    let key = take_operation(policy, subject).keys().next().unwrap().to_string();
    Fingerprint::new().text("tollway line").text(schema).text(&key).finish().cast_signed()
}

/// A client that is not ours may hold a lock for as long as it likes. The first take is in flight, the others wait behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_account_is_contention_for_every_caller() {
    let schema = fresh_schema();
    let policy = policy("100 requests / day");
    let far_from_its_deadline = url(&schema).replace("deadline=20s", "deadline=5s");
    let store = PostgresStore::connect(&far_from_its_deadline).unwrap();
    assert!(try_take(&store, &policy, &subject("s")));
    let (client, connection) = tokio_postgres::connect(&server().url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let locked = format!("BEGIN; SELECT pg_advisory_xact_lock({})", lock(&schema, &policy, &subject("s")));
    client.batch_execute(&locked).await.unwrap();
    thread::scope(|scope| {
        let takes = [(); 8].map(|()| scope.spawn(|| take(&store, &[&policy], &subject("s"))));
        for taken in takes {
            let error = taken.join().unwrap().unwrap_err();
            assert_eq!(error.fault, Fault::Account, "{error}");
            assert!(error.message.contains("55P03"), "{error}");
        }
    });
    assert!(try_take(&store, &policy, &subject("other")), "other accounts are not affected");
    client.batch_execute("COMMIT").await.unwrap();
    assert!(try_take(&store, &policy, &subject("s")));
}

/// A distant client is idle in its transactions for longer than a stopped one may hold locks.
#[test]
fn a_distant_client_keeps_its_locks_for_a_round_trip() {
    let schema = fresh_schema();
    let policy = policy("100 requests / day");
    let proxy = FaultProxy::to(server().addr());
    proxy.set(NetworkFault::Latency { fixed: Duration::from_millis(100), jitter: Duration::ZERO });
    let far = format!("postgres://postgres@{}/postgres?schema={schema}&deadline=20s", proxy.addr());
    let far = PostgresStore::connect(&far).unwrap();
    for _ in 0..3 {
        assert!(try_take(&far, &policy, &subject("s")));
    }
    assert_eq!(used(&store(&schema), &policy, &subject("s")), 3);
}
