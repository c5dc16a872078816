//! The algorithms, one small file each, and the questions that [`decide`](crate::decide) asks all of them.

mod bucket;
mod concurrency;
mod refill;
mod sliding;
mod window;

pub use bucket::Bucket;
pub use concurrency::Slot;
pub use sliding::Sliding;
pub use window::Window;

pub(crate) use bucket::Rate;
pub(crate) use refill::Refill;
use serde::{Deserialize, Serialize};
pub(crate) use window::Room;

use crate::{Algorithm, Limit, PermitId, Span, Timestamp};

/// The state of one limit for one subject, as of its line's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Whose meter it is: [`Limit::identity`].
    pub identity: u32,
    /// What it holds.
    pub state: State,
}

/// What a meter holds, by algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Of `window` and `from first call`.
    Window(Window),
    /// Of `sliding`.
    Sliding(Sliding),
    /// Of `bucket` and `paced`.
    Bucket(Bucket),
    /// Of `concurrency`.
    Slots(Vec<Slot>),
}

/// A correction of what a permit took from one meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction {
    pub(crate) booked_at: Timestamp,
    pub(crate) reserved: u64,
    pub(crate) actual: u64,
}

/// From when to when a meter is brought, and the edge its windows keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advance {
    pub(crate) as_of: Timestamp,
    pub(crate) at: Timestamp,
    pub(crate) edge: Span,
}

/// What a debit leaves behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debited {
    /// Until when the permit may begin: its window's end less the edge, its slot's end.
    pub(crate) good_until: Timestamp,
    /// When the meter is as good as new.
    pub(crate) expires: Timestamp,
    /// I1: it does not hold more than its limit.
    pub(crate) holds: bool,
}

impl Limit {
    /// A meter that nobody has touched.
    pub(crate) fn fresh_meter(&self) -> Meter {
        let state = match self.algorithm() {
            Algorithm::Window(_) | Algorithm::FromFirstCall(_) => State::Window(Window::default()),
            Algorithm::Sliding(_) => State::Sliding(Sliding::default()),
            Algorithm::Bucket { .. } | Algorithm::Paced(_) => State::Bucket(Bucket::default()),
            Algorithm::Concurrency { .. } => State::Slots(Vec::new()),
        };
        Meter { identity: self.identity(), state }
    }

    /// Brings a meter from `as_of` to `to`: windows that have ended are empty, buckets refill, slots expire.
    pub(crate) fn advance(&self, meter: &mut Meter, as_of: Timestamp, to: Timestamp) {
        match (self.algorithm(), &mut meter.state) {
            (Algorithm::Window(calendar), State::Window(window)) => *window = window.at(calendar, to),
            (Algorithm::FromFirstCall(_), State::Window(window)) => *window = window.running_at(to),
            (Algorithm::Sliding(period), State::Sliding(sliding)) => *sliding = sliding.at(*period, to),
            (Algorithm::Bucket { period, .. } | Algorithm::Paced(period), State::Bucket(bucket)) => {
                *bucket = bucket.after(self.rate(*period), to.since(as_of));
            }
            (Algorithm::Concurrency { .. }, State::Slots(slots)) => slots.retain(|slot| slot.expires > to),
            _ => *meter = self.fresh_meter(),
        }
    }

    /// The earliest moment from `from` on at which `charge` fits, if nobody takes before. The meter is as of `as_of`.
    #[inline]
    pub(crate) fn earliest(
        &self,
        meter: &Meter,
        charge: u64,
        as_of: Timestamp,
        from: Timestamp,
        edge: Span,
    ) -> Timestamp {
        let amount = self.amount();
        match (self.algorithm(), &meter.state) {
            (Algorithm::Window(calendar), State::Window(window)) => {
                window.earliest(calendar, Room { amount, charge, edge }, from)
            }
            (Algorithm::FromFirstCall(_), State::Window(window)) => {
                window.earliest_unaligned(Room { amount, charge, edge }, from)
            }
            (Algorithm::Sliding(period), State::Sliding(sliding)) => {
                sliding.earliest(*period, amount, charge, from)
            }
            (Algorithm::Bucket { period, .. } | Algorithm::Paced(period), State::Bucket(bucket)) => {
                from.max(as_of.plus(bucket.wait_for(self.rate(*period), self.capacity(), charge)))
            }
            (Algorithm::Concurrency { .. }, State::Slots(slots)) => {
                concurrency::earliest(slots, amount, from)
            }
            _ => from,
        }
    }

