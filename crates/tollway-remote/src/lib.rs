//! The common part of stores across a network: operations of concurrent callers are combined into calls, every caller is
//! answered within a deadline, and a call whose answer was lost is resent and counts once.
//!
//! A store implements [`Link`], which sends calls; [`Remote`] makes a [`Store`](tollway_core::Store) of it. Limits set at
//! run time are kept in a [`SettingsTable`], used through a [`SettingsClient`].
//!
//! # Tags
//!
//! Every operation has a tag: its first account in key order. At most one call per tag is in flight; operations that
//! arrive meanwhile wait and go with the next call. So a hot subject costs one round trip for many takes, and the
//! last call of this writer for a tag is the only one whose outcome can be unclear.
//!
//! # Counting once
//!
//! A call carries the writer (this process) and a sequence. The store keeps the last sequence of each writer
//! and tag, with its answer, for [`ANSWER_KEPT`], in the same atomic step. A call that is sent again with a sequence
//! that was applied is answered as the first time. No call is sent again later than [`RETRY_FOR`] after it was first
//! sent, so its answer is still there if it was applied.
//!
//! # Deadlines
//!
//! A caller is answered within [`Options::deadline`], whatever the store does. If this process was stopped meanwhile, its
//! callers get the whole deadline again. A timeout is reported as [`Fault::Network`](tollway_core::Fault::Network), or as
//! [`Fault::Account`](tollway_core::Fault::Account) if the store says that other clients keep the account busy.
//!
//! An operation that was not sent by then never is. One that was sent, and whose outcome is unclear, is seen through in
//! the background; if it turns out to be a granted take that its caller was never told of, the permit is given back.

mod alarm;
mod backoff;
mod call;
mod driver;
mod lane;
mod link;
mod lost;
mod settings;
mod store;

pub use call::{Call, Tag};
pub use link::Link;
pub use settings::{SettingsClient, SettingsTable};
pub use store::{Options, Remote};

use std::time::Duration;

/// How long a store keeps the answer to a call.
pub const ANSWER_KEPT: Duration = Duration::from_secs(60);

/// How long after it was first sent a call may be sent again.
pub const RETRY_FOR: Duration = Duration::from_secs(30);

/// How often a throttled call is retried.
pub const THROTTLED_RETRIES_MAX: u32 = 5;

/// The most operations of one call: they are applied in one atomic step, which holds up others.
pub const OPERATIONS_PER_CALL_MAX: usize = 64;

/// How many operations may wait for the driver. One more is an error, never a block.
pub const QUEUE_MAX: usize = 8_192;
