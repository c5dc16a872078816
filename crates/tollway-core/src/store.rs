//! The contract between the engine and what keeps its state.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use smallvec::SmallVec;

use crate::decision::{ChargeStatus, Decision, Refusal};
use crate::{Operation, Settings, Span, StoreFigures};

/// What came of an operation.
#[derive(Clone, Debug, PartialEq)]
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
    /// Of `peek`: what every limit of each charge shows, in order.
    Peeked(SmallVec<[ChargeStatus; 1]>),
    /// Of `reset`.
    Reset,
    /// The caller asked for something that cannot be. Nothing has changed.
    Refused(Refusal),
}

/// What came of `begin`.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// Go ahead.
    Now,
    /// Its time has not come: wait this long.
    Early(Span),
    /// It came too late and has taken again.
    Again(Decision),
}

/// What came of a correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Every limit was put right.
    Whole,
    /// Some limits could no longer be put right: their units stay spent (`permits_lost`).
    Partly,
    /// This permit was settled or returned before; nothing has changed.
    Repeated,
    /// The line was reset since, or remembers as many refunds as it can; nothing has changed.
    Dropped,
}

/// Why a store did not answer: who is at fault, and whether to try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}: {message}")]
pub struct StoreError {
    /// Who is at fault.
    pub fault: Fault,
    /// Whether the same operations may be sent again.
    pub retry: Retry,
    /// What happened.
    pub message: String,
}

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operations were wrong.
    Caller,
    /// The store is there but cannot do it: for nobody, as far as it tells.
    Store,
    /// The store does well, but one of these lines cannot be used: what is kept of it is not understood, or too large.
    Account,
    /// The store is there and refuses because too much is asked of it.
    Throttled,
    /// The store could not be reached, or did not answer in time.
    Network,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Caller => "wrong operation",
            Self::Store => "store failed",
            Self::Account => "line unusable",
            Self::Throttled => "store throttled",
            Self::Network => "store out of reach",
        })
    }
}

/// Whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It was not applied: send it again.
    Safe,
    /// It may have been applied.
    Unclear,
    /// It would fail again.
    Useless,
}

/// One outcome per operation, in order.
pub type Outcomes = SmallVec<[Outcome; 1]>;

/// What a store answers with.
pub type StoreResult = Result<Outcomes, StoreError>;

/// A store's answer: at once, or later.
///
/// A store in process answers at once, and then nobody allocates or waits. It is a future either way.
pub enum Answer {
    /// At once. Taken out when polled.
    Now(Option<StoreResult>),
    /// Later. The future owns all it needs.
    Later(Pin<Box<dyn Future<Output = StoreResult> + Send>>),
}

impl Answer {
    /// An answer that is there.
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

/// Where lines live. Its one duty is to apply operations atomically.
///
/// # Duties
///
/// For each operation, in the order of the batch, a store
///
/// 1. takes hold of the line of every charge, so that nobody else sees or changes them meanwhile;
/// 2. calls [`apply`](crate::apply) with them and its time;
/// 3. keeps every line, if `apply` says that something changed, before it answers.
///
/// A line it has never seen is [`Account::new`](crate::Account::new). It may forget a line once its `expires` has passed and
/// **must not before**: a forgotten line is a quota granted twice. One operation is atomic; a batch is not, it only
/// saves round trips.
///
/// # Time
///
/// The store says what time it is, one reading for all who share it. It may go back; lines do not (I7).
///
/// # Denial
///
/// A denial is an outcome. An error means that the store did not decide, and says whether it may have been applied.
///
/// # Borrowing and cancellation
///
/// The batch is lent for the call only: a store that answers later copies what it needs. Dropping its answer must not
/// tear an operation apart; whether it was applied is then unknown to the caller, who gives back or retries by permit.
///
/// # A wrong store, and the right one
///
/// Wrong: read the line, let go of it, decide, write. Two takes read the same count and both are granted; this is how
/// most limiters on Redis are written. Right: hold the line from reading to writing, or write only if it is still the
/// one that was read, and decide again if not.
///
/// The conformance suite in `tollway-testkit` tells them apart. Run it on your store.
pub trait Store: Send + Sync + 'static {
    /// Applies the operations and answers with one outcome each.
    fn apply(&self, batch: &[Operation]) -> Answer;

    /// Where limits that are data are kept, if this store keeps them.
    fn settings(&self) -> Option<&dyn Settings> {
        None
    }

    /// What it tells of itself to those who watch it.
    fn figures(&self) -> StoreFigures {
        StoreFigures::default()
    }
}
