//! The simulation: exact for every seed, and what leases save.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the table is the result; a test fails by panicking"
)]

mod ten_thousand_nodes;
