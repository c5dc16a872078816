//! Exact decimal fractions.

use std::fmt;

/// A number of up to six decimals, stored as a whole number of millionths: `0.3` is 300,000.
///
/// ```
/// use tollway_config::Millionths;
///
/// assert_eq!(Millionths::new(300_000).to_string(), "0.3");
/// assert_eq!(Millionths::whole(2).count(), 2_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millionths(u64);

impl Millionths {
    /// Millionths in one.
    pub const ONE: u64 = 1_000_000;
    /// The smallest positive value.
    pub(crate) const LEAST: Self = Self(1);

    /// This many millionths.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// A whole number.
    pub const fn whole(number: u64) -> Self {
        Self(number.saturating_mul(Self::ONE))
    }

    /// The nearest value to a number in a file, if it is from `LEAST` to `most`.
    ///
    /// Doubles are exact enough: the bounds are far below 2^53 millionths.
    pub(crate) fn nearest(number: f64, most: Self) -> Option<Self> {
        let count = (number * Self::ONE as f64).round();
        // NaN is in no range.
        let fits = (Self::LEAST.0 as f64..=most.0 as f64).contains(&count);
        fits.then_some(Self(count as u64))
    }

    /// How many millionths it is.
    pub const fn count(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Millionths {
    /// With as many decimals as it has: `2`, `0.3`, `0.000001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / Self::ONE, self.0 % Self::ONE);
        match fraction {
            0 => write!(f, "{whole}"),
            _ => write!(f, "{whole}.{}", format!("{fraction:06}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_to_the_nearest_millionth() {
        let most = Millionths::whole(1_000_000);
        let read = |number| Millionths::nearest(number, most).map(Millionths::count);
        assert_eq!(
            [0.3, 0.1, 3.5, 1e6].map(read),
            [300_000, 100_000, 3_500_000, 1_000_000_000_000].map(Some)
        );
        assert_eq!([0.000_000_6, 0.123_456_7].map(read), [1, 123_457].map(Some));
        for wrong in
            [0.0, -0.0, -1.0, 0.000_000_4, 1_000_000.1, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_show_the_decimals_they_have() {
        let shown = [0, 1, 300_000, 2_000_000, 12_340_000].map(|count| Millionths::new(count).to_string());
        assert_eq!(shown, ["0", "0.000001", "0.3", "2", "12.34"]);
    }
}
