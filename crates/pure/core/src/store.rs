//! The contract between the engine and a store of accounts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::decision::{ChargeStatus, Decision, Refusal};
use crate::{
    AccountListAnswer, Charge, Clock, Learned, Name, Operation, Part, Settings, Span, StoreFigures, Subject,
};

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// Of `take` and `preview`.
    Decided(Decision),
    /// Of `begin`.
    Begun(Begun),
    /// Of `settle` and `return`.
    Settled(Settled),
    /// Of `done`: whether a slot was still held.
    Done(bool),
    /// Of `renew`: whether every slot was still held.
    Renewed(bool),
    /// Of `peek`: the readings of each charge, in order.
    Peeked(SmallVec<[ChargeStatus; 1]>),
    /// Of `reset`.
    Reset,
    /// Of `feedback`.
    Learned(Learned),
    /// A caller error. Nothing has changed.
    Refused(Refusal),
}

/// The outcome of `begin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Begun {
    /// Go ahead.
    Now,
    /// Too early: wait this long.
    Early(Span),
    /// It came too late and has taken again.
    Again(Decision),
}

/// The outcome of `settle` and `return`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settled {
    /// Every limit was corrected.
    Whole,
    /// Some limits could no longer be corrected: their units stay spent (`permits_lost`).
    Partly,
    /// This permit was settled or returned before; nothing has changed.
    Repeated,
    /// The account was reset since, or remembers the maximum number of refunds; nothing has changed.
    Dropped,
}

/// Why a store did not answer, and whether to retry.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{fault}: {message}")]
pub struct StoreError {
    /// The cause.
    pub fault: Fault,
    /// Whether the same operations may be retried.
    pub retry: Retry,
    /// What happened.
    pub message: String,
}

crate::debug_as_display!(StoreError);

/// The cause of a store error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The operations were wrong.
    Caller,
    /// The store answers with an error that affects every operation.
    Store,
    /// The store works, but one of these accounts cannot be used: its stored bytes are unreadable or too large, or other
    /// clients keep it busy, and then a retry is safe.
    Account,
    /// The store works and reads, but cannot write now: it has no room, or cannot save.
    Full,
    /// The store rejects the operations because it is overloaded.
    Throttled,
    /// The store could not be reached, or did not answer in time.
    Network,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Caller => "wrong operation",
            Self::Store => "store failed",
            Self::Account => "account unusable",
            Self::Full => "store full",
            Self::Throttled => "store throttled",
            Self::Network => "store unreachable",
        })
    }
}

/// Whether to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retry {
    /// It was not applied: a retry is safe.
    Safe,
    /// It may have been applied.
    Unclear,
    /// A retry would fail again.
    Useless,
}

/// One outcome per operation, in order.
pub type Outcomes = SmallVec<[Outcome; 1]>;

/// What a store answers with.
pub type StoreResult = Result<Outcomes, StoreError>;

/// A store's answer: at once, or later. It is a future either way.
///
/// An in-process store answers at once, without an allocation or a wait.
pub enum Answer {
    /// At once. Taken out when polled.
    Now(Option<StoreResult>),
    /// Later. The future owns all it needs.
    Later(Pin<Box<dyn Future<Output = StoreResult> + Send>>),
}

impl Answer {
    /// An answer at once.
    pub fn now(result: StoreResult) -> Self {
        Self::Now(Some(result))
    }
}

impl Future for Answer {
    type Output = StoreResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<StoreResult> {
        match &mut *self {
            Self::Now(result) => Poll::Ready(result.take().unwrap_or_else(|| {
                let message = "the answer was taken before".to_owned();
                Err(StoreError { fault: Fault::Caller, retry: Retry::Useless, message })
            })),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// Keeps accounts and applies operations to them atomically.
///
/// # Duties
///
/// For each operation, in the order of the batch, a store
///
/// 1. locks the account of every charge, so that no other operation reads or changes them meanwhile;
/// 2. calls [`apply`](crate::apply) with them and its time;
/// 3. writes every account before it answers, if `apply` says that something changed.
///
/// An account it does not have is [`Account::new`](crate::Account::new). It may delete an account once its `expires` has
/// passed and **must not before**: deleting it early grants the quota twice. One operation is atomic; a batch is not, it
/// only saves round trips.
///
/// # Time
///
/// The store reads the clock, so that all processes share one. The clock may go back; accounts do not (I7).
///
/// # Denial
///
/// A denial is an outcome. An error means that the store did not decide; [`Retry`] says whether it may have been applied.
///
/// # Borrowing and cancellation
///
/// The batch is lent for the call only: a store that answers later copies what it needs. Dropping the answer must not
/// apply half an operation. The caller then does not know whether it was applied, and returns or retries the permit.
///
/// # A wrong store, and a right one
///
/// Wrong: read the account, unlock it, decide, write. Two takes read the same count and both are granted; many limiters
/// on Redis do this. Right: lock the account from read to write; or write only if it has not changed since the read, and
/// decide again if it has.
///
/// Run the conformance suite of `tollway-testkit` on your store: it fails the wrong one.
pub trait Store: Send + Sync + 'static {
    /// Applies the operations and answers with one outcome each.
    fn apply(&self, batch: &[Operation]) -> Answer;

    /// The settings of limits, if this store keeps them.
    fn settings(&self) -> Option<&dyn Settings> {
        None
    }

    /// Lists at most this many accounts, of one policy or of all. `None` if this store cannot list them at a bounded cost.
    fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Option<AccountListAnswer> {
        let _ = (policy, at_most);
        None
    }

    /// The store's clock, if it is a clock of this machine that may differ from its date. It jumps when the date is set
    /// forward, and never goes back. Permits and leases expire by it; callers wait by a clock that starts with it and goes on
    /// evenly.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// Whether takes may choose what happens to subjects without an account ([`NewAccounts`](crate::NewAccounts)).
    fn heeds_new_accounts(&self) -> bool {
        false
    }

    /// The part that keeps the account of this charge, as far as that is known: while another part is away, this one is used. All
    /// accounts of one operation are on one part. An account may move to another part at any time.
    fn part_of(&self, charge: &Charge) -> Part {
        let _ = charge;
        Part::WHOLE
    }

    /// A subject whose accounts this part keeps, so that it can be asked whether it works. `None`: it keeps none any more.
    fn subject_on(&self, part: &Part) -> Option<Subject> {
        (*part == Part::WHOLE).then_some(Subject::SHARED)
    }

    /// The store's own metrics.
    fn figures(&self) -> StoreFigures {
        StoreFigures::default()
    }
}
