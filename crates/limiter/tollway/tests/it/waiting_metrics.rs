//! What a limiter tells about callers that wait, and about demand beside the amount of its limits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::advance;
use tollway::config::Api;
use tollway::core::{Name, Policy};
use tollway::metrics::{Figure, NotSent, Waiting, prometheus_text};
use tollway::{Durations, Limiter};

use crate::paused::{PausedClock, settle_down};

/// A limiter that counts, on paused time.
fn counting(policy: &str, limits: &[&str]) -> (Limiter, Arc<PausedClock>) {
    let clock = PausedClock::start();
    let builder = Limiter::builder().policy(policy, limits.iter().copied()).unwrap();
    (builder.metrics().clock(clock.clone()).build(), clock)
}

fn waiter(limiter: &Limiter, subject: &'static str) -> JoinHandle<()> {
    let limiter = limiter.clone();
    tokio::spawn(async move { drop(limiter.take("api").subject(subject).await.unwrap()) })
}

fn callers(callers: u64, wait: Option<Duration>) -> Waiting {
    Waiting { callers, wait }
}

async fn figure(limiter: &Limiter, name: &str, labels: &[&str]) -> Option<u64> {
    let samples = limiter.samples().await;
    let found = samples.iter().find(|sample| sample.metric.name == name && sample.labels == labels)?;
    let (Figure::Number(number) | Figure::Millionths(number)) = found.figure else { panic!("{found:?}") };
    Some(number)
}

/// G10: callers in the store's queue, until they are granted or leave; a new one would wait at least as long as the last.
#[tokio::test(start_paused = true)]
async fn callers_that_wait_for_a_booked_place_are_counted() {
    let (limiter, _) = counting("api", &["1 / minute"]);
    drop(limiter.take("api").await.unwrap());
    assert_eq!(limiter.waiting("api"), Waiting::default());
    assert_eq!(figure(&limiter, "tollway_waiting_callers", &["api"]).await, None, "none has waited");
    let (first, second) = (waiter(&limiter, ""), waiter(&limiter, ""));
    settle_down().await;
    assert_eq!(limiter.waiting("api"), callers(2, Some(2.minutes())));
    assert_eq!(limiter.all_waiting().into_keys().collect::<Vec<_>>(), ["api"]);
    assert_eq!(figure(&limiter, "tollway_waiting_callers", &["api"]).await, Some(2));
    assert_eq!(figure(&limiter, "tollway_waiting_seconds", &["api"]).await, Some(120_000_000));
    second.abort();
    let _ = second.await;
    assert_eq!(limiter.waiting("api"), callers(1, Some(1.minutes())));
    advance(1.minutes()).await;
    first.await.unwrap();
    assert_eq!(limiter.waiting("api"), Waiting::default());
    assert_eq!(figure(&limiter, "tollway_waiting_callers", &["api"]).await, Some(0));
    assert!(limiter.all_waiting().is_empty());
}

/// Where the store cannot book ahead, this process queues; a slot is freed at a time that is not known.
#[tokio::test(start_paused = true)]
async fn callers_that_wait_for_their_turn_are_counted() {
    for (limit, wait) in [("1 / minute sliding", Some(2.minutes())), ("1 concurrent", None)] {
        let (limiter, _) = counting("api", &[limit]);
        let granted = limiter.take("api").await.unwrap();
        let waiters: Vec<_> = (0..3).map(|_| waiter(&limiter, "")).collect();
        settle_down().await;
        assert_eq!(limiter.waiting("api"), callers(3, wait), "{limit}");
        drop(granted);
        advance(1.minutes()).await;
        settle_down().await;
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert_eq!(limiter.waiting("api"), Waiting::default(), "{limit}");
    }
}

/// A take over several policies waits under the one that denies it.
#[tokio::test(start_paused = true)]
async fn a_take_over_several_policies_waits_under_the_one_that_denies() {
    let builder = Limiter::builder().policy("team", ["9 / minute"]).unwrap();
    let builder = builder.policy("api", ["1 / minute"]).unwrap().metrics();
    let limiter = builder.clock(PausedClock::start()).build();
    drop(limiter.take("api").await.unwrap());
    let waits = limiter.clone();
    let waits = tokio::spawn(async move { drop(waits.take("team").and("api").await.unwrap()) });
    settle_down().await;
    let waiting = limiter.all_waiting();
    assert_eq!(waiting.get("api").map(|waiting| waiting.callers), Some(1), "{waiting:?}");
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waits.await.unwrap();
}

/// A client of the server sleeps by itself until its place is due.
#[tokio::test(start_paused = true)]
async fn callers_that_wait_elsewhere_are_counted_until_their_place_is_due() {
    let (limiter, _) = counting("api", &["1 / second paced"]);
    for _ in 0..4 {
        assert!(limiter.take("api").book().await.unwrap().is_granted());
    }
    assert_eq!(limiter.waiting("api"), callers(3, Some(3.seconds())));
    advance(2.seconds()).await;
    assert_eq!(limiter.waiting("api"), callers(1, Some(1.seconds())));
    advance(1.seconds()).await;
    assert_eq!(limiter.waiting("api"), Waiting::default());
}

