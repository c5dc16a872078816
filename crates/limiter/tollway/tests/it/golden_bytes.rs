//! What a limiter stores and tells keeps its bytes: limits as data, the shared secret, names of metrics and their labels.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected files; without it a missing file is a failure.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tollway::Limiter;
use tollway::core::Timestamp;
use tollway::metrics::{METRICS, prometheus_text};
use tollway_memory::FileStore;
use tollway_testkit::ManualClock;
use tollway_testkit::golden::compare;

const START: Timestamp = Timestamp::from_secs(1_768_478_400);

fn golden(name: &str, found: &str) {
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name), found);
}

/// Rows of limits as data and the secret's stored form, as they lie in a state file.
#[tokio::test]
async fn settings_and_the_secret_keep_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(FileStore::open(&path, clock.clone()).unwrap());
    let builder =
        Limiter::builder().policy("adobe", ["rpm: 2 / minute", "tpm: 9k tokens / hour bucket"]).unwrap();
    let limiter = builder.store(store).clock(clock).build();
    limiter.set_limit("adobe", "rpm", "7").await.unwrap();
    limiter.set_limit("adobe", "tpm", "5k tokens / hour bucket burst 6k").await.unwrap();
    let secret: [u8; 32] = std::array::from_fn(|index| u8::try_from(index * 7).unwrap());
    assert_eq!(limiter.shared_secrets(secret).await.unwrap(), [secret]);
    limiter.clear_limit("adobe", "rpm").await.unwrap();
    drop(limiter);
    golden("settings.state", &std::fs::read_to_string(&path).unwrap());
}

/// Every metric's name, kind, unit and labels.
#[test]
fn metrics_keep_their_names_and_labels() {
    let mut text = String::new();
    for metric in METRICS {
        let labels = metric.labels.join(",");
        writeln!(text, "{} {} [{}] {{{labels}}}", metric.name, metric.kind.word(), metric.unit).unwrap();
    }
    golden("metrics.txt", &text);
}

/// Every series that a limiter exports after a grant and a denial, with its value. Help texts are left out.
#[tokio::test]
async fn series_keep_their_bytes() {
    let clock = Arc::new(ManualClock::at(START));
    let builder = Limiter::builder().policy("gemini", ["rpm: 1 / hour", "10k tokens / day"]).unwrap();
    let limiter = builder.metrics().clock(clock).build();
    assert!(limiter.try_take("gemini").cost("tokens", 250).await.unwrap().is_granted());
    assert!(!limiter.try_take("gemini").cost("tokens", 250).await.unwrap().is_granted());
    let text = prometheus_text(&limiter.samples().await);
    let told = text.lines().filter(|line| !line.starts_with("# HELP"));
    golden("series.txt", &told.map(|line| format!("{line}\n")).collect::<String>());
}
