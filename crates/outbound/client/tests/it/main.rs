//! The client against a real HTTP vendor.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bodies;
mod budget;
mod doors;
mod feedback;
mod hostile;
mod kept;
mod limits;
mod observability;
mod requests;
mod short_programs;
mod tokens;
mod vendors;

use tollway::{Config, Limiter};
use tollway_client::ApiClient;
use tollway_core::Span;
use tollway_vendor::server::{VendorServer, VendorSettings};

/// A vendor with these limits that answers at once.
async fn vendor(limits: &[&str], dialect: &str) -> VendorServer {
    vendor_with(limits, dialect, |_| {}).await
}

async fn vendor_with(
    limits: &[&str],
    dialect: &str,
    change: impl FnOnce(&mut VendorSettings),
) -> VendorServer {
    let mut settings = VendorSettings::new(limits.iter().copied()).unwrap().dialect(dialect).unwrap();
    settings.terms.latency = (Span::from_millis(1), Span::from_millis(2));
    change(&mut settings);
    VendorServer::start(settings).await.unwrap()
}

/// The limiter of an api `test` at this address, with these keys of its section.
fn limiter(url: &str, keys: &str) -> Limiter {
    limiter_of(&format!("[apis.test]\nbase_url = \"{url}\"\n{keys}"))
}

fn limiter_of(config: &str) -> Limiter {
    let config = Config::parse(config).unwrap_or_else(|error| panic!("{error}"));
    Limiter::builder().config(&config).unwrap().metrics().build()
}

fn client(url: &str, keys: &str) -> ApiClient {
    ApiClient::of(&limiter(url, keys), "test").unwrap()
}
