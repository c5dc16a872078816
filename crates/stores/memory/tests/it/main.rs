//! The stores on one machine, in memory and in a file, one module a subject. One program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod clock_processes;
mod clock_set_back;
mod file_conformance;
mod file_format;
mod file_store;
mod file_support;
mod golden_bytes;
mod memory_conforms;
mod memory_support;
mod memory_threads;
