//! Envoy's rate limit service, tested with an independent client over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

mod bounds;
mod counts;
mod doors;
mod health;
mod hostile;
mod overrides;
mod shadow;
mod statuses;
mod store_down;
