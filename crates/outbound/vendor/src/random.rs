//! Reproducible random numbers: the same seed gives the same vendors, and the same tests.

/// A small generator (splitmix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// A fraction from 0 up to, not including, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True this many times in a thousand.
    pub fn per_thousand(&mut self, times: u64) -> bool {
        self.bits() % 1_000 < times
    }

    /// A number from `low` to `high`, each order of magnitude as likely as the next.
    pub fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.fraction())
    }

    /// An index of a list of this length, which is not empty.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| -> Vec<u64> {
            let mut random = Random::new(seed);
            (0..20).map(|_| random.between(3, 9)).collect()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7).iter().all(|number| (3..=9).contains(number)));
    }
}
