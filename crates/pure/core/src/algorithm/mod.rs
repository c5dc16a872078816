//! The algorithms, one file each, and the functions that [`decide`](crate::decide) calls on all of them.
//!
//! A file has a state and an implementation of [`AlgorithmRules`], which is all that differs; `rules.rs` has the one match
//! that finds it. `state.rs` has the rule for a meter whose kind is not that of its limit.

mod adaptive;
mod bucket;
mod concurrency;
mod from_first_call;
#[cfg(test)]
mod new_algorithm;
mod refill;
mod rules;
mod sliding;
mod state;
mod window;

pub use adaptive::Adaptive;
pub use bucket::Bucket;
pub use concurrency::Slot;
pub use sliding::Sliding;
pub use state::{Meter, State};
pub use window::Window;

pub(crate) use adaptive::{AdaptiveRules, start_rate};
pub(crate) use bucket::{BucketRules, Rate};
pub(crate) use concurrency::SlotRules;
pub(crate) use from_first_call::FromFirstCallRules;
pub(crate) use refill::Refill;
pub(crate) use rules::{AlgorithmRules, check_amount, with_rules};
pub(crate) use sliding::SlidingRules;
use state::{NO_ROOM, NOT_DEBITED, StateKind};
pub(crate) use window::{Room, WindowRules};

use crate::{Limit, PermitId, Span, Timestamp};

/// A correction of a permit's debit of one meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction {
    pub(crate) booked_at: Timestamp,
    pub(crate) reserved: u64,
    pub(crate) actual: u64,
}

/// The time a meter is as of, the time it advances to, and the edge of its windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advance {
    pub(crate) as_of: Timestamp,
    pub(crate) at: Timestamp,
    pub(crate) edge: Span,
}

/// The result of a debit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debited {
    /// Until when the permit may begin: its window's end less the edge, its slot's end.
    pub(crate) good_until: Timestamp,
    /// When the meter equals a fresh one.
    pub(crate) expires: Timestamp,
    /// Whether the meter stays within its limit (I1).
    pub(crate) holds: bool,
}

impl Limit {
    /// A fresh meter: nothing taken.
    pub(crate) fn fresh_meter(&self) -> Meter {
        let state = with_rules!(self.algorithm(), rules => rules.fresh());
        Meter { identity: self.identity(), state }
    }

    /// Whether a meter has this limit's identity and kind.
    #[inline]
    pub(crate) fn owns(&self, meter: &Meter) -> bool {
        let kind = with_rules!(self.algorithm(), rules => rules.of(&meter.state).is_some());
        kind && meter.identity == self.identity()
    }

    /// Advances a meter from `as_of` to `to`: windows end, buckets refill, slots expire.
    pub(crate) fn advance(&self, meter: &mut Meter, as_of: Timestamp, to: Timestamp) {
        with_rules!(self.algorithm(), rules => {
            if let Some(state) = rules.of_mut(&mut meter.state) {
                rules.advance(self, state, as_of, to);
            }
        });
    }

    /// The earliest time from `from` on at which `amount` fits, without a take before. The meter is as of `as_of`.
    #[inline]
    pub(crate) fn earliest(
        &self,
        meter: &Meter,
        amount: u64,
        as_of: Timestamp,
        from: Timestamp,
        edge: Span,
    ) -> Timestamp {
        let room = Room { capacity: self.capacity(), amount, edge };
        with_rules!(self.algorithm(), rules => {
            rules.of(&meter.state).map_or(NO_ROOM, |state| rules.earliest(self, state, room, as_of, from))
        })
    }

    /// Brings a meter from `as_of` to `at` and takes `amount` from it there. One match for all of it: this is the
    /// inner loop of every grant.
    #[inline]
    pub(crate) fn debit(&self, meter: &mut Meter, amount: u64, span: Advance, permit: PermitId) -> Debited {
        let room = Room { capacity: self.capacity(), amount, edge: span.edge };
        with_rules!(self.algorithm(), rules => {
            rules.of_mut(&mut meter.state).map_or(NOT_DEBITED, |state| rules.debit(self, state, room, span, permit))
        })
    }

