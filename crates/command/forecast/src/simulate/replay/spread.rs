//! Percentiles of durations, in bounded memory: within 2 % of the truth, and exact where all are equal.
//!
//! Each power of two is divided into 64 parts, and each part knows the mean of what fell into it.

use std::collections::BTreeMap;

use tollway_core::Span;

const PARTS: u64 = 64;

/// Durations. At most 64 parts for each of 53 powers of two.
#[derive(Debug, Default)]
pub struct Spread {
    parts: BTreeMap<u32, Part>,
    count: u64,
    longest: Span,
}

#[derive(Debug, Default)]
struct Part {
    count: u64,
    total: u128,
}

impl Spread {
    pub(crate) fn add(&mut self, span: Span) {
        let micros = span.as_micros();
        let part = self.parts.entry(part_of(micros)).or_default();
        part.count += 1;
        part.total += u128::from(micros);
        self.count += 1;
        self.longest = self.longest.max(span);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub fn longest(&self) -> Span {
        self.longest
    }

    /// The duration that this many percent do not exceed.
    pub fn percentile(&self, percent: u64) -> Span {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut below = 0;
        for part in self.parts.values() {
            below += u128::from(part.count);
            if below >= rank {
                let mean = part.total.div_ceil(u128::from(part.count.max(1)));
                return Span::from_micros(u64::try_from(mean).unwrap_or(u64::MAX));
            }
        }
        self.longest
    }
}

/// Numbers below 64 have a part of their own; above, the highest seven bits name the part.
fn part_of(micros: u64) -> u32 {
    let shift = (u64::BITS - micros.leading_zeros()).saturating_sub(PARTS.ilog2() + 1);
    shift * PARTS as u32 + (micros >> shift) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_durations_are_exact_and_others_close() {
        let mut spread = Spread::default();
        for _ in 0..90 {
            spread.add(Span::from_secs(20));
        }
        for second in 0..10 {
            spread.add(Span::from_secs(30 + second));
        }
        assert_eq!(spread.percentile(50), Span::from_secs(20));
        assert_eq!(spread.percentile(90), Span::from_secs(20));
        assert_eq!(spread.percentile(99), Span::from_secs(38));
        assert_eq!((spread.longest(), spread.count()), (Span::from_secs(39), 100));
    }

    #[test]
    fn parts_follow_one_another_and_their_number_is_bounded() {
        let numbers =
            (0..53).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + (1 << power) / 3]);
        let mut numbers: Vec<u64> = numbers.chain(0..5_000).collect();
        numbers.sort_unstable();
        let parts: Vec<u32> = numbers.iter().map(|number| part_of(*number)).collect();
        assert!(parts.is_sorted());
        assert!(part_of(Span::MAX.as_micros()) < 53 * 64);
    }

    #[test]
    fn percentile_of_none_is_zero() {
        assert_eq!(Spread::default().percentile(50), Span::ZERO);
    }
}
