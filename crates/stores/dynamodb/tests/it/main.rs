//! The store on DynamoDB, one module a subject. One program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod clock;
mod golden_bytes;
mod items;
mod minute;
mod minute_api;
mod minute_shares;
mod minute_table;
mod once;
mod remembered;
mod settings;
mod support;
mod taking_turns;
mod together;
