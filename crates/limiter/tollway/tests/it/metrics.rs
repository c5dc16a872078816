//! What a limiter counts of itself (G10).
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway::core::{Answer, Fault, Operation, Policy, Retry, Store, StoreError, WhenStoreFails};
use tollway::metrics::{Figure, METRICS, POLICIES_MAX, Sample, prometheus_text};
use tollway::{Durations, Limiter};

async fn number(limiter: &Limiter, name: &str, labels: &[&str]) -> Option<u64> {
    let samples = limiter.samples().await;
    let found = samples.iter().find(|sample| sample.metric.name == name && sample.labels == labels);
    found.map(|sample| match &sample.figure {
        Figure::Number(number) | Figure::Millionths(number) => *number,
        Figure::Latencies(latencies) => latencies.counts.iter().sum(),
        Figure::Tallies(tallies) => tallies.counts.iter().sum(),
    })
}

/// G10: what was acquired and what failed, by limit, and what is available; under the documented names.
#[tokio::test]
async fn takes_are_counted_by_the_limit_that_grants_or_denies() {
    let limits = ["rpm: 3 / hour", "tpm: 10k tokens / hour", "rpd: 25 / day"];
    let limiter = Limiter::builder().policy("gemini", limits).unwrap().metrics().build();
    assert!(limiter.try_take("gemini").cost("tokens", 3_750).await.unwrap().is_granted());
    assert!(limiter.take("gemini").cost("tokens", 1_000).max_wait(1.seconds()).await.is_ok());
    assert!(!limiter.try_take("gemini").cost("tokens", 9_000).await.unwrap().is_granted());
    assert!(limiter.take("gemini").cost("tokens", 9_000).max_wait(1.millis()).await.is_err());
    for (limit, acquired, failures, available) in
        [("rpm", 2, 0, 1), ("tpm", 4_750, 2, 5_250), ("rpd", 2, 0, 23)]
    {
        let labels = ["gemini", limit];
        assert_eq!(number(&limiter, "RateLimiterTokensAcquired", &labels).await, Some(acquired), "{limit}");
        assert_eq!(
            number(&limiter, "RateLimiterAcquisitionFailures", &labels).await,
            Some(failures),
            "{limit}"
        );
        assert_eq!(number(&limiter, "RateLimiterTokensAvailable", &labels).await, Some(available), "{limit}");
    }
    assert_eq!(number(&limiter, "tollway_decisions_total", &["gemini", "granted"]).await, Some(2));
    assert_eq!(number(&limiter, "tollway_decisions_total", &["gemini", "denied"]).await, Some(2));
}

#[tokio::test]
async fn a_queued_take_counts_once() {
    let limiter = Limiter::builder().policy("slow", ["20 / second sliding"]).unwrap().metrics().build();
    for _ in 0..30 {
        drop(limiter.take("slow").max_wait(10.seconds()).await.unwrap());
    }
    assert_eq!(number(&limiter, "tollway_decisions_total", &["slow", "granted"]).await, Some(30));
    assert_eq!(number(&limiter, "tollway_decisions_total", &["slow", "denied"]).await, Some(0));
}

#[tokio::test]
async fn metrics_are_off_by_default() {
    let limiter = Limiter::builder().policy("adobe", ["3 / hour"]).unwrap().build();
    assert!(limiter.try_take("adobe").await.unwrap().is_granted());
    assert_eq!(limiter.samples().await, []);
}

/// B9: a shadow policy never denies, and is counted all the same.
#[tokio::test]
async fn shadow_denials_are_counted_under_their_policy() {
    let shadow = Policy::new("strict", ["1 / hour"]).unwrap().with_shadow(true);
    let builder = Limiter::builder().policy("real", ["9 / hour"]).unwrap();
    let limiter = builder.with_policy(shadow).unwrap().metrics().build();
    for _ in 0..3 {
        let taken = limiter.try_take("real").and("strict").await.unwrap();
        assert!(taken.is_granted());
    }
    assert_eq!(number(&limiter, "tollway_would_deny_total", &["strict"]).await, Some(2));
    assert_eq!(number(&limiter, "tollway_would_deny_total", &["real"]).await, Some(0));
    assert_eq!(number(&limiter, "tollway_decisions_total", &["real", "granted"]).await, Some(3));
}

