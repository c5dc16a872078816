//! A store of Tollway on DynamoDB: one item for each account, changed by conditional writes.
//!
//! # A take
//!
//! The engine runs here, on the last known state of an account, and the result is written on condition that the item still
//! has the version of that state: one write, and no read before it unless other processes have probably written since. A
//! failed write gets the state that won in the same reply, and decides again from it. Takes of one process on one subject go
//! together. A call on several accounts is one transaction with a condition for each. Processes that write one item at the
//! same time take turns. Why it is so is in
//! `docs/decisions/0020-on-dynamodb-a-process-writes-from-what-it-last-knew.md`.
//!
//! # What may be answered from a state that is only remembered
//!
//! A remembered state may be wrong at any time: another process took, returned, reset, or the item was deleted.
//!
//! | outcome | rule |
//! |---|---|
//! | anything that changes an account | the condition of its write proves the state |
//! //! | everything that changes nothing: denials, looks, previews, `begin` in time, slots that are lost, refusals, repeated ids | the state was read after the question came |
//!
//! A denial is repeated for at most a second without coming here; see `tollway-remote`. An id that was denied may have been
//! granted elsewhere meanwhile: that is why takes with ids are never repeated.
//!
//! # Counting once
//!
//! An item remembers the last write of each writer: its sequence and its attempt, not the answer, which would make items
//! large and writes dear. The answer stays in the calling process ([`DynamoLink`]) until it is certain whether the
//! write was applied. If the item has forgotten the writer meanwhile, the take counts as spent, and is never taken again.
//!
//! # Time
//!
//! The process's clock, never below the last time of an account, checked against the `Date` of every reply. If it is off by
//! more than two seconds nothing is decided here, and the policy's failure mode answers.

mod cache;
mod call_part;
mod connection;
mod contention;
mod counters;
mod create;
mod error;
mod item;
mod limiters;
mod link;
mod locks;
pub mod minute;
mod optimistic_write;
mod options;
mod settings;
mod store;
mod table;
mod unresolved_calls;
mod write_attempts;
mod writers;

pub use counters::Counters;
pub use link::DynamoLink;
pub use options::{DynamoOptions, DynamoUrlError};
pub use store::{DynamoStore, DynamoStoreError};
