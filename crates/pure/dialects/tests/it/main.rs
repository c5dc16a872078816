//! Responses of vendors, in files and at random. One program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod arbitrary;
mod golden;
mod hook;
mod no_profile;
mod usage;
