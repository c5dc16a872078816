//! The log of one meter. Every value is computed by replaying it.

use tollway_core::bounds::{COUNT_MAX, EDGE_PART_OF_PERIOD};
use tollway_core::{Algorithm, Limit, PermitId, Span, Timestamp};

use crate::calendar::{Bounds, multiple_of, window_at};

/// What happened to one meter, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) entries: Vec<Entry>,
    /// The rates at which a bucket has refilled so far.
    refills_at: Vec<RefillSpan>,
    /// What an adaptive limit has learned.
    pub(super) learned: Learning,
    /// The slots of a concurrency limit: the permit and the expiry.
    pub(super) slots: Vec<(PermitId, Timestamp)>,
}

/// What an adaptive limit has learned.
#[derive(Clone, Debug, Default)]
pub(super) struct Learning {
    /// In millionths of a call a second; the limit's own until version 1.
    pub(super) rate: u64,
    pub(super) burst: u64,
    pub(super) grants: u64,
    pub(super) version: u64,
    pub(super) cut: u64,
    pub(super) cut_at: Timestamp,
    pub(super) controller: String,
    /// Until when it is remembered without another change.
    pub(super) until: Timestamp,
}

/// Rates of adaptive limits are calls in a million seconds.
pub(super) const RATE_PERIOD: Span = Span::from_secs(1_000_000);

/// A booking (adds its amount) or a correction (subtracts the reserved amount, adds the actual one).
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// When the meter changed.
    pub(super) when: Timestamp,
    /// The time of the booking: the window it counts in.
    pub(super) booked_at: Timestamp,
    pub(super) permit: PermitId,
    pub(super) minus: u64,
    pub(super) plus: u64,
}

/// A bucket refilled at this rate since the previous span. Each change of an account ends a span: the refill until then
/// counts at the rate of that change, later refill at the next rate.
#[derive(Clone, Copy, Debug)]
struct RefillSpan {
    until: Timestamp,
    amount: u64,
    /// The last booking, if this is undone with it.
    permit: Option<PermitId>,
}

impl Log {
    pub(super) fn forget(&mut self, permit: PermitId) {
        self.entries.retain(|entry| entry.permit != permit);
        self.refills_at.retain(|span| span.permit != Some(permit));
    }

    /// Records a refill at the rate of `limit` until then.
    pub(super) fn refilled(&mut self, limit: &Limit, until: Timestamp, permit: Option<PermitId>) {
        if refills(limit) {
            let (amount, _) = self.rate(limit);
            self.refills_at.push(RefillSpan { until, amount, permit });
        }
    }

    /// The rate in force of a limit that refills: an amount in a period.
    pub(super) fn rate(&self, limit: &Limit) -> (u64, Span) {
        match limit.starts_at() {
            Some(start) if self.learned.version == 0 => (start, RATE_PERIOD),
            Some(_) => (self.learned.rate, RATE_PERIOD),
            None => (limit.amount(), limit.period().unwrap_or_default()),
        }
    }

    /// The most that can be used at once.
    pub(super) fn capacity(&self, limit: &Limit) -> u64 {
        if limit.is_adaptive() && self.learned.version > 0 { self.learned.burst } else { limit.capacity() }
    }

    /// Calls granted under an adaptive limit, shown at `at`: before anything is learned, a full bucket has forgotten them.
    pub(super) fn grants(&self, limit: &Limit, at: Timestamp) -> u64 {
        let forgotten = self.learned.version == 0 && self.used(limit, at) == 0;
        if forgotten { 0 } else { self.learned.grants }
    }

    /// The usage at `at`, rounded up.
    pub(super) fn used(&self, limit: &Limit, at: Timestamp) -> u64 {
        let (used, whole) = self.used_exactly(limit, at);
        u64::try_from(used.div_ceil(whole)).unwrap_or(u64::MAX)
    }

    /// Whether `amount` fits at `at`.
    pub(super) fn fits(&self, limit: &Limit, amount: u64, at: Timestamp) -> bool {
        let (used, whole) = self.used_exactly(limit, at);
        used + u128::from(amount) * whole <= u128::from(self.capacity(limit)) * whole
    }

    /// The usage at `at` as a fraction: numerator and denominator.
    fn used_exactly(&self, limit: &Limit, at: Timestamp) -> (u128, u128) {
        match limit.algorithm() {
            Algorithm::Window(calendar) => (self.count_in(window_at(calendar, at)), 1),
            Algorithm::FromFirstCall(period) => (self.running(*period, at).map_or(0, |(_, count)| count), 1),
            Algorithm::Sliding(period) => self.sliding(*period, at),
            Algorithm::Bucket { .. } | Algorithm::Paced(_) | Algorithm::Adaptive(_) => {
                let (amount, period) = self.rate(limit);
                (self.bucket(period, amount, at), micros(period))
            }
            Algorithm::Concurrency { .. } => {
                (self.slots.iter().filter(|(_, until)| *until > at).count() as u128, 1)
            }
        }
    }

