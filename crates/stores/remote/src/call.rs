//! A call: operations of one tag that are applied and answered together.

use std::sync::Arc;

use tollway_core::{AccountKey, Operation};

/// The key that separates calls: at most one call per tag is in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(AccountKey);

impl Tag {
    /// The tag of an operation: its first account in key order. `None` without a charge, which is refused.
    pub fn of(operation: &Operation) -> Option<Self> {
        operation.keys().min().map(Self)
    }

    /// The account of the tag.
    pub fn account(&self) -> &AccountKey {
        &self.0
    }
}

/// Operations of one tag, to be applied in order, in one atomic step, once.
#[derive(Clone, Debug)]
pub struct Call {
    /// The tag of all its operations.
    pub tag: Tag,
    /// Its number among all calls of this writer, larger than that of every earlier call of the tag.
    pub sequence: u64,
    /// Whether it was sent before, so that it may already be applied.
    pub again: bool,
    /// The operations in order; at least one, at most [`OPERATIONS_PER_CALL_MAX`](crate::OPERATIONS_PER_CALL_MAX).
    ///
    /// Shared, so that a resend does not clone them.
    pub operations: Arc<[Operation]>,
}
