//! The store on Redis, one module a subject. One program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod asking;
mod calls;
mod cluster;
mod conformance;
mod consumers;
mod consumers_broken;
mod consumers_engine;
mod denials;
mod failover;
mod full;
mod golden_bytes;
mod link;
mod numbers;
mod store;
mod tls;
