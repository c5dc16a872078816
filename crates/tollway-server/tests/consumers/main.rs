//! Consumers, as callers, operators and those who manage them see them: real servers on free ports, counting in memory and in
//! a real Redis under the keys of the layout `consumers`.
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
#[allow(dead_code, reason = "shared with the tests of gRPC")]
#[path = "../grpc/call.rs"]
mod call;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../server/client.rs"]
mod client;
mod counters;
mod examples;
mod flood;
mod forgetting;
mod headers;
mod health;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../server/log.rs"]
mod log;
mod management;
#[allow(dead_code, reason = "shared with the tests of gRPC")]
#[path = "../grpc/messages.rs"]
mod messages;
mod metrics;
mod nginx;
#[path = "../server/nginx_process.rs"]
mod nginx_process;
mod one_command;
mod redis_cli;
mod rls;
#[allow(dead_code, reason = "shared with the tests of HTTP")]
#[path = "../server/running.rs"]
mod running;
mod sentences;
mod several_servers;
mod store_away;
mod switches;
mod who;
