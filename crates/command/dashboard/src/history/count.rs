//! A count in 16 bits: exact up to 2,047, then with an error below a thousandth.

/// The bits of the mantissa.
const MANTISSA: u32 = 11;

/// The largest exponent that its bits hold.
const EXPONENT_MAX: u32 = (1 << (16 - MANTISSA)) - 1;

/// Packs a count, rounded down.
pub(super) fn pack(count: u64) -> u16 {
    let exponent = (u64::BITS - count.leading_zeros()).saturating_sub(MANTISSA);
    if exponent > EXPONENT_MAX {
        return u16::MAX;
    }
    let mantissa = u16::try_from(count >> exponent).unwrap_or(u16::MAX);
    u16::try_from(exponent << MANTISSA).unwrap_or(u16::MAX) | mantissa
}

/// The count.
pub(super) fn unpack(packed: u16) -> u64 {
    let exponent = u32::from(packed) >> MANTISSA;
    u64::from(packed & ((1 << MANTISSA) - 1)) << exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_counts_are_exact_and_large_ones_nearly() {
        for count in (0..5_000).chain([1 << 20, 123_456_789, 1 << 40, (2_047 << 31) + 5]) {
            let read = unpack(pack(count));
            assert!(read <= count && count - read <= count / 1_000, "{count} was {read}");
            assert!(count > 2_047 || read == count, "{count} was {read}");
        }
        assert_eq!(unpack(pack(u64::MAX)), 2_047 << 31);
    }
}
