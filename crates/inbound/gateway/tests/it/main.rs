//! The gateway on real sockets, in front of a vendor that records every byte.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod administration;
mod answers;
mod learning;
mod leaving;
mod limits;
mod pass_through;
mod running;
mod sdks;
mod vendor;