    /// The sum of what was booked between the bounds.
    fn count_in(&self, bounds: Bounds) -> u128 {
        let inside = self.entries.iter().filter(|entry| within(bounds, entry.booked_at));
        u128::from(inside.fold(0, after))
    }

    /// The window from first call that runs at `at`, and its count: each booking after its end starts a new one.
    pub(super) fn running(&self, period: Span, at: Timestamp) -> Option<(Bounds, u128)> {
        let mut window = (Timestamp::EPOCH, Timestamp::EPOCH);
        let mut count = 0;
        for entry in &self.entries {
            if entry.minus == 0 && entry.booked_at >= window.1 {
                window = (entry.booked_at, entry.booked_at.plus(period));
                count = 0;
            }
            if within(window, entry.booked_at) {
                count = after(count, entry);
            }
        }
        (at < window.1).then_some((window, u128::from(count)))
    }

    /// The current window in full, plus the part of the previous one that the period still covers.
    fn sliding(&self, period: Span, at: Timestamp) -> (u128, u128) {
        let (start, end) = multiple_of(period, at);
        let before = if start < Timestamp::EPOCH.plus(period) {
            0
        } else {
            self.count_in((start.minus(period), start))
        };
        let covered = micros(end.since(at));
        (self.count_in((start, end)) * micros(period) + before * covered, micros(period))
    }

    /// Replayed exactly, in units times microseconds of the period: each microsecond drains `amount` of its span, and after
    /// the last span the given one.
    fn bucket(&self, period: Span, amount: u64, at: Timestamp) -> u128 {
        let mut used = 0u128;
        let mut as_of = Timestamp::EPOCH;
        for entry in &self.entries {
            used = used.saturating_sub(self.drained(as_of, entry.when, amount));
            as_of = entry.when;
            used += u128::from(entry.plus.saturating_sub(entry.minus)) * micros(period);
            used = used.saturating_sub(u128::from(entry.minus.saturating_sub(entry.plus)) * micros(period));
        }
        used.saturating_sub(self.drained(as_of, at, amount))
    }

    /// The refill from one moment to another, with `amount` for the time after the last span.
    fn drained(&self, from: Timestamp, to: Timestamp, amount: u64) -> u128 {
        let rest = [RefillSpan { until: to, amount, permit: None }];
        let (mut drained, mut as_of) = (0, from);
        for span in self.refills_at.iter().chain(&rest) {
            let until = span.until.min(to);
            drained += micros(until.since(as_of)) * u128::from(span.amount);
            as_of = as_of.max(until);
        }
        drained
    }

    /// The first time from `from` on at which `amount` fits outside the edges, without a take before.
    pub(super) fn earliest(&self, limit: &Limit, amount: u64, from: Timestamp, edge: Span) -> Timestamp {
        let fits = first_moment(from, |at| self.fits(limit, amount, at));
        let calendar = match limit.algorithm() {
            Algorithm::Window(calendar) => calendar,
            Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_)
            | Algorithm::Concurrency { .. } => return fits,
        };
        let (start, end) = window_at(calendar, fits);
        let own_edge = edge_of((start, end), edge);
        if fits >= end.minus(own_edge) {
            return end.plus(edge_of(window_at(calendar, end), edge));
        }
        fits.max(start.plus(own_edge))
    }

    /// When a bucket is full again at the rate of `limit`, from `at` on.
    pub(super) fn refilled_at(&self, limit: &Limit, at: Timestamp) -> Option<Timestamp> {
        refills(limit).then(|| first_moment(at, |at| self.used(limit, at) == 0))
    }

    /// When the limit resets, from `at` on.
    pub(super) fn resets_at(&self, limit: &Limit, at: Timestamp) -> Timestamp {
        match limit.algorithm() {
            Algorithm::Window(calendar) => window_at(calendar, at).1,
            Algorithm::FromFirstCall(period) => self.running(*period, at).map_or(at, |((_, end), _)| end),
            Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_)
            | Algorithm::Concurrency { .. } => first_moment(at, |at| self.used(limit, at) == 0),
        }
    }

    /// Until when a permit booked at `at` may begin.
    pub(super) fn good_until(&self, limit: &Limit, at: Timestamp, edge: Span) -> Timestamp {
        match limit.algorithm() {
            Algorithm::Window(calendar) => {
                let window = window_at(calendar, at);
                window.1.minus(edge_of(window, edge))
            }
            Algorithm::FromFirstCall(period) => {
                self.running(*period, at).map_or(Timestamp::MAX, |((_, end), _)| end)
            }
            Algorithm::Concurrency { expires } => at.plus(*expires),
            Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_) => Timestamp::MAX,
        }
    }
}

