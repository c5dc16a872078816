//! A stable hash (FNV-1a) for stored identities: the same in every process and release.
//!
//! Not for hash tables that an attacker can fill; those need a seed.

const PRIME: u64 = 0x100_0000_01b3;

/// The prime to the power of the index.
const POWERS: [u64; 9] = {
    let mut powers = [1; 9];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = PRIME.wrapping_mul(powers[index - 1]);
        index += 1;
    }
    powers
};

/// Hashes a sequence of parts, each followed by its length, so that ("ab", "c") and ("a", "bc") differ.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The hash of no parts.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Of one text, whose hash is known.
    pub(crate) const fn of_text(hash: u64) -> Self {
        Self(hash)
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.bytes(text.as_bytes()).number(length)
    }

    /// Adds a number.
    #[must_use]
    #[inline]
    pub fn number(self, number: u64) -> Self {
        // Most numbers are small, and a byte of zero only multiplies: all that follow the last other byte do so at once.
        let mut hash = self.0;
        let (mut rest, mut zeros) = (number, POWERS.len().saturating_sub(1));
        while rest != 0 {
            hash = (hash ^ (rest & 0xff)).wrapping_mul(PRIME);
            rest >>= 8;
            zeros = zeros.saturating_sub(1);
        }
        Self(hash.wrapping_mul(POWERS.get(zeros).copied().unwrap_or(1)))
    }

    /// The hash of all parts.
    pub const fn finish(self) -> u64 {
        self.0
    }

    /// The same in 32 bits.
    pub const fn half(self) -> u32 {
        (self.0 ^ (self.0 >> 32)) as u32
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME)))
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_hashed_as_its_eight_bytes() {
        for number in [0, 1, 0xff, 0x100, 0xff00_0000, 0x00ff_00ff_00ff_00ff, 1 << 56, u64::MAX] {
            let start = Fingerprint::new().text("adobe");
            assert_eq!(
                start.number(number).finish(),
                start.bytes(&number.to_le_bytes()).finish(),
                "{number:#x}"
            );
        }
    }
}
