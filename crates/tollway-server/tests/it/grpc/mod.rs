//! The rate limit service of Envoy, as a client of its own sees it: real sockets, and bytes as they are on the wire.
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
