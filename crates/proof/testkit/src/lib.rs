//! Tests for stores: a model, a conformance suite and a history checker.
//!
//! To test your store, wrap it in a [`Rig`] and run [`conformance::run`] on it:
//!
//! ```
//! use tollway_testkit::{ManualRig, PlainStore, conformance};
//!
//! let rig = ManualRig::new(PlainStore::new);
//! let effort = conformance::Effort { sequences: 10, rounds: 1, ..conformance::Effort::default() };
//! let report = conformance::run_with(&rig, effort).expect("the plain store is right");
//! assert!(report.scenarios > 50);
//! ```
//!
//! Where to look: [`Model`] is the reference, [`conformance`] the suite, [`history`] checks what threads observed.
//! [`PlainStore`] is the simplest correct store, [`planted`] has wrong stores that the suite must catch.
// A kit for tests fails by panicking, with a message for the reader.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod account_list;
mod calendar;
mod clock;
pub mod conformance;
#[cfg(unix)]
pub mod faults;
pub mod golden;
pub mod history;
#[cfg(unix)]
mod http;
mod keep_callsites_enabled;
mod machine_clock;
mod model;
mod plain;
pub mod planted;
mod rig;
#[cfg(unix)]
pub mod servers;
pub mod settings;
pub mod takes;
mod wait;

pub use clock::ManualClock;
pub use keep_callsites_enabled::keep_callsites_enabled;
pub use machine_clock::{MachineClock, SteppedClock};
pub use model::Model;
pub use plain::PlainStore;
pub use rig::{ManualRig, Rig};
pub use tollway_vendor::Random;
pub use wait::wait_for;