    /// Brings a meter from `as_of` to `at` and takes `charge` from it there. One match for all of it: this is the
    /// inner loop of every grant.
    #[inline]
    pub(crate) fn debit(&self, meter: &mut Meter, charge: u64, span: Advance, permit: PermitId) -> Debited {
        let Advance { as_of, at, edge } = span;
        match (self.algorithm(), &mut meter.state) {
            (Algorithm::Window(calendar), State::Window(window)) => {
                *window = window.at(calendar, at);
                window.debit(charge);
                let expires = if window.count == 0 { Timestamp::EPOCH } else { window.end };
                Debited {
                    good_until: window.good_until(calendar, edge),
                    expires,
                    holds: window.count <= self.amount(),
                }
            }
            (Algorithm::Bucket { period, .. } | Algorithm::Paced(period), State::Bucket(bucket)) => {
                let rate = self.rate(*period);
                *bucket = bucket.after(rate, at.since(as_of));
                bucket.debit(charge);
                let holds = bucket.whole() <= self.capacity();
                let expires = self.surely_refilled_at(*bucket, at);
                Debited { good_until: Timestamp::MAX, expires, holds }
            }
            _ => self.debit_others(meter, charge, span, permit),
        }
    }

    fn debit_others(&self, meter: &mut Meter, charge: u64, span: Advance, permit: PermitId) -> Debited {
        let Advance { as_of, at, .. } = span;
        self.advance(meter, as_of, at);
        let mut good_until = Timestamp::MAX;
        match (self.algorithm(), &mut meter.state) {
            (Algorithm::FromFirstCall(period), State::Window(window)) => {
                window.debit_unaligned(charge, at, *period);
                good_until = window.end;
            }
            (Algorithm::Concurrency { expires }, State::Slots(slots)) if charge > 0 => {
                concurrency::hold(slots, permit, at, *expires);
                good_until = at.plus(*expires);
            }
            (_, State::Sliding(sliding)) => sliding.debit(charge),
            _ => {}
        }
        let holds = self.used(meter, at, at) <= self.capacity();
        Debited { good_until, expires: self.good_as_new_at(meter, at), holds }
    }

    /// The most by which a settle may exceed what was reserved: one burst of a bucket, else anything.
    pub(crate) fn overrun_max(&self) -> u64 {
        match self.algorithm() {
            Algorithm::Bucket { .. } | Algorithm::Paced(_) => self.capacity(),
            _ => u64::MAX,
        }
    }

    /// Puts right what a permit took from a meter that is as of `as_of`; says whether it still could.
    pub(crate) fn settle(&self, meter: &mut Meter, correction: Correction, as_of: Timestamp) -> bool {
        let Correction { booked_at, reserved, actual } = correction;
        match (self.algorithm(), &mut meter.state) {
            (Algorithm::Sliding(period), State::Sliding(sliding)) => {
                sliding.settle(*period, booked_at, reserved, actual)
            }
            (Algorithm::Window(calendar), State::Window(window)) => {
                let here = calendar.window_at(booked_at).1 == window.end;
                if here {
                    window.settle(reserved, actual);
                }
                here
            }
            (Algorithm::FromFirstCall(period), State::Window(window)) => {
                let here = booked_at < window.end && window.end <= booked_at.plus(*period);
                if here {
                    window.settle(reserved, actual);
                }
                here
            }
            (_, State::Bucket(bucket)) => {
                bucket.debit(actual.saturating_sub(reserved));
                let young = self.refilled_in(as_of.since(booked_at)) <= self.capacity();
                if young {
                    bucket.credit(reserved.saturating_sub(actual));
                }
                young || actual >= reserved
            }
            _ => true,
        }
    }

    /// Whether it is one of slots.
    pub(crate) fn has_slots(&self) -> bool {
        matches!(self.algorithm(), Algorithm::Concurrency { .. })
    }

