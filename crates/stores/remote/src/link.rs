//! The trait that a store across a network implements.

use std::future::Future;
use std::sync::Arc;

use tollway_core::{Operation, Outcomes, Part, StoreError};

use crate::Call;

/// Sends calls to the store's accounts.
///
/// # Contract
///
/// For each call, in one atomic step: if this writer's call of that sequence was applied before, return the same response
/// again and do nothing. Otherwise apply each operation as [`Store`](tollway_core::Store) requires, in order, with
/// one reading of the store's clock; if anything changed, keep the sequence and the response with it, until a later call shows
/// that the response was read. The writer id belongs
/// to the link: it is random and never reused.
///
/// Calls sent together are independent: different tags, one response each, in the same order. One may fail while others
/// succeed. Dropping the future must not leave a call half applied.
///
/// # Errors
///
/// [`Retry::Safe`](tollway_core::Retry::Safe) only if the call was certainly not applied and will not be;
/// [`Retry::Unclear`](tollway_core::Retry::Unclear) if it was or may still be applied. Both are resent.
/// [`Retry::Useless`](tollway_core::Retry::Useless) goes to the callers. A throttled call
/// ([`Fault::Throttled`](tollway_core::Fault::Throttled)) is resent [`THROTTLED_RETRIES_MAX`](crate::THROTTLED_RETRIES_MAX)
/// times, then the error goes to the callers.
/// If other clients keep an account busy, answer [`Fault::Account`](tollway_core::Fault::Account) with `Safe`: that is
/// contention, not a failure of the store.
pub trait Link: Send + Sync + 'static {
    /// How many calls one group holds: their responses come together, too.
    const CALLS_TOGETHER_MAX: usize = 256;

    /// How many groups are in flight to one part at once; operations that arrive meanwhile are combined.
    const GROUPS_OUT_MAX: usize = 4;

    /// The part of the store that keeps the accounts of this operation. Calls of a group go to one part, and a part that does not
    /// answer delays no calls to the others.
    fn part_of(&self, operation: &Operation) -> Part {
        let _ = operation;
        Part::WHOLE
    }

    /// Sends the calls and waits for the response to each.
    fn send(
        self: Arc<Self>,
        calls: Vec<Arc<Call>>,
    ) -> impl Future<Output = Vec<Result<Outcomes, StoreError>>> + Send + 'static;
}
