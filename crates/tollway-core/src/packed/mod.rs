//! A line in 32 bytes: one window or bucket, nobody in line, nothing remembered. That is nearly every line there is, and
//! a store that keeps millions of them keeps them like this.

mod many;
mod meter;

use std::num::NonZeroU32;

pub use many::PackedMany;
use meter::{Charge, PackedMeter};

use crate::algorithm::Meter;
use crate::decision::{FastDecision, Reading};
use crate::{Account, Cost, Policy, Timestamp};

/// A line of one window or bucket and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    seen: Timestamp,
    meter: PackedMeter,
    /// Whose meter it is: [`Limit::identity`](crate::Limit::identity).
    identity: NonZeroU32,
    expires: Expiry,
}

impl Packed {
    /// The line in 32 bytes, if it fits.
    pub fn pack(line: &Account) -> Option<Self> {
        let ([Meter { identity, state }], None) = (&*line.meters, &line.extra) else { return None };
        Some(Self {
            seen: line.seen,
            meter: PackedMeter::pack(state)?,
            identity: NonZeroU32::new(*identity)?,
            expires: Expiry::new(line.expires)?,
        })
    }

    /// The line again. It may live a second longer than it did.
    pub fn unpack(self) -> Account {
        let meters =
            [Meter { identity: self.identity.get(), state: self.meter.unpack() }].into_iter().collect();
        Account { seen: self.seen, expires: self.expires(), meters, extra: None }
    }

    /// When the line may be forgotten.
    pub fn expires(self) -> Timestamp {
        self.expires.time()
    }

    /// What its meter shows, if it is that of the policy's only limit.
    #[inline]
    pub fn reading(self, policy: &Policy, now: Timestamp) -> Option<Reading> {
        let [limit] = policy.limits() else { return None };
        let meter = Meter { identity: self.identity.get(), state: self.meter.unpack() };
        (limit.identity() == meter.identity).then(|| limit.read(&meter, self.seen, now.max(self.seen)))
    }

    /// What [`decide_fast`](crate::decide_fast) does, where the line lies.
    #[inline(always)]
    pub fn decide_fast(&mut self, policy: &Policy, cost: &Cost, now: Timestamp) -> Option<FastDecision> {
        let (limit, amount) = policy.only_charge(cost)?;
        let possible = amount > 0 && amount <= limit.capacity() && limit.identity() == self.identity.get();
        if !possible || policy.shadow() {
            return None;
        }
        let now = now.max(self.seen);
        let charge = Charge { amount, elapsed: now.since(self.seen), now, edge: policy.edge() };
        Some(match self.meter.take(limit, charge)? {
            Ok(debited) => {
                self.seen = now;
                self.expires = Expiry::at_most(now.plus(debited.new_in));
                FastDecision::Granted { now, good_until: debited.good_until }
            }
            Err(retry_at) => {
                self.expires.not_before(self.meter.refilled_at(limit, self.seen));
                FastDecision::Denied { now, retry_at, limit: 0 }
            }
        })
    }
}

/// A line's expiry in whole seconds, rounded up: windows end with a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expiry(u32);

impl Expiry {
    /// Nothing after the year 2106: such a line is not packed.
    #[inline]
    fn new(expires: Timestamp) -> Option<Self> {
        u32::try_from(expires.as_micros().saturating_add(999_999) / 1_000_000).ok().map(Self)
    }

    #[inline]
    fn at_most(expires: Timestamp) -> Self {
        Self::new(expires).unwrap_or(Self(u32::MAX))
    }

    /// A rate that was lowered since the last change refills later than was thought then (I6).
    #[inline]
    fn not_before(&mut self, expires: Timestamp) {
        self.0 = self.0.max(Self::at_most(expires).0);
    }

    fn time(self) -> Timestamp {
        Timestamp::from_secs(self.0.into())
    }
}
