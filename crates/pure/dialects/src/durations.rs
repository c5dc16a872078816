//! Numbers and durations as text: `2`, `0.75`, `6m0s`, `33 seconds`.

use std::time::Duration;

/// Counts stay below 2^53, like all numbers of Tollway.
pub(crate) const COUNT_MAX: u64 = (1 << 53) - 1;

/// A duration beyond this is a mistake: no vendor has a window longer than a year.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(400 * 86_400);

/// A number with an optional fraction, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) whole: u64,
    pub(crate) billionths: u32,
}

impl Decimal {
    /// The whole text as a number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, rest) = Self::prefix(text.trim())?;
        rest.is_empty().then_some(number)
    }

    /// The number at the beginning of a text, and the rest. Digits beyond a billionth are dropped.
    fn prefix(text: &str) -> Option<(Self, &str)> {
        let (digits, rest) = split_digits(text);
        let whole = digits.parse().ok()?;
        let (fraction, rest) = match rest.strip_prefix('.').map(split_digits) {
            Some((fraction, behind)) if !fraction.is_empty() => (fraction, behind),
            _ => ("", rest),
        };
        let billionths = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let billionths = billionths.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        Some((Self { whole, billionths }, rest))
    }

    /// As so many times `unit`, in nanoseconds.
    fn times(self, unit: u64) -> u128 {
        let unit = u128::from(unit);
        u128::from(self.whole) * unit + u128::from(self.billionths) * unit / 1_000_000_000
    }

    pub(crate) fn seconds(self) -> Option<Duration> {
        bounded(self.times(SECOND))
    }

    pub(crate) fn milliseconds(self) -> Option<Duration> {
        bounded(self.times(MILLISECOND))
    }
}

/// A count: `50`, or `598.0`.
pub(crate) fn count(text: &str) -> Option<u64> {
    Decimal::parse(text).map(|number| number.whole).filter(|whole| *whole <= COUNT_MAX)
}

/// A duration with units, as Go and Google write it: `6m0s`, `12ms`, `36.429760048s`.
pub(crate) fn with_units(text: &str) -> Option<Duration> {
    let (nanoseconds, rest) = units_prefix(text.trim())?;
    if rest.is_empty() { bounded(nanoseconds) } else { None }
}

/// A duration at the beginning of a sentence: `7m12s. Visit`, `33 seconds.`, `20`.
pub(crate) fn in_sentence(text: &str) -> Option<Duration> {
    let text = text.trim_start();
    match units_prefix(text) {
        Some((nanoseconds, _)) => bounded(nanoseconds),
        None => Decimal::prefix(text)?.0.seconds(),
    }
}

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// Nanoseconds at the beginning of a text, and the rest: one or more numbers with units.
fn units_prefix(text: &str) -> Option<(u128, &str)> {
    let (mut sum, mut rest) = (0_u128, text);
    let mut found = false;
    while let Some((number, behind)) = Decimal::prefix(rest) {
        let behind = behind.trim_start_matches(' ');
        let letters = behind.find(|sign: char| !sign.is_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let Some(unit) = unit_of(unit) else { break };
        sum = sum.checked_add(number.times(unit))?;
        (rest, found) = (behind, true);
    }
    found.then_some((sum, rest))
}

fn unit_of(word: &str) -> Option<u64> {
    Some(match word {
        "d" | "day" | "days" => 86_400 * SECOND,
        "h" | "hour" | "hours" => 3_600 * SECOND,
        "m" | "min" | "minute" | "minutes" => 60 * SECOND,
        "s" | "sec" | "second" | "seconds" => SECOND,
        "ms" | "millisecond" | "milliseconds" => MILLISECOND,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ns" => 1,
        _ => return None,
    })
}

fn bounded(nanoseconds: u128) -> Option<Duration> {
    let nanoseconds = (nanoseconds <= DURATION_MAX.as_nanos()).then_some(nanoseconds)?;
    let (seconds, rest) = (nanoseconds / u128::from(SECOND), nanoseconds % u128::from(SECOND));
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(rest).ok()?))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u128> {
        with_units(text).map(|duration| duration.as_millis())
    }

    #[test]
    fn durations_of_go_and_google() {
        assert_eq!(millis("6m0s"), Some(360_000));
        assert_eq!(millis("12ms"), Some(12));
        assert_eq!(millis("1h2m3s"), Some(3_723_000));
        assert_eq!(millis("1m33.792s"), Some(93_792));
        assert_eq!(with_units("36.429760048s"), Some(Duration::new(36, 429_760_048)));
        assert_eq!(with_units("250\u{b5}s"), Some(Duration::from_micros(250)));
        for nonsense in ["", "s", "6", "6x", "-6s", "6m0", "6m 0s later", "1e3s", "99999999999h"] {
            assert_eq!(with_units(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn durations_in_sentences() {
        assert_eq!(in_sentence(" 7m12s. Visit the page"), Some(Duration::from_secs(432)));
        assert_eq!(in_sentence("33 seconds."), Some(Duration::from_secs(33)));
        assert_eq!(in_sentence("20."), Some(Duration::from_secs(20)));
        assert_eq!(in_sentence("a while"), None);
    }

    #[test]
    fn numbers_are_exact_and_bounded() {
        assert_eq!(Decimal::parse("0.75").and_then(Decimal::seconds), Some(Duration::from_millis(750)));
        assert_eq!(
            Decimal::parse("4321").and_then(Decimal::milliseconds),
            Some(Duration::from_millis(4_321))
        );
        assert_eq!(count("598.0"), Some(598));
        for nonsense in
            ["", "-1", "NaN", "inf", "1e9", "0x10", ".5", "9007199254740992", "99999999999999999999"]
        {
            assert_eq!(count(nonsense), None, "{nonsense}");
        }
    }
}