/// T23: however many subjects wait, the policy has its series and no more.
#[tokio::test(start_paused = true)]
async fn waiting_subjects_make_no_series() {
    let (limiter, _) = counting("api", &["1 / minute"]);
    for subject in ["a", "b", "c"] {
        drop(limiter.take("api").subject(subject).await.unwrap());
        drop(waiter(&limiter, subject));
    }
    settle_down().await;
    assert_eq!(limiter.waiting("api"), callers(3, Some(1.minutes())));
    let text = prometheus_text(&limiter.samples().await);
    let series = text.lines().filter(|line| line.starts_with("tollway_waiting_callers{")).count();
    assert_eq!(series, 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_limiter_without_metrics_counts_no_callers() {
    let (limiter, _) = crate::paused::limiter([("api", "1 / minute")]);
    drop(limiter.take("api").await.unwrap());
    let waits = waiter(&limiter, "");
    settle_down().await;
    assert_eq!(limiter.waiting("api"), Waiting::default());
    waits.await.unwrap();
}

/// G10: the amount in force can be drawn as a line: of the config, set by an operator, stopped.
#[tokio::test]
async fn the_amount_of_each_limit_is_a_series() {
    let limits = ["rpm: 3 / minute", "tpm: 10k tokens / minute bucket burst 20k", "slots: 4 concurrent"];
    let limiter = Limiter::builder().policy("api", limits).unwrap().metrics().build();
    assert_eq!(figure(&limiter, "tollway_limit_amount", &["api", "rpm"]).await, None, "not used yet");
    drop(limiter.take("api").subject("one").await.unwrap());
    for (limit, amount) in [("rpm", 3), ("tpm", 10_000), ("slots", 4)] {
        assert_eq!(figure(&limiter, "tollway_limit_amount", &["api", limit]).await, Some(amount), "{limit}");
    }
    limiter.set_limit("api", "rpm", "7").await.unwrap();
    assert_eq!(figure(&limiter, "tollway_limit_amount", &["api", "rpm"]).await, Some(7));
    limiter.set_limit("api", "rpm", "0").await.unwrap();
    assert_eq!(figure(&limiter, "tollway_limit_amount", &["api", "rpm"]).await, Some(0));
    limiter.replace_policies([Policy::new("api", ["rpm: 5 / minute"]).unwrap()]).unwrap();
    assert_eq!(figure(&limiter, "tollway_limit_amount", &["api", "slots"]).await, None);
}

/// G10: above 1 where demand was denied, in the units of the limit, and below it again in the next window.
#[tokio::test(start_paused = true)]
async fn the_used_ratio_counts_what_was_denied_in_the_running_window() {
    let (limiter, clock) = counting("api", &["rpm: 10 / minute", "tpm: 1k tokens / minute"]);
    let ratio = async |limit: &str| figure(&limiter, "tollway_used_ratio", &["api", limit]).await;
    let take = async |tokens: u64| limiter.try_take("api").cost("tokens", tokens).await.unwrap().is_granted();
    assert!(take(400).await);
    assert_eq!((ratio("rpm").await, ratio("tpm").await), (Some(100_000), Some(400_000)));
    assert!(!take(900).await);
    assert!(take(600).await);
    assert!(!take(700).await);
    // 1,000 granted and 1,600 denied of 1,000 tokens; no request was denied for being one too many.
    assert_eq!((ratio("rpm").await, ratio("tpm").await), (Some(200_000), Some(2_600_000)));
    advance(1.minutes()).await;
    assert!(take(500).await);
    assert_eq!((ratio("rpm").await, ratio("tpm").await), (Some(100_000), Some(500_000)));
    assert_eq!(clock.millis(), 60_000);
}

/// Callers that wait for a slot ask again and again; that is no demand beyond what runs.
#[tokio::test(start_paused = true)]
async fn the_used_ratio_of_slots_is_what_runs() {
    let (limiter, _) = counting("api", &["slots: 2 concurrent"]);
    let _running = (limiter.take("api").await.unwrap(), limiter.take("api").await.unwrap());
    for _ in 0..3 {
        assert!(!limiter.try_take("api").await.unwrap().is_granted());
        assert_eq!(figure(&limiter, "tollway_used_ratio", &["api", "slots"]).await, Some(1_000_000));
    }
}

/// G11: whose refusal it was, in one metric.
#[tokio::test]
async fn refusals_of_an_api_say_whose_they_are() {
    let notion = Api::profile("notion").unwrap();
    let limiter = Limiter::builder().with_api(notion).unwrap().metrics().build();
    let api = limiter.apis()[0].clone();
    let figures = limiter.api_figures(api.name());
    figures.count_refusal("rate");
    for why in [NotSent::Limit(Name::new("requests_per_second").unwrap()), NotSent::Queue, NotSent::Hold] {
        figures.count_not_sent(why.clone());
        figures.count_not_sent(why);
    }
    for (labels, count) in [
        (["notion", "vendor", "rate"], Some(1)),
        (["notion", "vendor", "overload"], Some(0)),
        (["notion", "vendor", "hold"], Some(2)),
        (["notion", "ours", "requests_per_second"], Some(2)),
        (["notion", "ours", "queue"], Some(2)),
        (["notion", "ours", "rate"], None),
    ] {
        assert_eq!(figure(&limiter, "tollway_refusals_total", &labels).await, count, "{labels:?}");
    }
}
