//! What a take passes, from the caller's words to a permit or a denial.
//!
//! [`builder`] collects subject, cost and further policies; [`bound_charges`] is what that asks of the store.
//! [`pending_take`] sends it and makes a permit or a denial of the decision. [`waiting`] waits, in the store's queue or in
//! [`queue`].

pub(crate) mod book;
pub(crate) mod bound_charges;
pub(crate) mod bound_policy;
pub(crate) mod builder;
pub(crate) mod debit;
pub(crate) mod denied;
pub(crate) mod granted;
pub(crate) mod pending;
pub(crate) mod pending_take;
pub(crate) mod preview;
pub(crate) mod queue;
pub(crate) mod subjects_max;
pub(crate) mod timer;
pub(crate) mod waiting;