    /// Whether `permit` holds a slot in this meter.
    pub(crate) fn holds_slot(&self, meter: &Meter, permit: PermitId, at: Timestamp) -> bool {
        matches!(&meter.state, State::Slots(slots) if concurrency::holds(slots, permit, at))
    }

    /// Frees the slot that `permit` has in this meter, expired or not, if it is one of slots.
    pub(crate) fn free(&self, meter: &mut Meter, permit: PermitId) {
        if let State::Slots(slots) = &mut meter.state {
            slots.retain(|slot| slot.permit != permit);
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
        match (self.algorithm(), &meter.state) {
            (Algorithm::Window(calendar), _) => {
                let window = Window { end: calendar.window_at(booked_at).1, count: 0 };
                now < window.good_until(calendar, edge)
            }
            (Algorithm::FromFirstCall(period), State::Window(window)) => {
                now < window.end && booked_at < window.end && window.end <= booked_at.plus(*period)
            }
            (Algorithm::Concurrency { .. }, _) => self.holds_slot(meter, permit, now),
            _ => true,
        }
    }

    /// Prolongs the slot that `permit` holds in this meter, if it is one of slots.
    pub(crate) fn renew(&self, meter: &mut Meter, permit: PermitId, at: Timestamp) {
        if let (Algorithm::Concurrency { expires }, State::Slots(slots)) =
            (self.algorithm(), &mut meter.state)
        {
            concurrency::renew(slots, permit, at, *expires);
        }
    }

    /// What is used at `at`, rounded up; the meter is as of `as_of`.
    pub(crate) fn used(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> u64 {
        match (self.algorithm(), &meter.state) {
            (Algorithm::Window(_) | Algorithm::FromFirstCall(_), State::Window(window)) => {
                window.running_at(at).count
            }
            (Algorithm::Sliding(period), State::Sliding(sliding)) => {
                let weighted = sliding.weighted(*period, at).div_ceil(u128::from(period.as_micros().max(1)));
                u64::try_from(weighted).unwrap_or(u64::MAX)
            }
            (Algorithm::Bucket { period, .. } | Algorithm::Paced(period), State::Bucket(bucket)) => {
                bucket.after(self.rate(*period), at.since(as_of)).whole()
            }
            (_, State::Slots(slots)) => u64::try_from(concurrency::held(slots, at)).unwrap_or(u64::MAX),
            _ => 0,
        }
    }

    /// When a meter that is as of `as_of` is as good as new if nobody takes.
    pub(crate) fn good_as_new_at(&self, meter: &Meter, as_of: Timestamp) -> Timestamp {
        match (self.algorithm(), &meter.state) {
            (Algorithm::Window(_), State::Window(window)) if window.count == 0 => Timestamp::EPOCH,
            (_, State::Window(window)) => window.end,
            (Algorithm::Sliding(period), State::Sliding(sliding)) => sliding.good_as_new_at(*period),
            (Algorithm::Bucket { period, .. } | Algorithm::Paced(period), State::Bucket(bucket)) => {
                bucket.good_as_new_at(self.rate(*period), as_of)
            }
            (_, State::Slots(slots)) => {
                slots.iter().map(|slot| slot.expires).max().unwrap_or(Timestamp::EPOCH)
            }
            _ => Timestamp::EPOCH,
        }
    }

    /// When a bucket that is as of `as_of` is surely full.
    #[inline]
    pub(crate) fn surely_refilled_at(&self, bucket: Bucket, as_of: Timestamp) -> Timestamp {
        self.refill().map_or(Timestamp::EPOCH, |refill| as_of.plus(refill.surely_full_in(bucket)))
    }

    /// When the limit is whole again: a window's end, a full bucket, the last slot's expiry; never before `at`.
    pub(crate) fn resets_at(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> Timestamp {
        let whole = match (self.algorithm(), &meter.state) {
            (Algorithm::Window(calendar), State::Window(window)) => window.at(calendar, at).end,
            _ => self.good_as_new_at(meter, as_of),
        };
        whole.max(at)
    }

    #[inline]
    pub(crate) fn rate(&self, period: Span) -> Rate {
        Rate { amount: self.amount(), period }
    }
}
