//! The rate limit service of Envoy, as a client of its own sees it: real sockets, and bytes as they are on the wire.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

mod bounds;
mod call;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../server/client.rs"]
mod client;
mod counts;
mod doors;
mod health;
mod hostile;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../server/log.rs"]
mod log;
mod messages;
mod overrides;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../server/running.rs"]
mod running;
mod shadow;
mod statuses;
mod store_down;
