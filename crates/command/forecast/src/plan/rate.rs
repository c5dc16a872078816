//! The long-run rate of calls: an exact fraction, rounded only when converted to a quantity.

use std::cmp::Ordering;

use tollway_core::Span;

/// A number of calls in a number of microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    calls: u128,
    micros: u128,
}

impl Rate {
    pub(crate) fn new(calls: u128, micros: u128) -> Self {
        Self { calls, micros: micros.max(1) }
    }

    /// How many items of this many calls fit into this time; rounded down.
    pub fn in_each(self, span: Span, calls_per_item: u64) -> Quantity {
        let millionths =
            self.calls.saturating_mul(u128::from(span.as_micros())).saturating_mul(Quantity::ONE);
        let calls_per_item = u128::from(calls_per_item.max(1));
        Quantity(millionths / self.micros.saturating_mul(calls_per_item))
    }

    /// How many calls are in flight on average if each takes this long; rounded up.
    pub(crate) fn in_flight(self, latency: Span) -> u128 {
        self.calls.saturating_mul(u128::from(latency.as_micros())).div_ceil(self.micros)
    }

    /// The share of `other` used at this rate. For display only, so a float is good enough.
    pub(crate) fn share_of(self, other: Self) -> f64 {
        let each = |rate: Self| rate.calls as f64 / rate.micros as f64;
        each(self) / each(other)
    }
}

impl Ord for Rate {
    /// Compares whole parts, then the inverted remainders: no product can overflow.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut one, mut two) = (*self, *other);
        loop {
            match (one.calls / one.micros).cmp(&(two.calls / two.micros)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
            let (left_of_one, left_of_two) = (one.calls % one.micros, two.calls % two.micros);
            if left_of_one == 0 || left_of_two == 0 {
                return left_of_one.cmp(&left_of_two);
            }
            // a/b < c/d is d/c < b/a.
            (one, two) = (Self::new(two.micros, left_of_two), Self::new(one.micros, left_of_one));
        }
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rate {}

/// A number of items or calls with its fraction, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity(u128);

impl Quantity {
    /// The millionths of one item.
    pub const ONE: u128 = 1_000_000;

    /// This many millionths.
    pub const fn from_millionths(millionths: u128) -> Self {
        Self(millionths)
    }

    /// The number in millionths, saturating at [`u128::MAX`].
    pub fn millionths(self) -> u128 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_compare_exactly() {
        let rate = Rate::new;
        assert!(rate(1, 3) < rate(334, 1_000));
        assert!(rate(1, 3) > rate(333, 1_000));
        assert_eq!(rate(200, 60), rate(10, 3));
        assert!(rate(0, 5) < rate(1, u128::MAX));
        let large = u128::MAX / 2;
        assert!(rate(large - 1, large) < rate(large, large + 1), "their products would not fit");
        assert!(rate(large + 1, large) > rate(large, large));
    }
}
