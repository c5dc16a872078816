//! Tests of the pipeline and its engines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod config;
mod postgres_conforms;
mod postgres_shared;
mod runner;
mod sqlite_conforms;
mod sqlite_file;
