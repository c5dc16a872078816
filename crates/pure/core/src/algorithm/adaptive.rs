//! A limit whose rate is learned: a bucket whose rate and burst a controller changes while it is in use.
//!
//! The controller runs in the processes that call the vendor; see [`feedback`](crate::feedback). The store keeps what it
//! has found, so that all processes share it.

use serde::{Deserialize, Serialize};

use super::bucket::Rate;
use super::{Advance, AlgorithmRules, Bucket, Correction, Debited, Room, State};
use crate::bounds::{COUNT_MAX, LEARNED_KEPT, RATE_MAX};
use crate::controller::HOLD_DAILY_MAX;
use crate::{Limit, PermitId, Span, Timestamp};

/// Rates are calls in a million seconds, so that millionths of a call a second are whole numbers.
const RATE_PERIOD: Span = Span::from_secs(1_000_000);

/// A rate that is learned; it starts at the limit's amount in this time.
#[derive(Clone, Copy)]
pub(crate) struct AdaptiveRules(pub(crate) Span);

impl AdaptiveRules {
    fn start(self, limit: &Limit) -> u64 {
        start_rate(limit.amount(), self.0)
    }
}

impl AlgorithmRules for AdaptiveRules {
    type State = Adaptive;

    fn word(self) -> &'static str {
        "adaptive"
    }

    fn period(self) -> Option<Span> {
        Some(self.0)
    }

    /// Another rate to start at must not drop what was learned.
    fn own_name(self) -> Option<&'static str> {
        Some("rate")
    }

    fn capacity(self, _: u64) -> u64 {
        1
    }

    fn longest_memory(self, _: &Limit) -> Span {
        HOLD_DAILY_MAX
    }

    fn books_ahead(self) -> bool {
        true
    }

    fn fresh(self) -> State {
        State::Adaptive(Box::default())
    }

    fn advance(self, limit: &Limit, adaptive: &mut Adaptive, as_of: Timestamp, to: Timestamp) {
        adaptive.advance(self.start(limit), to.since(as_of));
    }

    fn earliest(
        self,
        limit: &Limit,
        adaptive: &Adaptive,
        room: Room,
        as_of: Timestamp,
        from: Timestamp,
    ) -> Timestamp {
        from.max(as_of.plus(adaptive.wait_for(self.start(limit), room.amount)))
    }

    fn debit(
        self,
        limit: &Limit,
        adaptive: &mut Adaptive,
        room: Room,
        span: Advance,
        _: PermitId,
    ) -> Debited {
        let start = self.start(limit);
        adaptive.advance(start, span.at.since(span.as_of));
        adaptive.debit(start, room.amount, span.at)
    }

    fn settle(
        self,
        limit: &Limit,
        adaptive: &mut Adaptive,
        correction: Correction,
        as_of: Timestamp,
    ) -> bool {
        adaptive.settle(self.start(limit), correction, as_of)
    }

    fn used(self, limit: &Limit, adaptive: &Adaptive, as_of: Timestamp, at: Timestamp) -> u64 {
        adaptive.used(self.start(limit), at.since(as_of))
    }

    fn fresh_at(self, limit: &Limit, adaptive: &Adaptive, as_of: Timestamp) -> Timestamp {
        adaptive.fresh_at(self.start(limit), as_of)
    }

    /// What was learned outlasts the reset.
    fn resets_at(self, limit: &Limit, adaptive: &Adaptive, as_of: Timestamp, _: Timestamp) -> Timestamp {
        adaptive.refilled_at(self.start(limit), as_of)
    }
}

/// The state of an adaptive limit. Until something is learned it is an ordinary meter: once its bucket is full again, it
/// equals a fresh one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adaptive {
    /// What is used of the burst.
    pub bucket: Bucket,
    /// Calls a second, in millionths. Until something is learned, the limit's own rate applies.
    pub rate: u64,
    /// The most calls that can be saved up.
    pub burst: u64,
    /// Calls granted since the meter was fresh.
    pub grants: u64,
    /// Grows with every change of the rate. 0: nothing was learned yet.
    pub version: u64,
    /// Grows with every cut of the rate after a refusal.
    pub cut: u64,
    /// When the rate was last cut. Permits granted until then belong to an older cut.
    pub cut_at: Timestamp,
    /// The controller's own state, which the store does not read.
    pub controller: String,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            bucket: Bucket::default(),
            rate: 0,
            burst: 1,
            grants: 0,
            version: 0,
            cut: 0,
            cut_at: Timestamp::EPOCH,
            controller: String::new(),
        }
    }
}

/// The rate at which a limit of `amount` calls in `period` starts, in millionths a second.
pub(crate) fn start_rate(amount: u64, period: Span) -> u64 {
    let rate = u128::from(amount).saturating_mul(u128::from(RATE_PERIOD.as_micros()));
    let rate = rate.checked_div(u128::from(period.as_micros())).unwrap_or(0);
    u64::try_from(rate).unwrap_or(RATE_MAX).clamp(1, RATE_MAX)
}

/// `start` is the [`start_rate`] of the limit.
impl Adaptive {
    /// The rate in force.
    pub(crate) fn rate_in_force(&self, start: u64) -> u64 {
        if self.version == 0 { start } else { self.rate }
    }

    fn drain(&self, start: u64) -> Rate {
        Rate { amount: self.rate_in_force(start), period: RATE_PERIOD }
    }

    /// Refills for `elapsed`.
    pub(super) fn advance(&mut self, start: u64, elapsed: Span) {
        self.bucket = self.bucket.after(self.drain(start), elapsed);
        if self.version == 0 && self.bucket == Bucket::default() {
            self.grants = 0;
        }
    }

    /// What is used after `elapsed`, rounded up.
    pub(super) fn used(&self, start: u64, elapsed: Span) -> u64 {
        self.bucket.after(self.drain(start), elapsed).whole()
    }

    /// How long until `amount` fits.
    pub(super) fn wait_for(&self, start: u64, amount: u64) -> Span {
        self.bucket.wait_for(self.drain(start), self.burst, amount)
    }

    /// Takes `amount` at `at`, which it has been advanced to.
    pub(super) fn debit(&mut self, start: u64, amount: u64, at: Timestamp) -> Debited {
        self.bucket.debit(amount);
        self.grants = self.grants.saturating_add(amount).min(COUNT_MAX);
        let holds = self.bucket.whole() <= self.burst;
        Debited { good_until: Timestamp::MAX, expires: self.fresh_at(start, at), holds }
    }

    /// Takes back a call that was not made, if it still counts.
    pub(super) fn settle(&mut self, start: u64, correction: Correction, as_of: Timestamp) -> bool {
        let Correction { booked_at, reserved, actual } = correction;
        self.grants = self.grants.saturating_sub(reserved.saturating_sub(actual));
        let Rate { amount, period } = self.drain(start);
        let refilled = u128::from(as_of.since(booked_at).as_micros()).saturating_mul(u128::from(amount));
        let whole_burst = u128::from(self.burst).saturating_mul(u128::from(period.as_micros()));
        self.bucket.settle(correction, refilled <= whole_burst)
    }

    /// When nothing is used any more.
    pub(super) fn refilled_at(&self, start: u64, as_of: Timestamp) -> Timestamp {
        self.bucket.fresh_at(self.drain(start), as_of)
    }

    /// When it may be forgotten: once nothing is used, and what was learned is old.
    pub(super) fn fresh_at(&self, start: u64, as_of: Timestamp) -> Timestamp {
        let learned = if self.version > 0 { as_of.plus(LEARNED_KEPT) } else { Timestamp::EPOCH };
        self.refilled_at(start, as_of).max(learned)
    }
}
