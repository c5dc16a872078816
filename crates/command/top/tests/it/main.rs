//! The screen as a reader sees it, drawn into terminals of several sizes.
//!
//! `UPDATE_GOLDEN=1` rewrites the expected frames.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod frames;
mod panic;
mod snapshots;
