//! The limiter as programs use it, one module a subject. One program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod adhoc;
mod after_the_caller;
mod apis;
mod begin;
mod blocking;
#[cfg(feature = "redis")]
mod cluster_outage;
mod config;
mod config_include;
mod config_watch;
mod date_set_forward;
mod debts;
mod fallback;
mod golden_bytes;
#[cfg(feature = "dynamodb")]
mod heard;
mod incident;
mod lease;
mod limiter;
mod many_policies;
mod metrics;
#[cfg(feature = "dynamodb")]
mod minute;
#[cfg(feature = "redis")]
mod outage_usage;
mod paused;
mod permit;
#[cfg(all(feature = "redis", feature = "postgres", feature = "dynamodb"))]
mod refused;
mod regressions;
mod reload;
mod settings;
#[cfg(feature = "redis")]
mod shared;
mod shares;
mod source;
mod spans;
mod ticket;
#[cfg(feature = "dynamodb")]
mod token_bucket;
mod waiting;
mod waiting_metrics;
mod waiting_slots;
