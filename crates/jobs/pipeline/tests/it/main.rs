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
mod view;
mod worker_names;
