//! How fast calls are granted in the long run, as a fraction that nothing is rounded in until it is shown.

use std::cmp::Ordering;
use std::fmt;

use serde::{Serialize, Serializer};
use tollway::Span;

use crate::words;

/// So many calls in so many microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    calls: u128,
    micros: u128,
}

impl Rate {
    pub(super) fn new(calls: u128, micros: u128) -> Self {
        Self { calls, micros: micros.max(1) }
    }

    /// How many calls it grants in this time, by the number that one item makes; rounded down.
    pub(super) fn in_each(self, span: Span, calls_per_item: u64) -> Figure {
        let millionths =
            self.calls.saturating_mul(u128::from(span.as_micros())).saturating_mul(Figure::WHOLE);
        let calls_per_item = u128::from(calls_per_item.max(1));
        Figure(millionths / self.micros.saturating_mul(calls_per_item))
    }

    /// How many calls are under way at any time if each takes this long; rounded up.
    pub(super) fn under_way(self, latency: Span) -> u128 {
        self.calls.saturating_mul(u128::from(latency.as_micros())).div_ceil(self.micros)
    }

    /// Which part of `other` is used at this rate. For show only, so a float is good enough.
    pub(super) fn share_of(self, other: Self) -> f64 {
        let each = |rate: Self| rate.calls as f64 / rate.micros as f64;
        each(self) / each(other)
    }
}

impl Ord for Rate {
    /// Compares whole parts, then what is left of both upside down: no product that could overflow.
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

/// A number with a fraction, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Figure(u128);

impl Figure {
    const WHOLE: u128 = 1_000_000;
}

impl fmt::Display for Figure {
    /// Two places, from a hundred on none: `7,500`, `66.66`, `12.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, hundredths) = (self.0 / Self::WHOLE, self.0 % Self::WHOLE / 10_000);
        let Ok(count) = u64::try_from(whole) else { return write!(f, "over {}", words::count(u64::MAX)) };
        match (count, hundredths) {
            (0, 0) if self.0 > 0 => f.write_str("less than 0.01"),
            (100.., _) | (_, 0) => f.write_str(&words::count(count)),
            (_, tenths) if tenths.is_multiple_of(10) => write!(f, "{count}.{}", tenths / 10),
            _ => write!(f, "{count}.{hundredths:02}"),
        }
    }
}

impl Serialize for Figure {
    /// A whole number where it is one.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.0 / Self::WHOLE) {
            Ok(whole) if self.0.is_multiple_of(Self::WHOLE) => serializer.serialize_u64(whole),
            _ => serializer.serialize_f64(self.0 as f64 / Self::WHOLE as f64),
        }
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

    #[test]
    fn figures_are_rounded_down_and_never_shown_as_nothing() {
        let shown = [0, 8_680, 520_833, 12_500_000, 66_666_666, 333_333_333, 7_500_000_000]
            .map(|millionths| Figure(millionths).to_string());
        assert_eq!(shown, ["0", "less than 0.01", "0.52", "12.5", "66.66", "333", "7,500"]);
        assert_eq!(Figure(u128::MAX).to_string(), "over 18,446,744,073,709,551,615");
    }
}
