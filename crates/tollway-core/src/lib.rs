//! Tollway's heart: limits, meters, and the one pure function that decides a take.
//!
//! This crate does no I/O, has no runtime, reads no clock, uses no floats and does not panic. Stores make [`decide`]
//! atomic; the `tollway` crate makes it pleasant to call.
//!
//! ```
//! use tollway_core::{Decision, Line, Party, PermitId, Policy, Span, Subject, Terms, Timestamp, decide};
//!
//! let policy = Policy::new("adobe", ["2 requests / minute"])?;
//! let party = Party { policy: &policy, subject: &Subject::SHARED, cost: policy.default_cost() };
//! let mut lines = [Line::new(&policy)];
//! let terms = |n| Terms { permit: PermitId(n), max_wait: Span::ZERO, call: None, readings: false };
//!
//! let now = Timestamp::from_secs(120 + 15);
//! assert!(matches!(decide(&[party], &mut lines, &terms(1), now)?, Decision::Granted(_)));
//! assert!(matches!(decide(&[party], &mut lines, &terms(2), now)?, Decision::Granted(_)));
//! let Decision::Denied(denial) = decide(&[party], &mut lines, &terms(3), now)? else { panic!("over the limit") };
//! assert_eq!(denial.retry_after(), Span::from_secs(45));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to look: [`Limit`] is a rule, [`Policy`] a list of them, [`Line`] their state for one subject, [`decide`] the
//! decision, [`apply`] everything else that can be done with a line, [`Store`] the contract of whatever keeps lines,
//! [`Invariant`] what must always hold, [`bounds`] how large anything may get.
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

mod algorithm;
mod apply;
pub mod bounds;
mod correct;
mod cost;
mod decide;
mod decision;
mod figures;
mod fingerprint;
mod invariant;
mod key;
mod limit;
mod line;
mod meters;
mod name;
mod nearest;
mod owned;
mod packed;
mod period;
mod policy;
mod setting;
mod share;
mod store;
mod store_url;
mod time;

pub use algorithm::{Bucket, Meter, Sliding, Slot, State, Window};
pub use apply::{Applied, apply};
pub use cost::{Cost, CostError, REQUESTS};
pub use decide::{decide, decide_now};
pub use decision::{DecideNow, Decision, Denial, DenyNow, Grant, GrantNow, Reading, Refusal};
pub use figures::{Histogram, LATENCY_BOUNDS_MS, Latencies, StoreFigures, TALLY_BOUNDS, Tallies, Tally};
pub use fingerprint::Fingerprint;
pub use invariant::{Invariant, Transition, Violation, never_over};
pub use key::{KEY_VERSION, KeyError, LineKey};
pub use limit::{
    Algorithm, AmountText, Calendar, Limit, LimitError, LimitTable, LimitTableError, LimitTextError,
    UnknownZone, Zone, read_span,
};
pub use line::{Extra, Line, Orphan, Refund, RememberedCall, Undo};
pub use meters::Meters;
pub use name::{CallId, Name, NameError, PermitId, Subject};
pub use nearest::nearest;
pub use owned::{OwnedOperation, OwnedParty, OwnedTerms, OwnedVerb};
pub use packed::{Packed, PackedMany};
pub use period::Period;
pub use policy::{Lease, Policy, PolicyError, PolicyKey, WhenStoreFails};
pub use setting::{Setting, SettingChange, SettingList, Settings, SettingsAnswer};
pub use share::{LocalShare, LocalShareError};
pub use store::{
    Answer, Begun, Booking, Fault, Operation, Outcome, Outcomes, Party, Retry, Settled, Store, StoreError,
    StoreResult, Terms, Verb,
};
pub use store_url::StoreUrlParts;
pub use time::{Clock, Span, Timestamp};
