//! Integration tests of the server: real sockets on free ports, raw bytes, nothing mocked. One binary, so that it links
//! once; modules share the helpers beside them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

mod call;
#[cfg(feature = "tls")]
mod certificate;
mod client;
mod config_consumers;
mod config_server;
mod consumers;
mod golden_bytes;
mod grpc;
mod http2;
mod log;
mod messages;
mod nginx_process;
mod redis_client;
mod resp;
mod running;
mod server;
