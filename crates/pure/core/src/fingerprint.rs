//! A stable hash (FNV-1a) for stored identities: the same in every process and release.
//!
//! Not for hash tables that an attacker can fill; those need a seed.

/// Hashes a sequence of parts, each followed by its length, so that ("ab", "c") and ("a", "bc") differ.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The hash of no parts.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.bytes(text.as_bytes()).number(length)
    }

    /// Adds a number.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
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
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)))
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::new()
    }
}
