//! Tests of the pipeline and its engines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod clock_set_back;
mod config;
mod metrics_guide;
mod postgres_conforms;
mod postgres_durable;
mod postgres_shared;
mod runner;
mod socket_conforms;
mod source;
mod source_any_bytes;
mod source_guide;
mod sqlite_conforms;
mod sqlite_file;
mod sqlite_space;
mod sqs_clock;
mod sqs_conforms;
mod sqs_credentials;
mod sqs_deaths;
mod sqs_foreign;
mod sqs_lab;
mod sqs_left_over;
mod sqs_move_task;
mod sqs_queue;
mod sqs_settled;
mod view;
mod worker_names;
