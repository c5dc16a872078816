//! Cases where a caller leaves early, repeats a call, or the limits change meanwhile. Each test
//! is a fault that once was there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use crate::paused::{PausedClock, limiter_of, settle_down, used};
use tokio::time::timeout;
use tollway::core::{Answer, Operation, Refusal};
use tollway::{Durations, Limiter, Policy, Span, Store, TakeError};
use tollway_memory::MemoryStore;

/// A store that has decided at once and answers 20 ms later, as one on the network does.
struct Later(MemoryStore);

impl Store for Later {
    fn apply(&self, batch: &[Operation]) -> Answer {
        let answer = self.0.apply(batch);
        Answer::Later(Box::pin(async move {
            tokio::time::sleep(20.millis()).await;
            answer.await
        }))
    }
}

fn far(policies: impl IntoIterator<Item = Policy>) -> Limiter {
    let clock = PausedClock::start();
    let store = Later(MemoryStore::new(clock.clone()));
    let builder = Limiter::builder().store(Arc::new(store)).clock(clock);
    policies.into_iter().fold(builder, |builder, policy| builder.with_policy(policy).unwrap()).build()
}

fn near(name: &str, limits: &[&str]) -> Limiter {
    limiter_of([Policy::new(name, limits.iter().copied()).unwrap()]).0
}

#[tokio::test(start_paused = true)]
async fn a_try_dropped_before_the_answer_is_returned() {
    let limiter = far([Policy::new("slots", ["1 concurrent"]).unwrap()]);
    assert!(timeout(2.millis(), limiter.try_take("slots")).await.is_err());
    tokio::time::sleep(1.seconds()).await;
    assert!(limiter.try_take("slots").await.unwrap().is_granted());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_take_returns_nothing_to_a_denying_shadow() {
    let shadow = Policy::new("shadow", ["5 / hour"]).unwrap().with_shadow(true);
    let limiter = far([Policy::new("api", ["100 / hour"]).unwrap(), shadow]);
    for _ in 0..7 {
        drop(limiter.take("api").and("shadow").await.unwrap());
    }
    for _ in 0..3 {
        assert!(timeout(2.millis(), limiter.take("api").and("shadow")).await.is_err());
    }
    tokio::time::sleep(1.seconds()).await;
    assert_eq!((used(&limiter, "api").await, used(&limiter, "shadow").await), (7, 5));
}

#[tokio::test(start_paused = true)]
async fn a_refused_settle_still_frees_the_slot() {
    let limiter = near("api", &["1 concurrent", "10 / minute bucket"]);
    let error = limiter.take("api").await.unwrap().settle("requests", 1_000).await.unwrap_err();
    assert!(matches!(error, TakeError::Refused(Refusal::OverrunTooLarge { .. })), "{error}");
    assert!(limiter.try_take("api").await.unwrap().is_granted());
}

/// I4, I5: what was a wait when it was granted is none once its time has come.
#[tokio::test(start_paused = true)]
async fn a_repeated_take_does_not_wait_again_and_is_not_good_for_longer() {
    let limiter = far([
        Policy::new("paced", ["1 / 2 seconds paced"]).unwrap(),
        Policy::new("w", ["5 / minute"]).unwrap(),
    ]);
    drop(limiter.take("paced").await.unwrap());
    drop(limiter.take("paced").id("x").await.unwrap());
    tokio::time::sleep(3.seconds()).await;
    assert!(timeout(100.millis(), limiter.take("paced").id("x")).await.is_ok(), "its time has come long ago");
    let first = limiter.take("w").id("y").await.unwrap();
    tokio::time::sleep(50.seconds()).await;
    let mut again = limiter.take("w").id("y").await.unwrap();
    assert_eq!(first.id(), again.id());
    tokio::time::sleep(20.seconds()).await;
    again.begin().await.unwrap();
    assert_eq!(used(&limiter, "w").await, 1, "a new minute: it took again, once");
}

/// I1: the same permit cannot be answered again once its slot is free.
#[tokio::test(start_paused = true)]
async fn an_id_whose_call_is_over_holds_no_slot_and_is_refused() {
    let limiter = near("slots", &["1 concurrent"]);
    limiter.take("slots").id("job").await.unwrap().done().await.unwrap();
    let error = limiter.try_take("slots").id("job").await.unwrap_err();
    assert!(matches!(error, TakeError::Refused(Refusal::CallOver(_))), "{error}");
    assert!(limiter.try_take("slots").id("job-2").await.unwrap().is_granted());
}

#[tokio::test(start_paused = true)]
async fn queued_takes_follow_a_raised_limit_and_a_reset() {
    let limiter = near("slots", &["1 concurrent"]);
    let held = limiter.take("slots").await.unwrap();
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.take("slots").await }
    });
    settle_down().await;
    limiter.replace_policies([Policy::new("slots", ["2 concurrent"]).unwrap()]).unwrap();
    assert!(timeout(1.seconds(), waiting).await.unwrap().unwrap().is_ok());
    drop(held);

    let sliding = near("sliding", &["1 / hour sliding"]);
    drop(sliding.take("sliding").await.unwrap());
    let waiting = tokio::spawn({
        let limiter = sliding.clone();
        async move { limiter.take("sliding").await }
    });
    settle_down().await;
    sliding.reset("sliding").await.unwrap();
    assert!(timeout(1.seconds(), waiting).await.unwrap().unwrap().is_ok());
}

/// B9: a shadow neither denies nor shortens a wait.
#[tokio::test(start_paused = true)]
async fn b9_a_shadow_does_not_shorten_a_wait() {
    let shadow = Policy::new("shadow", ["1000 / second bucket"]).unwrap().with_shadow(true);
    let limiter = far([
        Policy::new("api", ["1 / second bucket"]).unwrap(),
        shadow.with_max_wait(Span::from_millis(1)).unwrap(),
    ]);
    drop(limiter.take("api").and("shadow").await.unwrap());
    assert!(limiter.take("api").and("shadow").await.is_ok());
}

/// I4: a queued take that runs out of time gets its wait counted from now, not from the earlier take's request.
#[tokio::test(start_paused = true)]
async fn a_denial_in_the_queue_counts_its_wait_from_now() {
    let limiter = near("api", &["1 / 10 seconds sliding"]);
    drop(limiter.take("api").await.unwrap());
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.take("api").await.map(drop) }
    });
    settle_down().await;
    let error = limiter.take("api").max_wait(1_500.millis()).await.unwrap_err();
    let told = error.denied().unwrap().retry_after();
    let honest = limiter.try_take("api").await.unwrap().denied().unwrap().retry_after();
    assert!(told.abs_diff(honest) < Duration::from_millis(2), "{told:?} and {honest:?}");
    first.abort();
}
