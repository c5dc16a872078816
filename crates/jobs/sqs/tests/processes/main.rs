//! Pipelines as processes of their own, which are killed, traced and counted. The processes are this test itself, started
//! again: see `child.rs`. They run on every engine, so the tests stand in the crate that knows them all.
//!
//! `TOLLWAY_KILLS` says how often: 20 by default, 200 in `./test --full`. `TOLLWAY_WINDOWS` says how many windows of a quota
//! are watched: 2 by default, 12 in `./test --full`. `TOLLWAY_QUEUED` says how many jobs pass queues on their bad days: 200 by
//! default, 20,000 in `./test --full`. `TOLLWAY_SOAK_MINUTES` says how long a soak lasts: see `scripts/soak`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells its figures"
)]

mod audit;
mod bugs;
mod checker;
mod child;
mod crash;
mod faulty_queues;
mod frozen;
mod kill;
mod lab;
mod outages;
mod planted;
mod share;
mod soak;
mod stepped_clock;
mod syncs;
mod vendor;

use std::time::SystemTime;

use tollway_core::{Name, Timestamp};

fn stage(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// How often a test kills.
fn kills() -> u64 {
    std::env::var("TOLLWAY_KILLS").map_or(20, |kills| kills.parse().unwrap())
}

/// The machine's clock, which all logs share.
fn now() -> Timestamp {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap())
}
