//! Two processes that work under one name.

use std::time::Duration;

use tollway_pipeline::{Engine, EngineUrl, PostgresEngine, SqsEngine};
use tollway_testkit::servers::PostgresServer;

use crate::sqs_lab::Lab;

/// The third process of each engine is a worker that was restarted: it finds the item or the lock of one that died.
async fn second_process_is_found<E: Engine>(open: impl Fn() -> E) {
    let (first, second) = (open(), open());
    assert_eq!(first.claim_name("w", "host:1").await.unwrap(), None);
    assert_eq!(second.claim_name("other", "host:2").await.unwrap(), None);
    assert_eq!(second.claim_name("other", "host:2").await.unwrap(), None);
    drop(second);
    let second = open();
    assert_eq!(second.claim_name("w", "host:2").await.unwrap(), None, "it may be a restarted worker");
    let found =
        [first.claim_name("w", "host:1").await.unwrap(), second.claim_name("w", "host:2").await.unwrap()];
    assert!(found.iter().any(Option::is_some), "one of the two knows: {found:?}");
    drop((first, second));
    let restarted = open();
    assert_eq!(restarted.claim_name("w", "host:3").await.unwrap(), None);
    // A server may notice a moment later that the others are gone.
    while restarted.claim_name("w", "host:3").await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(restarted.claim_name("w", "host:3").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_process_with_a_name_is_found_on_queues() {
    let lab = Lab::new();
    second_process_is_found(|| SqsEngine::open(&EngineUrl::parse(&lab.url).unwrap()).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_process_with_a_name_is_found_on_postgres() {
    let server = PostgresServer::start();
    second_process_is_found(|| PostgresEngine::open(&server.url()).unwrap()).await;
}
