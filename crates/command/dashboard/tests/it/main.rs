//! Integration tests of the dashboard: a real server on a free port, and a client that writes and reads bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "helpers of tests may fail the test, and print what they measure"
)]

mod client;
mod history;
mod live;
mod pipelines;
mod rights;
mod running;
mod views;
