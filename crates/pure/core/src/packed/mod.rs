//! An account packed into 32 bytes: one window or bucket, an empty queue, nothing remembered.
//!
//! Nearly every account is like that, so a store can keep millions of them.

mod many;
mod meter;

use std::num::NonZeroU32;

pub use many::{PackedMany, PackedSix, PackedSixteen};
use meter::{MeterDebit, PackedMeter};

use crate::algorithm::Meter;
use crate::decision::{FastDecision, Reading};
use crate::{Account, Cost, Policy, Timestamp};

/// A packed account of one window or bucket and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    seen: Timestamp,
    meter: PackedMeter,
    /// The [`Limit::identity`](crate::Limit::identity) of the meter's limit.
    identity: NonZeroU32,
    expires: Expiry,
}

impl Packed {
    /// Packs the account, if it fits.
    pub fn pack(account: &Account) -> Option<Self> {
        let ([Meter { identity, state }], None) = (&*account.meters, &account.extra) else { return None };
        Some(Self {
            seen: account.seen,
            meter: PackedMeter::pack(state)?,
            identity: NonZeroU32::new(*identity)?,
            expires: Expiry::new(account.expires)?,
        })
    }

    /// Unpacks the account. It may expire up to a second later than it did.
    pub fn unpack(self) -> Account {
        let meters =
            [Meter { identity: self.identity.get(), state: self.meter.unpack() }].into_iter().collect();
        Account { seen: self.seen, expires: self.expires(), meters, extra: None }
    }

    /// The newest clock reading that a change has recorded.
    pub fn seen(self) -> Timestamp {
        self.seen
    }

    /// When the account may be deleted.
    pub fn expires(self) -> Timestamp {
        self.expires.time()
    }

    /// The reading of its meter, if the policy's only limit owns it.
    #[inline]
    pub fn reading(self, policy: &Policy, now: Timestamp) -> Option<Reading> {
        let [limit] = policy.limits() else { return None };
        let meter = Meter { identity: self.identity.get(), state: self.meter.unpack() };
        (limit.identity() == meter.identity).then(|| limit.read(&meter, self.seen, now.max(self.seen)))
    }

    /// The same as [`decide_fast`](crate::decide_fast), in place.
    #[inline(always)]
    pub fn decide_fast(&mut self, policy: &Policy, cost: &Cost, now: Timestamp) -> Option<FastDecision> {
        let (limit, amount) = policy.only_amount(cost)?;
        let possible = amount > 0 && amount <= limit.capacity() && limit.identity() == self.identity.get();
        if !possible || policy.shadow() {
            return None;
        }
        let now = now.max(self.seen);
        let debit = MeterDebit { amount, elapsed: now.since(self.seen), now, edge: policy.edge() };
        Some(match self.meter.take(limit, debit)? {
            Ok(debited) => {
                self.meter = debited.meter;
                self.seen = now;
                self.expires = Expiry::at_most(now.plus(debited.fresh_in));
                FastDecision::Granted { now, good_until: debited.good_until }
            }
            Err(retry_at) => {
                self.expires.not_before(self.meter.refilled_at(limit, self.seen));
                FastDecision::Denied { now, retry_at, limit: 0 }
            }
        })
    }
}

/// An account's expiry in whole seconds, rounded up: most windows end on a whole second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expiry(u32);

impl Expiry {
    /// `None` after the year 2106: such an account is not packed.
    #[inline]
    fn new(expires: Timestamp) -> Option<Self> {
        u32::try_from(expires.as_micros().saturating_add(999_999) / 1_000_000).ok().map(Self)
    }

    #[inline]
    fn at_most(expires: Timestamp) -> Self {
        Self::new(expires).unwrap_or(Self(u32::MAX))
    }

    /// Moves the expiry later: a rate lowered since the last change refills later.
    #[inline]
    fn not_before(&mut self, expires: Timestamp) {
        self.0 = self.0.max(Self::at_most(expires).0);
    }

    fn time(self) -> Timestamp {
        Timestamp::from_secs(self.0.into())
    }
}
