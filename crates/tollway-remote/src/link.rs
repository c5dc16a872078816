//! What a store across a network implements.

use std::future::Future;
use std::sync::Arc;

use tollway_core::{Outcomes, StoreError};

use crate::Call;

/// Sends calls to the store's accounts.
///
/// # Duties
///
/// For each call, in one atomic step: if this writer's last sequence for the call's tag is the call's, answer what was
/// answered then, and do nothing. Else do what [`Store`](tollway_core::Store) asks for each operation, in order, with
/// one reading of the store's clock, and, if anything changed, keep the sequence and the answer with it. The writer is
/// the link's own: drawn at random when it is made, never used by another.
///
/// Calls sent together are independent of each other: different tags, one answer each, in the same order. One may fail
/// while others succeed. Dropping the future must not tear a call apart.
///
/// # Errors
///
/// [`Retry::Safe`](tollway_core::Retry::Safe) only if the call was certainly not applied and will not be;
/// [`Retry::Unclear`](tollway_core::Retry::Unclear) if it may have been, or still may be. Both are sent again.
/// [`Retry::Useless`](tollway_core::Retry::Useless) is returned to the callers. A call that was throttled
/// ([`Fault::Throttled`](tollway_core::Fault::Throttled)) is sent again [`THROTTLED_RETRIES_MAX`](crate::THROTTLED_RETRIES_MAX)
/// times, and then returned to them. If other clients keep an account busy, answer
/// [`Fault::Account`](tollway_core::Fault::Account) with `Safe`: that is contention, and no failure of the store.
pub trait Link: Send + Sync + 'static {
    /// How many calls go together: they are answered together, too.
    const CALLS_TOGETHER_MAX: usize = 256;

    /// How many such groups are out at the same time; what comes meanwhile is combined.
    const GROUPS_OUT_MAX: usize = 4;

    /// Sends the calls and waits for the answer of each.
    fn send(
        self: Arc<Self>,
        calls: Vec<Arc<Call>>,
    ) -> impl Future<Output = Vec<Result<Outcomes, StoreError>>> + Send + 'static;
}
