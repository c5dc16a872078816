//! Processes that call one real HTTP vendor and share its limits through one real store. The processes are this test itself,
//! started again as workers. What they do is counted at the vendor.
//!
//! `TOLLWAY_WINDOWS` says how many windows the long tests watch: 2 by default, 12 in `./test --full`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, tells its figures, and compares them with the machine's clock"
)]

mod fleet;
mod outage;
mod refusal;
mod restart;
mod windows;

use std::time::Duration;

use tollway_core::{Span, Timestamp};
use tollway_vendor::server::{VendorServer, VendorSettings};

/// The vendor's clock.
fn now() -> Timestamp {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap())
}

async fn sleep_until(at: Timestamp) {
    tokio::time::sleep(at.since(now()).into()).await;
}

/// Waits until the condition holds; a minute at most.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = now().plus(Span::from_mins(1));
    while !condition().await {
        assert!(now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A vendor with this limit. Each call takes so long; the vendor decides at half of it.
async fn vendor(limit: &str, phase: Span, latency: Span) -> VendorServer {
    let mut settings = VendorSettings::with_phase([limit], phase).unwrap();
    settings.terms.latency = (latency, latency);
    VendorServer::start(settings).await.unwrap()
}

/// The config of an api `vendor` at this address: its store, and other keys of its section.
fn config(store: &str, vendor: &VendorServer, keys: &str) -> String {
    let url = vendor.url();
    format!("[store]\nurl = \"{store}\"\n\n[apis.vendor]\nbase_url = \"{url}\"\nmax_retries = 100\n{keys}\n")
}
