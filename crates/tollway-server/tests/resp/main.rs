//! The server as Redis clients see it: redis-cli and redis-benchmark, raw bytes, and a real Redis to compare with.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod auth;
#[cfg(feature = "tls")]
#[path = "../server/certificate.rs"]
mod certificate;
#[allow(dead_code, reason = "the HTTP client of the server that these tests share with others")]
#[path = "../server/client.rs"]
mod client;
mod exact;
mod like_redis;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../server/log.rs"]
mod log;
mod patience;
mod pipeline;
mod redis_client;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../server/running.rs"]
mod running;
mod throttle;
#[cfg(feature = "tls")]
mod tls;
mod tools;

use running::{Running, Setup};

/// A server that speaks the Redis protocol, with no policies of its own.
fn server() -> Running {
    setup("").start()
}

/// The same, with more in its config.
fn setup(more: &str) -> Setup {
    Setup::of(&format!("[server]\nresp = \"127.0.0.1:0\"\n{more}"))
}
