//! The test kit's own tests: models, planted bugs and faults. One binary, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
mod plain_store_conforms;
mod planted_bugs_are_caught;
