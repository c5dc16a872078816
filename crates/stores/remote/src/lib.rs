//! The common part of stores across a network: it combines operations of concurrent callers into calls, answers every caller
//! within a deadline, and resends a call whose response was lost, which counts once.
//!
//! A store implements [`Link`], which sends calls; [`Remote`] turns it into a [`Store`](tollway_core::Store). A
//! [`SettingsTable`] keeps the limits set at run time, used through a [`SettingsClient`].
//!
//! # Tags
//!
//! Every operation has a tag: its first account in key order. At most one call per tag is in flight; operations that
//! arrive meanwhile wait and go with the next call. So a hot subject costs one round trip for many takes, and the
//! last call of this writer for a tag is the only one whose outcome can be unclear.
//!
//! # Parts
//!
//! A store may have parts that fail one by one ([`Link::part_of`]). Each has its own calls in flight.
//!
//! # Counting once
//!
//! A call carries the writer (this process) and a sequence. In the same atomic step the store keeps the last sequence of
//! each writer and tag, with its response, for [`ANSWER_KEPT`]. A resent call with an applied sequence gets the first
//! response again. No call is resent later than [`RETRY_FOR`] after it was first sent, so the response of an applied call is
//! still there; but for takes that are only resent to be returned ([`UNDO_FOR`]).
//!
//! # Deadlines
//!
//! A caller is answered within [`Options::deadline`], whatever the store does. If this process was stopped meanwhile, its
//! callers get the whole deadline again. A timeout is reported as [`Fault::Network`](tollway_core::Fault::Network), or as
//! [`Fault::Account`](tollway_core::Fault::Account) if the store says that other clients keep the account busy.
//!
//! A take or read not sent by then is dropped; other operations are still sent. A call with an unclear outcome is resolved
//! in the background; if it proves to be a granted take whose caller is gone, the permit is returned.
//!
//! # Denials
//!
//! A take that is decided now, of one account and without an id, is answered from the last denial of that account, while
//! nothing is given back here and for at most [`Options::denials`]. Takes of an exhausted account cost a call in that time.

mod alarm;
mod backoff;
mod call;
mod denials;
mod driver;
mod lane;
mod link;
mod lost;
mod part_queue;
mod settings;
mod store;

pub use call::{Call, Tag};
pub use denials::DENIALS_MAX;
pub use link::Link;
pub use settings::{SettingsClient, SettingsTable};
pub use store::{Options, Remote};

use std::time::Duration;

/// How long a store keeps the response to a call.
pub const ANSWER_KEPT: Duration = Duration::from_secs(60);

/// How long after the first send a call may be resent.
pub const RETRY_FOR: Duration = Duration::from_secs(30);

/// How long a take that may have been applied is resent when no caller waits for it: its grant is returned. A store that was
/// frozen for longer than [`RETRY_FOR`] may apply it in the end. After that time it is resent only once the store has answered
/// another call: the store may have forgotten its answer, and then what is granted a second time is returned.
pub const UNDO_FOR: Duration = Duration::from_secs(600);

/// How often a throttled call is retried.
pub const THROTTLED_RETRIES_MAX: u32 = 5;

/// The most operations per call: they run in one atomic step, which delays others.
pub const OPERATIONS_PER_CALL_MAX: usize = 64;

/// How many operations may be queued for the driver. One more is an error; callers never block.
pub const QUEUE_MAX: usize = 8_192;
