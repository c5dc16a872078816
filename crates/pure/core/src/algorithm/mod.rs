//! The algorithms, one file each, and the functions that [`decide`](crate::decide) calls on all of them.
//!
//! Every match names each variant of [`Algorithm`], so that the compiler finds every function a new algorithm needs.
//! `state.rs` has the rule for a meter whose kind is not that of its limit.

mod adaptive;
mod bucket;
mod concurrency;
mod refill;
mod sliding;
mod state;
mod window;

pub use adaptive::Adaptive;
pub use bucket::Bucket;
pub use concurrency::Slot;
pub use sliding::Sliding;
pub use state::{Meter, State};
pub use window::Window;

pub(crate) use adaptive::start_rate;
pub(crate) use bucket::Rate;
pub(crate) use refill::Refill;
use state::{NO_ROOM, NOT_DEBITED};
pub(crate) use window::Room;

use crate::{Algorithm, Limit, PermitId, Span, Timestamp};

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
    /// Advances a meter from `as_of` to `to`: windows end, buckets refill, slots expire.
    pub(crate) fn advance(&self, meter: &mut Meter, as_of: Timestamp, to: Timestamp) {
        let state = &mut meter.state;
        match self.algorithm() {
            Algorithm::Window(calendar) => {
                if let Some(window) = state.window_mut() {
                    *window = window.at(calendar, to);
                }
            }
            Algorithm::FromFirstCall(_) => {
                if let Some(window) = state.window_mut() {
                    *window = window.running_at(to);
                }
            }
            Algorithm::Sliding(period) => {
                if let Some(sliding) = state.sliding_mut() {
                    *sliding = sliding.at(*period, to);
                }
            }
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
                let (rate, elapsed) = (self.rate(*period), to.since(as_of));
                if let Some(bucket) = state.bucket_mut() {
                    *bucket = bucket.after(rate, elapsed);
                }
            }
            Algorithm::Adaptive(period) => {
                if let Some(adaptive) = state.adaptive_mut() {
                    adaptive.advance(self.start_rate(*period), to.since(as_of));
                }
            }
            Algorithm::Concurrency { .. } => {
                if let Some(slots) = state.slots_mut() {
                    concurrency::expire(slots, to);
                }
            }
        }
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
        let (state, capacity) = (&meter.state, self.capacity());
        let room = Room { capacity, amount, edge };
        match self.algorithm() {
            Algorithm::Window(calendar) => {
                state.window().map_or(NO_ROOM, |window| window.earliest(calendar, room, from))
            }
            Algorithm::FromFirstCall(_) => {
                state.window().map_or(NO_ROOM, |window| window.earliest_unaligned(room, from))
            }
            Algorithm::Sliding(period) => {
                state.sliding().map_or(NO_ROOM, |sliding| sliding.earliest(*period, capacity, amount, from))
            }
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
                let wait = |bucket: &Bucket| bucket.wait_for(self.rate(*period), self.capacity(), amount);
                state.bucket().map_or(NO_ROOM, |bucket| from.max(as_of.plus(wait(bucket))))
            }
            Algorithm::Adaptive(period) => {
                let start = self.start_rate(*period);
                let wait = |adaptive: &Adaptive| adaptive.wait_for(start, amount);
                state.adaptive().map_or(NO_ROOM, |adaptive| from.max(as_of.plus(wait(adaptive))))
            }
            Algorithm::Concurrency { .. } => {
                state.slots().map_or(NO_ROOM, |slots| concurrency::earliest(slots, capacity, from))
            }
        }
    }

    /// Brings a meter from `as_of` to `at` and takes `amount` from it there. One match for all of it: this is the
    /// inner loop of every grant.
    #[inline]
    pub(crate) fn debit(&self, meter: &mut Meter, amount: u64, span: Advance, permit: PermitId) -> Debited {
        let Advance { as_of, at, edge } = span;
        let (state, capacity) = (&mut meter.state, self.capacity());
        let room = Room { capacity, amount, edge };
        match self.algorithm() {
            Algorithm::Window(calendar) => {
                state.window_mut().map_or(NOT_DEBITED, |window| window.debit_at(calendar, room, at))
            }
            Algorithm::FromFirstCall(period) => {
                state.window_mut().map_or(NOT_DEBITED, |window| window.debit_unaligned_at(*period, room, at))
            }
            Algorithm::Sliding(period) => state
                .sliding_mut()
                .map_or(NOT_DEBITED, |sliding| sliding.debit_at(*period, capacity, amount, at)),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
                state.bucket_mut().map_or(NOT_DEBITED, |bucket| {
                    let holds =
                        bucket.debit_after(self.rate(*period), self.capacity(), amount, at.since(as_of));
                    let expires = self.certainly_refilled_at(*bucket, at);
                    Debited { good_until: Timestamp::MAX, expires, holds }
                })
            }
            Algorithm::Adaptive(period) => state.adaptive_mut().map_or(NOT_DEBITED, |adaptive| {
                let start = self.start_rate(*period);
                adaptive.advance(start, at.since(as_of));
                adaptive.debit(start, amount, at)
            }),
            Algorithm::Concurrency { expires } => state
                .slots_mut()
                .map_or(NOT_DEBITED, |slots| concurrency::debit(slots, room, permit, at, *expires)),
        }
    }

    /// The most by which a settle may exceed what was reserved: one burst of a bucket, else anything.
    pub(crate) fn overrun_max(&self) -> u64 {
        if self.refills() { self.capacity() } else { u64::MAX }
    }

    /// Corrects a permit's debit of a meter that is as of `as_of`. Returns whether it still could.
    pub(crate) fn settle(&self, meter: &mut Meter, correction: Correction, as_of: Timestamp) -> bool {
        let state = &mut meter.state;
        match self.algorithm() {
            Algorithm::Window(calendar) => {
                state.window_mut().is_some_and(|window| window.settle_at(calendar, correction))
            }
            Algorithm::FromFirstCall(period) => {
                state.window_mut().is_some_and(|window| window.settle_unaligned(*period, correction))
            }
            Algorithm::Sliding(period) => {
                state.sliding_mut().is_some_and(|sliding| sliding.settle(*period, correction))
            }
            Algorithm::Bucket { .. } | Algorithm::Paced(_) => {
                let young = self.refilled_in(as_of.since(correction.booked_at)) <= self.capacity();
                state.bucket_mut().is_some_and(|bucket| bucket.settle(correction, young))
            }
            Algorithm::Adaptive(period) => {
                let start = self.start_rate(*period);
                state.adaptive_mut().is_some_and(|adaptive| adaptive.settle(start, correction, as_of))
            }
            // A slot has no amount to correct: it is freed.
            Algorithm::Concurrency { .. } => true,
        }
    }

    /// Whether `permit` holds a slot in this meter.
    pub(crate) fn holds_slot(&self, meter: &Meter, permit: PermitId, at: Timestamp) -> bool {
        self.has_slots() && meter.state.slots().is_some_and(|slots| concurrency::holds(slots, permit, at))
    }

    /// Frees the slot of `permit`, expired or not, if the meter has slots.
    pub(crate) fn free(&self, meter: &mut Meter, permit: PermitId) {
        if self.has_slots()
            && let Some(slots) = meter.state.slots_mut()
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
        match self.algorithm() {
            Algorithm::Window(calendar) => {
                let window = Window { end: calendar.window_at(booked_at).1, count: 0 };
                now < window.good_until(calendar, edge)
            }
            Algorithm::FromFirstCall(period) => {
                let runs = |window: &Window| now < window.end && window.began_for(booked_at, *period);
                meter.state.window().is_some_and(runs)
            }
            Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_) => true,
            Algorithm::Concurrency { .. } => self.holds_slot(meter, permit, now),
        }
    }

    /// Extends the slot of `permit`, if the meter has slots.
    pub(crate) fn renew(&self, meter: &mut Meter, permit: PermitId, at: Timestamp) {
        if let (Some(expires), Some(slots)) = (self.slots_expire(), meter.state.slots_mut()) {
            concurrency::renew(slots, permit, at, expires);
        }
    }

    /// The most this meter could grant at once: [`Limit::capacity`], or the burst that was learned.
    #[inline]
    pub(crate) fn capacity_of(&self, meter: &Meter) -> u64 {
        match &meter.state {
            State::Adaptive(adaptive) => adaptive.burst,
            State::Window(_) | State::Sliding(_) | State::Bucket(_) | State::Slots(_) => self.capacity(),
        }
    }

    /// The usage at `at`, rounded up; the meter is as of `as_of`.
    pub(crate) fn used(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> u64 {
        let used = match self.algorithm() {
            Algorithm::Window(_) | Algorithm::FromFirstCall(_) => {
                meter.state.window().map(|window| window.running_at(at).count)
            }
            Algorithm::Sliding(period) => meter.state.sliding().map(|sliding| sliding.used(*period, at)),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
                let (rate, elapsed) = (self.rate(*period), at.since(as_of));
                meter.state.bucket().map(|bucket| bucket.after(rate, elapsed).whole())
            }
            Algorithm::Adaptive(period) => {
                let (start, elapsed) = (self.start_rate(*period), at.since(as_of));
                meter.state.adaptive().map(|adaptive| adaptive.used(start, elapsed))
            }
            Algorithm::Concurrency { .. } => meter.state.slots().map(|slots| concurrency::used(slots, at)),
        };
        used.unwrap_or(self.capacity())
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
        let fresh_at = match self.algorithm() {
            Algorithm::Window(_) => meter.state.window().map(|window| window.fresh_at()),
            Algorithm::FromFirstCall(_) => meter.state.window().map(|window| window.end),
            Algorithm::Sliding(period) => meter.state.sliding().map(|sliding| sliding.fresh_at(*period)),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
                meter.state.bucket().map(|bucket| bucket.fresh_at(self.rate(*period), as_of))
            }
            Algorithm::Adaptive(period) => {
                meter.state.adaptive().map(|adaptive| adaptive.fresh_at(self.start_rate(*period), as_of))
            }
            Algorithm::Concurrency { .. } => meter.state.slots().map(concurrency::last_end),
        };
        fresh_at.unwrap_or(Timestamp::EPOCH)
    }

    /// When a bucket that is as of `as_of` is certainly full.
    #[inline]
    pub(crate) fn certainly_refilled_at(&self, bucket: Bucket, as_of: Timestamp) -> Timestamp {
        self.refill().map_or(Timestamp::EPOCH, |refill| as_of.plus(refill.certainly_full_in(bucket)))
    }

    /// When the limit resets: a window's end, a full bucket, the last slot's expiry; never before `at`.
    pub(crate) fn resets_at(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> Timestamp {
        let resets_at = match self.algorithm() {
            Algorithm::Window(calendar) => {
                meter.state.window().map_or(Timestamp::EPOCH, |window| window.at(calendar, at).end)
            }
            Algorithm::Adaptive(period) => {
                let start = self.start_rate(*period);
                meter.state.adaptive().map_or(Timestamp::EPOCH, |adaptive| adaptive.refilled_at(start, as_of))
            }
            Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Concurrency { .. } => self.fresh_at(meter, as_of),
        };
        resets_at.max(at)
    }

    /// The rate of an adaptive limit before anything is learned, in millionths of a call a second.
    pub(crate) fn start_rate(&self, period: Span) -> u64 {
        start_rate(self.amount(), period)
    }

    #[inline]
    pub(crate) fn rate(&self, period: Span) -> Rate {
        Rate { amount: self.amount(), period }
    }
}