    /// The most by which a settle may exceed what was reserved: one burst of a bucket, else anything.
    pub(crate) fn overrun_max(&self) -> u64 {
        if self.refills() { self.capacity() } else { u64::MAX }
    }

    /// Corrects a permit's debit of a meter that is as of `as_of`. Returns whether it still could.
    pub(crate) fn settle(&self, meter: &mut Meter, correction: Correction, as_of: Timestamp) -> bool {
        with_rules!(self.algorithm(), rules => {
            // A slot has no amount to correct: it is freed.
            rules.of_mut(&mut meter.state).map_or(self.has_slots(), |state| rules.settle(self, state, correction, as_of))
        })
    }

    /// Whether `permit` holds a slot in this meter.
    pub(crate) fn holds_slot(&self, meter: &Meter, permit: PermitId, at: Timestamp) -> bool {
        self.has_slots()
            && Vec::<Slot>::of(&meter.state).is_some_and(|slots| concurrency::holds(slots, permit, at))
    }

    /// Frees the slot of `permit`, expired or not, if the meter has slots.
    pub(crate) fn free(&self, meter: &mut Meter, permit: PermitId) {
        if self.has_slots()
            && let Some(slots) = Vec::<Slot>::of_mut(&mut meter.state)
        {
            concurrency::free(slots, permit);
        }
    }

    /// Whether a permit booked at `booked_at` may still begin at `now`: its window runs, less the edge; its slot is held.
    pub(crate) fn still_good(
        &self,
        meter: &Meter,
        permit: PermitId,
        booked_at: Timestamp,
        now: Timestamp,
        edge: Span,
    ) -> bool {
        with_rules!(self.algorithm(), rules => {
            rules.of(&meter.state).is_some_and(|state| rules.still_good(state, permit, booked_at, now, edge))
        })
    }

    /// Extends the slot of `permit`, if the meter has slots.
    pub(crate) fn renew(&self, meter: &mut Meter, permit: PermitId, at: Timestamp) {
        if let (Some(expires), Some(slots)) = (self.slots_expire(), Vec::<Slot>::of_mut(&mut meter.state)) {
            concurrency::renew(slots, permit, at, expires);
        }
    }

    /// The most this meter could grant at once: [`Limit::capacity`], or the burst that was learned.
    #[inline]
    pub(crate) fn capacity_of(&self, meter: &Meter) -> u64 {
        meter.state.adaptive().map_or(self.capacity(), |adaptive| adaptive.burst)
    }

    /// The usage at `at`, rounded up; the meter is as of `as_of`.
    pub(crate) fn used(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> u64 {
        with_rules!(self.algorithm(), rules => {
            rules.of(&meter.state).map_or(self.capacity(), |state| rules.used(self, state, as_of, at))
        })
    }

    /// Calls granted so far under an adaptive limit, as shown at `at`.
    #[inline]
    pub(crate) fn grants(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> u64 {
        let Some(adaptive) = meter.state.adaptive() else { return 0 };
        let forgotten = adaptive.version == 0 && self.used(meter, as_of, at) == 0;
        if forgotten { 0 } else { adaptive.grants }
    }

    /// When a meter that is as of `as_of` equals a fresh one, without another take.
    pub(crate) fn fresh_at(&self, meter: &Meter, as_of: Timestamp) -> Timestamp {
        with_rules!(self.algorithm(), rules => {
            rules.of(&meter.state).map_or(Timestamp::EPOCH, |state| rules.fresh_at(self, state, as_of))
        })
    }

    /// When a bucket that is as of `as_of` is certainly full.
    #[inline]
    pub(crate) fn certainly_refilled_at(&self, bucket: Bucket, as_of: Timestamp) -> Timestamp {
        self.refill().map_or(Timestamp::EPOCH, |refill| as_of.plus(refill.certainly_full_in(bucket)))
    }

    /// When the limit resets: a window's end, a full bucket, the last slot's expiry; never before `at`.
    pub(crate) fn resets_at(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> Timestamp {
        let resets_at = with_rules!(self.algorithm(), rules => {
            rules.of(&meter.state).map_or(Timestamp::EPOCH, |state| rules.resets_at(self, state, as_of, at))
        });
        resets_at.max(at)
    }
}
