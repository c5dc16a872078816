//! Thousands of processes on one store, simulated in virtual time.
//!
//! Every process is a real [`Limiter`](tollway::Limiter): its leases, breaker, fallback and debts are the code that runs in
//! production. Simulated are the network ([`Link`](link::Link)) and the callers; the store is the memory store. Time is
//! tokio's paused time and every random number comes from the seed, so a seed gives the same result each time.
//!
//! [`run`] needs a paused runtime of one thread:
//!
//! ```
//! use tollway_fleet::{Scenario, run};
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
//! let scenario = Scenario { nodes: 40, servers: 4, lease: true, ..Scenario::default() };
//! let report = runtime.block_on(run(scenario, 1));
//! assert_eq!(report.over, 0);
//! # Ok::<(), std::io::Error>(())
//! ```
// A kit for tests fails by panicking, with a message for the reader.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod central_store;
mod link;
mod network;
mod report;
mod scenario;
mod server;
mod simulation;
mod virtual_clock;

pub use report::{Report, table};
pub use scenario::{Event, SECONDS, Scenario, WINDOW_SECONDS, all};
pub use simulation::run;
