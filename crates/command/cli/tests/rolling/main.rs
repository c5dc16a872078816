//! Rolling upgrades: the command of an earlier version and today's work side by side on one store or one pipeline, and are
//! killed meanwhile. `scripts/rolling-upgrade` builds the earlier one.
//!
//! A version that cannot work beside the other may refuse to start. It must say so, and change nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells its figures"
)]

mod engines;
mod serving;
mod stores;
mod version;
