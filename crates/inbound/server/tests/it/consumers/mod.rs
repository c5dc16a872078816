//! Consumers: real servers on free ports, which count in memory and in a real Redis with the layout `consumers`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

mod anonymous;
mod bad_input;
mod bank;
mod counters;
mod examples;
mod flood;
mod forgetting;
mod headers;
mod health;
mod management;
mod metrics;
mod neutral;
mod nginx;
mod one_command;
mod redis_cli;
mod rls;
mod sentences;
mod several_servers;
mod store_away;
mod switches;
mod who;
