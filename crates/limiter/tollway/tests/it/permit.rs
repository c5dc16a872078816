//! What becomes of a permit: settled, given back, done. B3: reserve an estimate, settle the actual cost, once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway::core::Refusal;
use tollway::{Limiter, Permit, Settled, Span, TakeError, Timestamp};
use tollway_testkit::ManualClock;

/// Fifteen seconds into an hour.
const START: Timestamp = Timestamp::from_secs(500_000 * 3_600 + 15);

fn limiter<const N: usize>(limits: [&str; N]) -> (Limiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    let builder = Limiter::builder().policy("gemini", limits).unwrap();
    (builder.policy("other", ["100 pages / minute"]).unwrap().clock(clock.clone()).build(), clock)
}

async fn tokens(limiter: &Limiter, amount: u64) -> Permit {
    limiter.take("gemini").cost("tokens", amount).await.unwrap()
}

fn used(limiter: &Limiter) -> Vec<u64> {
    limiter.usage("gemini").now().unwrap().limits.iter().map(|limit| limit.used).collect()
}

/// B3, G1: 3,750 reserved of 5,000, 3,120 used, 1,880 left, in the window they were reserved in.
#[tokio::test]
async fn b3_an_estimate_is_settled_to_the_actual_cost() {
    let (limiter, clock) = limiter(["5000 tokens / minute", "10 / minute"]);
    let permit = tokens(&limiter, 3_750).await;
    clock.advance(Span::from_secs(40));
    assert_eq!(permit.settle("tokens", 3_120).await.unwrap(), Settled::Whole);
    assert_eq!(used(&limiter), [3_120, 1], "what is not named stays as it was taken");
    assert_eq!(limiter.usage("gemini").await.unwrap().limits[0].remaining, 1_880);
}

#[tokio::test]
async fn b3_an_ended_window_is_not_settled_and_the_next_is_untouched() {
    let (limiter, clock) = limiter(["5000 tokens / minute"]);
    let (first, second) = (tokens(&limiter, 1_000).await, tokens(&limiter, 1_000).await);
    clock.advance(Span::from_mins(1));
    drop(tokens(&limiter, 500).await);
    assert_eq!(first.settle("tokens", 10).await.unwrap(), Settled::Partly);
    assert_eq!(second.settle("tokens", 4_999).await.unwrap(), Settled::Partly);
    assert_eq!(used(&limiter), [500]);
    assert_eq!(limiter.permits_lost(), 2);
}

/// An overrun is counted, even above the limit; nothing of it carries over.
#[tokio::test]
async fn an_overrun_of_a_window_fills_it_and_ends_with_it() {
    let (limiter, clock) = limiter(["5000 tokens / minute"]);
    assert_eq!(tokens(&limiter, 100).await.settle("tokens", 7_000).await.unwrap(), Settled::Whole);
    let usage = &limiter.usage("gemini").await.unwrap().limits[0];
    assert_eq!((usage.used, usage.remaining), (7_000, 0));
    assert!(!limiter.try_take("gemini").cost("tokens", 1).await.unwrap().is_granted());
    clock.advance(Span::from_mins(1));
    drop(tokens(&limiter, 5_000).await);
}

#[tokio::test]
async fn a_bucket_is_credited_at_once_and_never_above_its_burst() {
    let (limiter, clock) = limiter(["6000 tokens / minute bucket"]);
    let permit = tokens(&limiter, 6_000).await;
    clock.advance(Span::from_secs(30));
    assert_eq!(used(&limiter), [3_000], "half has come back by itself");
    assert_eq!(permit.settle("tokens", 1_000).await.unwrap(), Settled::Whole);
    assert_eq!(used(&limiter), [0], "full, and not more than full");
    drop(tokens(&limiter, 6_000).await);
    assert!(!limiter.try_take("gemini").cost("tokens", 1).await.unwrap().is_granted());
}

/// What the permit took has refilled long since: crediting it again would give it twice.
#[tokio::test]
async fn a_bucket_gives_nothing_for_a_permit_older_than_a_full_refill() {
    let (limiter, clock) = limiter(["6000 tokens / minute bucket"]);
    let old = tokens(&limiter, 6_000).await;
    clock.advance(Span::from_secs(61));
    drop(tokens(&limiter, 6_000).await);
    assert_eq!(old.settle("tokens", 0).await.unwrap(), Settled::Partly);
    assert_eq!(used(&limiter), [6_000]);
}

