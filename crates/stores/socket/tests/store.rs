//! A store of another process, over a socket.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway_core::{
    Action, Charge, Fault, Name, Operation, Outcome, Policy, SettingChange, Settings, Store, Subject,
};
use tollway_memory::{MemoryStore, SystemClock};
use tollway_socket::{SocketStore, serve_store};

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))
}

fn take(policy: &Arc<Policy>) -> Operation {
    let charge = Charge::new(Arc::clone(policy), Subject::new("").unwrap());
    Operation::one(charge, Action::Take(tollway_core::Terms::now(tollway_core::PermitId(7))))
}

#[tokio::test(flavor = "multi_thread")]
async fn meters_are_those_of_the_other_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server");
    let store = memory();
    let _server = serve_store(&path, store.clone()).unwrap();
    let remote = SocketStore::connect(&path).unwrap().unwrap();
    let policy = Arc::new(Policy::new("adobe", ["2 requests / day"]).unwrap());
    let granted = |outcome: &Outcome| matches!(outcome, Outcome::Decided(decision) if decision.is_granted());
    assert!(granted(&store.apply(&[take(&policy)]).await.unwrap()[0]));
    let both = remote.apply(&[take(&policy), take(&policy)]).await.unwrap();
    assert_eq!([granted(&both[0]), granted(&both[1])], [true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_those_of_the_other_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server");
    let store = memory();
    let _server = serve_store(&path, store.clone()).unwrap();
    let remote = SocketStore::connect(&path).unwrap().unwrap();
    let name = |text| Name::new(text).unwrap();
    let change = SettingChange { policy: name("adobe"), limit: name("rpm"), amounts: Some((5, None)) };
    Settings::change(&remote, change).await.unwrap();
    let kept = Store::settings(&*store).unwrap().settings().await.unwrap();
    assert_eq!((kept.len(), kept[0].amount), (1, 5));
    assert_eq!(Settings::settings(&remote).await.unwrap(), kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_ends_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server");
    assert!(SocketStore::connect(&path).unwrap().is_none());
    let server = serve_store(&path, memory()).unwrap();
    let remote = SocketStore::connect(&path).unwrap().unwrap();
    drop(server);
    let policy = Arc::new(Policy::new("adobe", ["100k requests / day"]).unwrap());
    // The task that answers ends with its server, a moment later.
    let error = loop {
        match remote.apply(&[take(&policy)]).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.fault, Fault::Network, "{error}");
    assert!(SocketStore::connect(&path).unwrap().is_none());
}
