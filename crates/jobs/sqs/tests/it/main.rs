//! Tests of pipelines on SQS.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod clock;
mod conforms;
mod credentials;
mod deaths;
mod foreign;
mod lab;
mod left_over;
mod move_task;
mod queue;
mod settled;
mod worker_names;
