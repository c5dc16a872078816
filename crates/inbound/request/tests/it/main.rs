//! Client addresses and rate limit headers. One binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod address;
mod headers;
mod inbound_take;
