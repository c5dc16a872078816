//! Takes under several policies on a Redis Cluster (B1).

use std::sync::Arc;
use std::time::Duration;

use tollway::core::{ClusterSlot, Fault};
use tollway::{Durations, Limiter, Policy, TakeError};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisCluster;

/// A limiter with two policies of these slots, over a Cluster of three masters.
fn limiter(names: [&str; 2], limits: [&str; 2], slot: &str, options: &str) -> Limiter {
    let url = format!(
        "{}?deadline=10s{options}",
        RedisCluster::shared().urls()[0].replace("redis:", "redis+cluster:")
    );
    let slot = if slot.is_empty() { ClusterSlot::Subject } else { slot.parse().unwrap() };
    let builder = names.iter().zip(limits).fold(Limiter::builder(), |builder, (name, limit)| {
        builder.with_policy(Policy::new(name, [limit]).unwrap().with_cluster_slot(slot.clone())).unwrap()
    });
    builder.store(Arc::new(RedisStore::open(&url).unwrap())).build()
}

async fn used(limiter: &Limiter, policy: &str, subject: &str) -> u64 {
    limiter.usage(policy).subject(subject).await.unwrap().limits[0].used
}

/// Under one slot, `and` is one step. Without it the take fails at once, names both policies and what to write, and is not
/// granted without the store.
#[tokio::test]
async fn and_needs_one_slot() {
    let names = ["one-user", "one-total"];
    let one = limiter(names, ["5 / day", "2 / day"], "shop", "");
    for (subject, granted) in [("ann", true), ("bob", true), ("eve", false)] {
        let taken = one.try_take(names[0]).subject(subject).and(names[1]).await.unwrap();
        assert_eq!(taken.is_granted(), granted, "{subject}");
    }
    assert_eq!((used(&one, names[0], "eve").await, used(&one, names[1], "").await), (0, 2));

    let apart = limiter(["apart-user", "apart-total"], ["5 / day", "2 / day"], "", "");
    let refused = apart.try_take("apart-user").subject("ann").and("apart-total").await;
    let Err(TakeError::Store(error)) = refused else { panic!("it is refused") };
    assert_eq!(error.fault, Fault::Caller);
    assert!(error.message.contains("both [policies.apart-user] and [policies.apart-total]"), "{error}");
    assert_eq!(apart.store_status().degraded_since, None);
}

/// With `across_slots=undo` takes wait for their turn in this process, and permits are given back in every part.
#[tokio::test]
async fn takes_over_several_slots_wait_and_give_back() {
    let names = ["undo-user", "undo-total"];
    let undoing = limiter(names, ["3 / second", "50 / day"], "", "&across_slots=undo");
    let take = || undoing.take(names[0]).subject("ann").and(names[1]).max_wait(30.seconds());
    for _ in 0..7 {
        drop(take().await.unwrap());
    }
    let permit = undoing.take(names[0]).subject("bob").and(names[1]).await.unwrap();
    assert_eq!(used(&undoing, names[1], "").await, 8);
    permit.give_back().await.unwrap();
    assert_eq!(used(&undoing, names[1], "").await, 7);
    // A caller that goes while its take is under way keeps nothing.
    for _ in 0..10 {
        let take = undoing.try_take(names[0]).subject("eve").and(names[1]);
        let _ = tokio::time::timeout(Duration::from_micros(200), std::future::IntoFuture::into_future(take))
            .await;
    }
    for _ in 0..200 {
        if used(&undoing, names[1], "").await == 7 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        used(&undoing, names[1], "").await,
        7,
        "what was granted to callers that had gone is given back"
    );
}
