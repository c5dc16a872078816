//! The log lines of a rate. It reads everything that the process logs, so it is a program of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway::{Config, Limiter, Span};
use tollway_client::ApiClient;
use tollway_vendor::server::{VendorServer, VendorSettings};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The lines of the client.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// The lines that have all of these.
    fn count(&self, texts: &[&str]) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| texts.iter().all(|text| line.contains(text))).count()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tollway_client")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// D4: debug lines at the start and at an increase, a warning at a backoff with both rates and the cooldown.
#[tokio::test]
async fn changes_of_the_rate_are_logged() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    let vendor = VendorSettings::new(["2 / hour"]).unwrap().dialect("http").unwrap();
    let vendor = VendorServer::start(vendor).await.unwrap();
    let config = format!(
        "[apis.test]\nbase_url = \"{}\"\n\
         rate = {{ initial = 100, min = 1, max = 200, increase_step = 1, decrease_factor = 0.5 }}",
        vendor.url()
    );
    let limiter = Limiter::builder().config(&Config::parse(&config).unwrap()).unwrap().build();
    let client = ApiClient::of(&limiter, "test").unwrap();
    assert_eq!(lines.count(&["DEBUG", "calls of an api are limited", "api=test"]), 1, "{lines:?}");

    client.get("/").send().await.unwrap();
    while lines.count(&["DEBUG", "increased", "old_rate=100.000 a second", "new_rate=101.000 a second"]) == 0
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    client.get("/").send().await.unwrap();
    client.get("/").max_retries(0).send().await.unwrap_err();
    assert_eq!(
        lines.count(&["WARN", "backing off", "old_rate=101.000", "new_rate=51.000", "cooldown="]),
        1,
        "{lines:?}"
    );
}

/// D4: a vendor that fails is said once, with its status and what to write if that means "call later".
#[tokio::test]
async fn failing_vendor_is_said_once() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let mut vendor = VendorSettings::new(["1000 / second"]).unwrap().dialect("http").unwrap();
    vendor.terms.errors = 1_000;
    vendor.terms.latency = (Span::from_millis(1), Span::from_millis(2));
    let vendor = VendorServer::start(vendor).await.unwrap();
    let config = format!("[apis.test]\nbase_url = \"{}\"\nrate = \"auto\"", vendor.url());
    let limiter = Limiter::builder().config(&Config::parse(&config).unwrap()).unwrap().build();
    let client = ApiClient::of(&limiter, "test").unwrap();
    for _ in 0..14 {
        assert_eq!(client.get("/").send().await.unwrap().status(), 500);
        client.limiter().flush().await;
    }
    let said =
        ["WARN", "most calls of an api fail", "last=\"500", "backoff_codes = [429, 500]", "[apis.test]"];
    assert_eq!(lines.count(&said), 1, "{lines:?}");
}

/// An api without a rate has none to log.
#[tokio::test]
async fn refusal_of_an_api_without_a_rate_logs_no_rates() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let vendor = VendorSettings::new(["1 / hour"]).unwrap().dialect("http").unwrap();
    let vendor = VendorServer::start(vendor).await.unwrap();
    let config = format!("[apis.test]\nbase_url = \"{}\"\nlimits = [\"100 / hour\"]", vendor.url());
    let limiter = Limiter::builder().config(&Config::parse(&config).unwrap()).unwrap().build();
    let client = ApiClient::of(&limiter, "test").unwrap();
    client.get("/").send().await.unwrap();
    client.get("/").max_retries(0).send().await.unwrap_err();
    assert_eq!(lines.count(&["WARN", "backing off", "cooldown="]), 1, "{lines:?}");
    assert_eq!(lines.count(&["WARN", "rate="]), 0, "{lines:?}");
}
