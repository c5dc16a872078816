//! Consumers' records, their cache and the gate, one module each. One binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cache;
mod flood;
mod gate;
#[cfg(feature = "postgres-tls")]
mod postgres_tls;
mod sqlite_memory;
mod support;
