//! An operation: charges, and an action on their accounts.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{AccountKey, CallId, Cost, Feedback, Limit, PermitId, Policy, Span, Subject, Timestamp};

/// What an operation asks of one policy for one subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charge {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The subject it counts for.
    pub subject: Subject,
    /// What the call takes, or took. `None` is the policy's default cost, borrowed rather than copied.
    pub cost: Option<Cost>,
}

/// A charge of the fast path, which owns nothing. The subject need not be valid: the slow path refuses an invalid one.
#[derive(Clone, Copy, Debug)]
pub struct FastCharge<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The subject it counts for.
    pub subject: &'a str,
    /// What the call takes.
    pub cost: &'a Cost,
}

/// The charges of one operation. Nearly every operation has one, which is kept inline.
pub type Charges = SmallVec<[Charge; 1]>;

/// An action on the accounts of its charges, applied to all of them or to none.
///
/// The library, the server and the command build it and lend it to a store. A store that answers later clones it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// The accounts it acts on.
    pub charges: Charges,
    /// What to do with them.
    pub action: Action,
}

/// What an operation does with its accounts.
///
/// An action on a permit names the charges of its grant, without the shadows that would have denied it: those took
/// nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    /// Take the cost of every charge, or nothing.
    Take(Terms),
    /// Decide a take without changing anything.
    Preview(Terms),
    /// The call is about to start: check that the permit is still good, and take again if it is too late.
    Begin(Booking, Terms),
    /// The call is over: correct its cost to the actual one.
    Settle {
        /// The permit.
        booking: Booking,
        /// The actual costs, in the order of the charges.
        actual: SmallVec<[Cost; 1]>,
        /// Remember the permit, because the caller could settle twice.
        remember: bool,
    },
    /// The permit was not used: give all of it back.
    Return {
        /// The permit.
        booking: Booking,
        /// Remember the permit, because the caller could return it twice.
        remember: bool,
    },
    /// The call is over: free its slots.
    Done(PermitId),
    /// The call goes on: keep its slots.
    Renew(PermitId),
    /// Read the meters.
    Peek,
    /// Reset the accounts.
    Reset,
    /// A vendor's answers say something about one account.
    Feedback(Feedback),
}

/// The terms of a take.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The permit. The caller draws it, unique among all processes that share the store.
    pub permit: PermitId,
    /// The longest wait the caller accepts; policies cap it.
    pub max_wait: Span,
    /// The caller's id: a take repeated with it counts once.
    pub call: Option<CallId>,
    /// Whether the decision carries a reading of every limit.
    pub readings: bool,
    /// Whether a subject without an account gets one.
    #[serde(default, skip_serializing_if = "NewAccounts::is_default")]
    pub new_accounts: NewAccounts,
}

/// Whether a take makes an account for a subject that has none. Only a store that can run out of room, and has no bound of
/// its own, heeds it; see `tollway-redis`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewAccounts {
    /// It makes one.
    #[default]
    Make,
    /// It makes one, and the decision says how many were made.
    MakeAndCount,
    /// It makes none: the subject shares an account with others.
    Share,
}

impl NewAccounts {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The grant of a permit, in the store's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booking {
    /// The permit, as the caller named it; of a repeated call, the first one's.
    pub permit: PermitId,
    /// When it was granted; of a repeated call, the first time.
    pub granted_at: Timestamp,
    /// When the call may begin: at once, or at its place in the queue.
    pub at: Timestamp,
    /// Until when it may begin.
    pub good_until: Timestamp,
}

impl Charge {
    /// A charge of the policy's default cost.
    pub fn new(policy: Arc<Policy>, subject: Subject) -> Self {
        Self { policy, subject, cost: None }
    }

    /// The same charge with this cost.
    #[must_use]
    pub fn with_cost(self, cost: Cost) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// What it takes.
    #[inline]
    pub fn cost(&self) -> &Cost {
        self.cost.as_ref().unwrap_or(self.policy.default_cost())
    }

    /// The same for the fast path.
    #[inline]
    pub fn fast(&self) -> FastCharge<'_> {
        FastCharge { policy: &self.policy, subject: self.subject.as_str(), cost: self.cost() }
    }

    /// Each limit of the policy with the amount the charge takes from it.
    #[inline]
    pub fn amounts(&self) -> impl Iterator<Item = (&Limit, u64)> {
        self.policy.amounts(self.cost())
    }

    /// The key of its account.
    pub fn key(&self) -> AccountKey {
        AccountKey { policy: self.policy.name().clone(), subject: self.subject.clone() }
    }
}

impl Terms {
    /// A take that is decided now, without a caller's id and without readings.
    pub fn now(permit: PermitId) -> Self {
        let new_accounts = NewAccounts::default();
        Self { permit, max_wait: Span::ZERO, call: None, readings: false, new_accounts }
    }
}

impl Operation {
    /// An operation on one account.
    pub fn one(charge: Charge, action: Action) -> Self {
        Self { charges: Charges::from_buf([charge]), action }
    }

    /// The keys of its accounts.
    pub fn keys(&self) -> impl Iterator<Item = AccountKey> {
        self.charges.iter().map(Charge::key)
    }

    /// The most accounts it could create.
    pub fn creates_max(&self) -> usize {
        match self.action {
            Action::Preview(_) | Action::Peek | Action::Done(_) | Action::Renew(_) => 0,
            Action::Take(_)
            | Action::Begin(..)
            | Action::Settle { .. }
            | Action::Return { .. }
            | Action::Reset
            | Action::Feedback(_) => self.charges.len(),
        }
    }
}

/// For the message of a failed test.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Take(terms) => {
                write!(f, "take {} max_wait {} call {:?}", terms.permit.0, terms.max_wait, terms.call)?;
            }
            Action::Begin(booking, terms) => write!(f, "begin {booking:?} as {}", terms.permit.0)?,
            Action::Settle { booking, actual, remember } => {
                let actual: Vec<&[u64]> = actual.iter().map(Cost::amounts).collect();
                write!(f, "settle {booking:?} to {actual:?} remember {remember}")?;
            }
            action => write!(f, "{action:?}")?,
        }
        for charge in &self.charges {
            let Charge { policy, subject, .. } = charge;
            let limits: Vec<String> = policy.limits().iter().map(ToString::to_string).collect();
            let shadow = if policy.shadow() { " shadow" } else { "" };
            let (name, edge, amounts) = (policy.name(), policy.edge(), charge.cost().amounts());
            write!(f, "\n    {name}{shadow} {limits:?} edge {edge} for {:?}: {amounts:?}", subject.as_str())?;
        }
        Ok(())
    }
}