/// A store that is never there.
struct Gone;

impl Store for Gone {
    fn apply(&self, _batch: &[Operation]) -> Answer {
        let message = "gone".to_owned();
        Answer::now(Err(StoreError { fault: Fault::Network, retry: Retry::Safe, message }))
    }
}

/// G7: the fallback is counted under its documented name.
#[tokio::test]
async fn store_failures_show_in_the_metrics() {
    let closed = Policy::new("closed", ["9 / hour"]).unwrap().with_when_store_fails(WhenStoreFails::Closed);
    let builder = Limiter::builder().policy("local", ["90 / hour"]).unwrap();
    let limiter = builder.with_policy(closed).unwrap().store(Arc::new(Gone)).metrics().build();
    for _ in 0..4 {
        assert!(limiter.try_take("closed").await.is_err());
        assert!(limiter.try_take("local").await.unwrap().is_granted());
    }
    assert_eq!(number(&limiter, "tollway_decisions_total", &["closed", "failed"]).await, Some(4));
    assert_eq!(number(&limiter, "tollway_decisions_total", &["local", "granted"]).await, Some(4));
    assert_eq!(number(&limiter, "RateLimiterFallbackActivated", &[]).await, Some(1));
    assert_eq!(number(&limiter, "tollway_store_degraded", &[]).await, Some(1));
    assert_eq!(number(&limiter, "tollway_degraded_decisions_total", &[]).await, Some(8));
    assert_eq!(
        number(&limiter, "RateLimiterAcquisitionLatency", &["local", "requests_per_hour"]).await,
        Some(4)
    );
    // What is left is not known, and nothing is made up.
    assert_eq!(number(&limiter, "RateLimiterTokensAvailable", &["local", "requests_per_hour"]).await, None);
}

/// T23: whatever callers name, the set of series stays what the config makes it.
#[tokio::test]
async fn subjects_and_policies_of_callers_make_no_series() {
    let limiter = Limiter::builder().policy("adobe", ["9 / hour"]).unwrap().metrics().build();
    let series = |samples: &[Sample]| {
        samples.iter().map(|one| (one.metric.name, one.labels.clone())).collect::<Vec<_>>()
    };
    let hostile = ["a\u{1b}[31m", "b\r\nc", "\"} 1", "d"];
    let mut seen = Vec::new();
    for (index, subject) in hostile.iter().enumerate() {
        let _ = limiter.try_take("adobe").subject(subject).await;
        let chosen = limiter.bind(Policy::new(&format!("chosen-{index}"), ["5 / hour"]).unwrap()).unwrap();
        assert!(chosen.try_take().subject("x").now().unwrap().is_granted());
        seen.push(series(&limiter.samples().await));
    }
    assert!(seen.iter().all(|series| *series == seen[0]), "{seen:?}");
    assert_eq!(number(&limiter, "tollway_decisions_total", &["of_callers", "granted"]).await, Some(4));
    let text = prometheus_text(&limiter.samples().await);
    assert!(!text.contains("chosen-") && !text.contains('\u{1b}') && !text.contains('\r'), "{text}");
}

/// T23: a program that binds policies under a name of its own sees them counted under it, whatever their amounts.
#[tokio::test]
async fn a_policy_that_the_program_names_is_counted_by_its_name() {
    let limiter = Limiter::builder().metrics().build();
    for limit in ["each: 1 / hour", "each: 2 / hour"] {
        let handle = limiter.bind_counted(Policy::new("plans", [limit]).unwrap()).unwrap();
        while handle.try_take().subject(limit).now().unwrap().is_granted() {}
    }
    assert_eq!(number(&limiter, "tollway_decisions_total", &["plans", "granted"]).await, Some(3));
    assert_eq!(number(&limiter, "RateLimiterAcquisitionFailures", &["plans", "each"]).await, Some(2));
    assert_eq!(number(&limiter, "tollway_decisions_total", &["of_callers", "granted"]).await, None);
}

/// Lines of the text that name this policy.
fn lines_of(text: &str, policy: &str) -> usize {
    let label = format!("policy=\"{policy}\"");
    text.lines().filter(|line| line.contains(&label)).count()
}