#[tokio::test]
async fn an_overrun_of_a_bucket_is_debt_of_at_most_one_burst() {
    let (limiter, clock) = limiter(["6000 tokens / minute bucket"]);
    let error = tokens(&limiter, 100).await.settle("tokens", 6_101).await.unwrap_err();
    assert!(matches!(&error, TakeError::Refused(Refusal::OverrunTooLarge { overrun: 6_001, .. })), "{error}");
    assert_eq!(used(&limiter), [100], "one settle cannot lock a subject");
    assert_eq!(tokens(&limiter, 100).await.settle("tokens", 6_100).await.unwrap(), Settled::Whole);
    assert_eq!(used(&limiter), [6_200]);
    clock.advance(Span::from_secs(2));
    assert!(!limiter.try_take("gemini").cost("tokens", 1).await.unwrap().is_granted());
    clock.advance(Span::from_millis(10));
    assert!(
        limiter.try_take("gemini").cost("tokens", 1).await.unwrap().is_granted(),
        "debt drains as use does"
    );
}

#[tokio::test]
async fn several_units_and_policies_are_settled_together() {
    let (limiter, _clock) = limiter(["5000 tokens / minute", "10 / minute"]);
    let take = || limiter.take("gemini").cost("tokens", 100).and("other").cost("pages", 7);
    let permit = take().await.unwrap();
    let settled = permit.settle_all([("tokens", 90), ("requests", 2), ("pages", 3)]).await.unwrap();
    assert_eq!(settled, Settled::Whole);
    let pages = || limiter.usage("other").now().unwrap().limits[0].used;
    assert_eq!((used(&limiter), pages()), (vec![90, 2], 3));
    for (unit, amount) in [("page", 1), ("tokens", u64::MAX)] {
        let error = take().await.unwrap().settle(unit, amount).await.unwrap_err();
        assert!(matches!(error, TakeError::Cost(_)), "{error}");
    }
    assert_eq!((used(&limiter), pages()), (vec![290, 4], 17), "a wrong settle leaves what was taken");
}

#[tokio::test]
async fn a_returned_permit_restores_the_full_limit() {
    for limits in [
        ["50 tokens / minute", "5 / minute"],
        ["50 tokens / minute bucket", "5 / minute sliding"],
        ["50 tokens / hour from first call", "5 concurrent"],
        ["50 tokens / day", "5 / minute bucket"],
    ] {
        let (limiter, _clock) = limiter(limits);
        let kept = tokens(&limiter, 3).await;
        assert_eq!(tokens(&limiter, 40).await.give_back().await.unwrap(), Settled::Whole, "{limits:?}");
        assert_eq!(used(&limiter), [3, 1], "{limits:?}");
        drop(kept);
    }
    let (limiter, _clock) = limiter(["50 tokens / minute", "5 / minute"]);
    let both = limiter.take("gemini").cost("tokens", 9).and("other").cost("pages", 9).await.unwrap();
    assert_eq!(both.give_back().await.unwrap(), Settled::Whole);
    assert_eq!((used(&limiter), limiter.usage("other").now().unwrap().limits[0].used), (vec![0, 0], 0));
    assert_eq!(limiter.permits_lost(), 0);
}

/// Slots are freed, units stay spent; and dropping is the same.
#[tokio::test]
async fn done_frees_the_slot_and_keeps_the_cost() {
    let (limiter, _clock) = limiter(["50 tokens / minute", "5 concurrent"]);
    let (one, two) = (tokens(&limiter, 4).await, tokens(&limiter, 5).await);
    assert_eq!(used(&limiter), [9, 2]);
    one.done().await.unwrap();
    assert_eq!(used(&limiter), [9, 1]);
    drop(two);
    assert_eq!(used(&limiter), [9, 0]);
    assert_eq!(tokens(&limiter, 6).await.settle("tokens", 1).await.unwrap(), Settled::Whole);
    assert_eq!(used(&limiter), [10, 0], "a settled call is over too");
}

/// B3: a permit in two hands, because its take was repeated under its id, is settled once.
#[tokio::test]
async fn b3_a_repeated_call_is_settled_once() {
    for limit in ["50 tokens / minute", "50 tokens / minute bucket"] {
        let (limiter, _clock) = limiter([limit]);
        let take = || limiter.take("gemini").cost("tokens", 20).id("job-7");
        let (first, second, third) = (take().await.unwrap(), take().await.unwrap(), take().await.unwrap());
        assert_eq!(first.settle("tokens", 15).await.unwrap(), Settled::Whole);
        assert_eq!(second.settle("tokens", 10).await.unwrap(), Settled::Repeated);
        assert_eq!(third.give_back().await.unwrap(), Settled::Repeated);
        assert_eq!(used(&limiter), [15], "{limit}");
    }
}

/// A future that is made and never awaited has not settled anything; the permit is done with it.
#[tokio::test]
async fn a_settle_that_is_not_awaited_settles_nothing() {
    let (limiter, _clock) = limiter(["50 tokens / minute", "5 concurrent"]);
    drop(tokens(&limiter, 20).await.settle("tokens", 1));
    assert_eq!(used(&limiter), [20, 0]);
}
