//! The store on Postgres, one module a subject. One program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod conformance;
mod contention;
mod denials;
mod failures;
mod golden_bytes;
mod hot_line;
mod once;
mod rows;
mod schema;
mod settings;
mod statistics;
mod support;
mod tls;
