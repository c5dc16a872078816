//! What the benches of the gateway and of the dashboard share: a load at a fixed rate, and processes whose CPU time it reads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program for the terminal: what cannot be measured ends the run"
)]

pub mod load;
pub mod proxies;
