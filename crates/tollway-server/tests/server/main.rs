//! The server, as its clients see it: real sockets on free ports, raw bytes, nothing mocked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

mod access;
mod authorize;
mod bodies;
mod bounds;
#[cfg(feature = "tls")]
mod certificate;
mod client;
mod floods;
mod http2;
mod lifecycle;
mod log;
mod logs;
mod metrics;
mod nginx;
mod nginx_process;
mod patience;
mod permits;
mod running;
mod sockets;
mod store_down;
mod take;
#[cfg(feature = "tls")]
mod tls;
