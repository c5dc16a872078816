//! The Redis protocol, tested with redis-cli, redis-benchmark and raw bytes, and compared with a real Redis.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod auth;
mod exact;
mod like_redis;
mod pipeline;
mod throttle;
mod timeouts;
#[cfg(feature = "tls")]
mod tls;
mod tools;

use crate::running::{Running, Setup};

/// A server that speaks the Redis protocol, without policies.
fn server() -> Running {
    setup("").start()
}

/// The same, with more in its config.
fn setup(more: &str) -> Setup {
    let mut setup = Setup::of(&format!("[server]\nresp = \"127.0.0.1:0\"\n{more}"));
    setup.timeouts.wrong_token = std::time::Duration::ZERO;
    setup
}
