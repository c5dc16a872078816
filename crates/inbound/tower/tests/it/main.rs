//! The tower layers, one module per framework. One binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod axum;
#[cfg(feature = "consumers")]
mod consumers;
mod hyper;
mod options;
mod service;
mod several_policies;
mod stacked;
mod tonic;
