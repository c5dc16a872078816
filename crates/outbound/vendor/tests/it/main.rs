//! The vendor as a server: its decisions over HTTP, its dialects, and its answers of language models.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod client;
mod dialects;
mod models;
mod server;
