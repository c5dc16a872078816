//! HTTP, administration and the life of the server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

mod access;
mod alone;
mod authorize;
mod bodies;
mod bounds;
mod control_frames;
mod flood_of_subjects;
mod floods;
mod lifecycle;
mod metrics;
mod nginx;
mod observe;
mod permits;
mod sockets;
mod store_down;
mod take;
mod timeouts;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
mod web_pages;
