//! A line in 32 bytes: one window or bucket, nobody in line, nothing remembered. That is nearly every line there is, and
//! a store that keeps millions of them keeps them like this.

use std::num::NonZeroU32;

use crate::algorithm::{Bucket, Meter, State, Window};
use crate::decision::{DecideNow, DenyNow, GrantNow};
use crate::{Algorithm, Cost, Line, Policy, Span, Timestamp};

/// Set in `first` if the meter is a window's; counts and times end far below.
const IS_WINDOW: u64 = 1 << 63;

/// A line of one window or bucket and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    seen: Timestamp,
    /// A window's count, or a bucket's whole units.
    first: u64,
    /// A window's end, or the rest of a bucket's units.
    second: u64,
    /// Whose meter it is: [`Limit::identity`](crate::Limit::identity).
    identity: NonZeroU32,
    /// The line's expiry in seconds, rounded up.
    expires: u32,
}

impl Packed {
    /// The line in 32 bytes, if it fits.
    pub fn pack(line: &Line) -> Option<Self> {
        let ([Meter { identity, state }], None) = (&*line.meters, &line.extra) else { return None };
        let (first, second) = match state {
            State::Window(window) => (window.count | IS_WINDOW, window.end.as_micros()),
            State::Bucket(bucket) => (bucket.used, bucket.part),
            State::Sliding(_) | State::Slots(_) => return None,
        };
        let expires = in_seconds(line.expires)?;
        Some(Self { seen: line.seen, first, second, identity: NonZeroU32::new(*identity)?, expires })
    }

    /// The line again. It may live a second longer than it did.
    pub fn unpack(self) -> Line {
        let state = if self.first & IS_WINDOW == 0 {
            State::Bucket(Bucket { used: self.first, part: self.second })
        } else {
            let end = Timestamp::from_micros(self.second);
            State::Window(Window { end, count: self.first & !IS_WINDOW })
        };
        let meters = [Meter { identity: self.identity.get(), state }].into_iter().collect();
        Line { seen: self.seen, expires: self.expires(), meters, extra: None }
    }

    /// When the line may be forgotten.
    pub fn expires(self) -> Timestamp {
        Timestamp::from_secs(self.expires.into())
    }

    /// What [`decide_now`](crate::decide_now) does, where the line lies.
    #[inline]
    pub fn decide_now(&mut self, policy: &Policy, cost: &Cost, now: Timestamp) -> Option<DecideNow> {
        let (limit, charge) = policy.only_charge(cost)?;
        let possible = charge > 0 && charge <= limit.capacity() && limit.identity() == self.identity.get();
        if !possible || policy.shadow() {
            return None;
        }
        let now = now.max(self.seen);
        let denied = |retry_at| Some(DecideNow::Denied(DenyNow { now, retry_at, limit: 0 }));
        let (expires, good_until) = match limit.algorithm() {
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) if self.first & IS_WINDOW == 0 => {
                let mut bucket = Bucket { used: self.first, part: self.second };
                let rate = limit.rate(*period);
                match bucket.take(rate, limit.capacity(), charge, now.since(self.seen)) {
                    Ok(left) => {
                        (self.first, self.second) = (bucket.used, bucket.part);
                        (now.plus(left), Timestamp::MAX)
                    }
                    Err(wait) => return denied(now.plus(wait)),
                }
            }
            Algorithm::Window(_) if policy.edge() == Span::ZERO && self.first & IS_WINDOW != 0 => {
                let count = (self.first & !IS_WINDOW).saturating_add(charge);
                let end = Timestamp::from_micros(self.second);
                if now >= end {
                    return None;
                }
                if count > limit.amount() {
                    return denied(end);
                }
                self.first = count | IS_WINDOW;
                (end, end)
            }
            _ => return None,
        };
        self.seen = now;
        self.expires = in_seconds(expires).unwrap_or(u32::MAX);
        Some(DecideNow::Granted(GrantNow { now, good_until, over: false }))
    }
}

/// Nothing after the year 2106: such a line is not packed.
fn in_seconds(expires: Timestamp) -> Option<u32> {
    u32::try_from(expires.as_micros().div_ceil(1_000_000)).ok()
}
