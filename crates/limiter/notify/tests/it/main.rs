//! What leaves a process: incidents and alarms to a webhook and to SNS, metrics to CloudWatch.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking"
)]

mod cloudwatch;
mod webhook;
