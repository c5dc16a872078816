//! The engine of Tollway: limits, meters, and the pure function [`decide`] that decides a take.
//!
//! This crate does no I/O, has no runtime, reads no clock, uses no floats and does not panic. Stores make [`decide`]
//! atomic; the `tollway` crate is the API for applications.
//!
//! ```
//! use std::sync::Arc;
//! use tollway_core::{Charge, Account, PermitId, Policy, Span, Subject, Terms, Timestamp, decide};
//!
//! let policy = Arc::new(Policy::new("adobe", ["2 requests / minute"])?);
//! let mut accounts = [Account::new(&policy)];
//! let charges = [Charge::new(policy, Subject::SHARED)];
//! let mut take = |n, now| decide(&charges, &mut accounts, &Terms::now(PermitId(n)), now);
//!
//! let now = Timestamp::from_secs(120 + 15);
//! assert!(take(1, now)?.is_granted());
//! assert!(take(2, now)?.is_granted());
//! let third = take(3, now)?;
//! assert!(!third.is_granted());
//! assert_eq!(third.wait(), Span::from_secs(45));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to look: [`Limit`] is a rule, [`Policy`] a list of rules, [`Account`] their state for one subject. [`decide`]
//! decides a take, [`apply`] applies any [`Operation`], [`Store`] is the contract of a store. [`Invariant`] lists what must
//! always hold, [`bounds`] the size of everything. [`controller`] finds limits that are not known.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod account;
mod account_list;
mod algorithm;
mod apply;
pub mod bounds;
pub mod controller;
mod correct;
mod cost;
mod debug_as_display;
mod decide;
mod decision;
mod feedback;
mod figures;
mod fingerprint;
pub mod humanize;
mod invariant;
mod invisible;
mod key;
mod limit;
mod meters;
mod name;
mod nearest;
mod operation;
mod packed;
mod part;
mod period;
mod policy;
mod policy_fields;
mod setting;
mod share;
mod store;
mod store_url;
mod time;
mod uptime;

pub use account::{Account, Extra, Orphan, Refund, RememberedCall, RememberedGrant, Undo};
pub use account_list::{AccountList, AccountListAnswer};
pub use algorithm::{Adaptive, Bucket, Meter, Sliding, Slot, State, Window};
pub use apply::{Applied, apply};
pub use cost::{Cost, CostError, REQUESTS};
pub use decide::{decide, decide_fast};
pub use decision::{ChargeStatus, Decision, Denial, FastDecision, Reading, Refusal, TakeOutcome};
pub use feedback::{Cap, Feedback, Learned, LearnedRate, LimitLeft, RateChange};
pub use figures::{Histogram, LATENCY_BOUNDS_MS, Latencies, StoreFigures, TALLY_BOUNDS, Tallies, Tally};
pub use fingerprint::Fingerprint;
pub use invariant::{Invariant, Transition, Violation, never_over};
pub use invisible::is_invisible;
pub use key::{AccountKey, KEY_VERSION, KeyError};
pub use limit::{
    Algorithm, AmountText, Calendar, Limit, LimitError, LimitTable, LimitTableError, LimitTextError,
    UnknownZone, Zone, read_span,
};
pub use meters::Meters;
pub use name::{CallId, Name, NameError, PermitId, Subject};
pub use nearest::nearest;
pub use operation::{Action, Booking, Charge, Charges, NewAccounts, Operation, Terms};
pub use packed::{Packed, PackedMany};
pub use part::Part;
pub use period::Period;
pub use policy::{Lease, Policy, PolicyError, PolicyKey, WhenStoreFails};
pub use setting::{FollowedSettings, Setting, SettingChange, SettingList, Settings, SettingsAnswer};
pub use share::{LocalShare, LocalShareError};
pub use store::{Answer, Begun, Fault, Outcome, Outcomes, Retry, Settled, Store, StoreError, StoreResult};
pub use store_url::StoreUrlParts;
pub use time::{Clock, Span, Timestamp};
pub use uptime::{BootId, BootIdError, TimeAnchor, Uptime};
