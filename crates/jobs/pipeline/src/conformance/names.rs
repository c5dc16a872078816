//! Two processes that work under one name, on an engine that processes share.

use std::time::Duration;

use crate::Engine;

/// Checks that a second process with a worker's name is found. `open` opens the same jobs as another process does. The third
/// process is a worker that was restarted: it finds what one that died has left.
pub async fn second_process_is_found<E: Engine>(open: impl Fn() -> E) {
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
