//! Tests of the pipeline's engines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod postgres_conforms;
mod postgres_shared;
mod sqlite_conforms;
mod sqlite_file;