/// Whether it refills continuously.
pub(super) fn refills(limit: &Limit) -> bool {
    match limit.algorithm() {
        Algorithm::Bucket { .. } | Algorithm::Paced(_) | Algorithm::Adaptive(_) => true,
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Concurrency { .. } => false,
    }
}

/// How long a slot lives, of a limit of slots.
pub(super) fn slot_life(limit: &Limit) -> Option<Span> {
    match limit.algorithm() {
        Algorithm::Concurrency { expires } => Some(*expires),
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_) => None,
    }
}

/// The first time from `from` on at which a monotonic condition holds: doubling steps, then bisection.
fn first_moment(from: Timestamp, holds: impl Fn(Timestamp) -> bool) -> Timestamp {
    if holds(from) {
        return from;
    }
    let mut stride = Span::from_micros(1);
    let mut no = from;
    let mut yes = from.plus(stride);
    while !holds(yes) {
        if yes == Timestamp::MAX {
            return Timestamp::MAX;
        }
        no = yes;
        stride = stride.times(2);
        yes = yes.plus(stride);
    }
    while yes.since(no) > Span::from_micros(1) {
        let middle = no.plus(Span::from_micros(yes.since(no).as_micros() / 2));
        if holds(middle) { yes = middle } else { no = middle }
    }
    yes
}

/// A count after an entry.
fn after(count: u64, entry: &Entry) -> u64 {
    count.saturating_sub(entry.minus).saturating_add(entry.plus).min(COUNT_MAX)
}

pub(super) fn within((start, end): Bounds, at: Timestamp) -> bool {
    start <= at && at < end
}

/// The edge of a window: as wished, at most a twentieth of it.
fn edge_of((start, end): Bounds, wished: Span) -> Span {
    wished.min(Span::from_micros(end.since(start).as_micros() / EDGE_PART_OF_PERIOD))
}

fn micros(span: Span) -> u128 {
    u128::from(span.as_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_moment_is_found_to_the_microsecond() {
        for wanted in [100, 101, 102, 107, 5_000, 1 << 40] {
            let at = first_moment(Timestamp::from_micros(100), |at| at >= Timestamp::from_micros(wanted));
            assert_eq!(at, Timestamp::from_micros(wanted));
        }
        assert_eq!(first_moment(Timestamp::EPOCH, |_| false), Timestamp::MAX);
    }

    /// Half of the window before still counts in the middle of this one.
    #[test]
    fn sliding_by_its_definition() {
        let limit: Limit = "10 / minute sliding".parse().unwrap();
        let at = Timestamp::from_secs(10);
        let entry = Entry { when: at, booked_at: at, permit: PermitId(1), minus: 0, plus: 9 };
        let log = Log { entries: vec![entry], ..Log::default() };
        assert_eq!(log.used(&limit, Timestamp::from_secs(59)), 9);
        assert_eq!(log.used(&limit, Timestamp::from_secs(90)), 5);
        assert!(log.fits(&limit, 5, Timestamp::from_secs(90)));
        assert!(!log.fits(&limit, 6, Timestamp::from_secs(90)));
        assert_eq!(log.resets_at(&limit, Timestamp::from_secs(90)), Timestamp::from_secs(120));
    }

    /// Ten units: ten seconds at one a second give ten, of which five were settled at a tenth of that.
    #[test]
    fn a_bucket_refills_at_the_rate_of_each_span() {
        let (slow, quick): (Limit, Limit) = (
            "1 / 10 seconds bucket burst 20".parse().unwrap(),
            "10 / 10 seconds bucket burst 20".parse().unwrap(),
        );
        let at = Timestamp::from_secs;
        let entry = Entry { when: at(100), booked_at: at(100), permit: PermitId(1), minus: 0, plus: 10 };
        let mut log = Log { entries: vec![entry], ..Log::default() };
        log.refilled(&quick, at(100), None);
        assert_eq!([log.used(&quick, at(110)), log.used(&slow, at(110))], [0, 9]);
        log.refilled(&quick, at(105), Some(PermitId(2)));
        assert_eq!([log.used(&quick, at(110)), log.used(&slow, at(110))], [0, 5]);
        assert_eq!(log.used(&slow, at(115)), 4);
        log.forget(PermitId(2));
        assert_eq!(log.used(&slow, at(110)), 9);
    }
}