/// G10: a scrape of thousands of policies is otherwise mostly idle policies.
#[tokio::test]
async fn a_policy_has_series_from_its_first_take_on_and_twenty_lines_at_most() {
    let builder = Limiter::builder().policy("idle", ["9 / hour", "90 / day"]).unwrap();
    let limiter = builder.policy("used", ["2 / hour", "90 / day"]).unwrap().metrics().build();
    let handle = limiter.policy("idle").unwrap();
    let text = prometheus_text(&limiter.samples().await);
    assert_eq!((lines_of(&text, "idle"), lines_of(&text, "used")), (0, 0), "{text}");
    for granted in [true, true, false] {
        assert_eq!(limiter.try_take("used").await.unwrap().is_granted(), granted);
    }
    let text = prometheus_text(&limiter.samples().await);
    assert_eq!(lines_of(&text, "idle"), 0, "{text}");
    assert!((10..=20).contains(&lines_of(&text, "used")), "{text}");
    assert!(handle.try_take().now().unwrap().is_granted());
    limiter.replace_policies([Policy::new("idle", ["8 / hour", "90 / day"]).unwrap()]).unwrap();
    assert!(handle.try_take().now().unwrap().is_granted());
    assert_eq!(number(&limiter, "tollway_decisions_total", &["idle", "granted"]).await, Some(2));
    assert_eq!(number(&limiter, "tollway_decisions_total", &["used", "denied"]).await, Some(1));
}

/// G10: beyond the bound nothing is lost: the rest has one sum, and a series says of how many policies.
#[tokio::test]
async fn policies_beyond_the_bound_are_summed_and_counted() {
    let (name, left_out) = (|n: usize| format!("p{n:05}"), 3);
    let policies = (0..POLICIES_MAX + left_out).map(|n| Policy::new(&name(n), ["1 / hour"]).unwrap());
    let limiter = Limiter::builder().metrics().build();
    limiter.replace_policies(policies).unwrap();
    // The ones used first have series of their own, whatever their names are.
    for n in (0..POLICIES_MAX + left_out).rev() {
        assert!(limiter.try_take(&name(n)).await.unwrap().is_granted());
    }
    for n in 0..left_out {
        assert!(!limiter.try_take(&name(n)).await.unwrap().is_granted());
        assert_eq!(number(&limiter, "tollway_decisions_total", &[&name(n), "granted"]).await, None);
    }
    for (name, labels, expected) in [
        ("tollway_decisions_total", &["other", "granted"][..], 3),
        ("tollway_decisions_total", &["other", "denied"], 3),
        ("RateLimiterTokensAcquired", &["other", "other"], 3),
        ("RateLimiterAcquisitionFailures", &["other", "other"], 3),
        ("tollway_metrics_policies_left_out", &[], 3),
    ] {
        assert_eq!(number(&limiter, name, labels).await, Some(expected), "{name} {labels:?}");
    }
    let last = name(POLICIES_MAX + left_out - 1);
    assert_eq!(number(&limiter, "tollway_decisions_total", &[&last, "granted"]).await, Some(1));
    assert_eq!(number(&limiter, "RateLimiterTokensAvailable", &[&last, "requests_per_hour"]).await, Some(0));
}

#[tokio::test]
async fn every_series_is_one_of_the_catalogue_with_all_its_labels() {
    let limiter = Limiter::builder().policy("adobe", ["9 / hour"]).unwrap().metrics().build();
    assert!(limiter.try_take("adobe").await.unwrap().is_granted());
    for sample in limiter.samples().await {
        assert!(METRICS.contains(&sample.metric), "{}", sample.metric.name);
        assert_eq!(sample.labels.len(), sample.metric.labels.len(), "{}", sample.metric.name);
    }
}

/// A limiter of a config file counts like one of the builder with metrics.
#[tokio::test]
async fn a_limiter_of_a_config_counts_its_takes() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tollway.toml");
    std::fs::write(&config, "policies.adobe.limits = ['9 / hour']").unwrap();
    let limiter = Limiter::from_config(&config).await.unwrap();
    assert!(limiter.try_take("adobe").await.unwrap().is_granted());
    assert_eq!(number(&limiter, "tollway_decisions_total", &["adobe", "granted"]).await, Some(1));
}
