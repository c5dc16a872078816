//! Rates and counts in integers: every product is made in 128 bits and saturates.

use crate::Span;

/// `a * b / c`, rounded down; 0 if `c` is 0.
pub(super) fn scaled(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a).saturating_mul(u128::from(b));
    product.checked_div(u128::from(c)).map_or(0, |result| u64::try_from(result).unwrap_or(u64::MAX))
}

/// This many thousandths of `value`.
pub(super) fn thousandths(value: u64, share: u64) -> u64 {
    scaled(value, share, 1_000)
}

/// The rate, in millionths a second, of `count` calls in `span`.
pub(super) fn rate_of(count: u64, span: Span) -> u64 {
    let millionths = u128::from(count).saturating_mul(1_000_000_000_000);
    let rate = millionths.checked_div(u128::from(span.as_micros())).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Calls that `rate` allows in `span`, rounded down.
pub(super) fn calls_in(rate: u64, span: Span) -> u64 {
    let product = u128::from(rate).saturating_mul(u128::from(span.as_micros()));
    u64::try_from(product.checked_div(1_000_000_000_000).unwrap_or(0)).unwrap_or(u64::MAX)
}
