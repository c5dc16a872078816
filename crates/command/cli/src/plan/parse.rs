//! Parses the arguments: numbers, durations, costs and a time.

use tollway::core::bounds::{AMOUNT_MAX, PERIOD_MAX, PERIOD_MIN};
use tollway::core::read_span;
use tollway::{Span, Timestamp};

/// The most calls per item, so that no product overflows.
const CALLS_MAX: u64 = 1_000_000_000;

/// The cost of one call in a unit: `tokens=3750`.
#[derive(Clone, Debug)]
pub(super) struct UnitCost {
    pub(super) unit: String,
    pub(super) amount: u64,
}

/// `1000000`, `1_000_000`, `250k`, `1M`, `2G`.
fn number(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes() {
        [.., b'k' | b'K'] => (&text[..text.len() - 1], 1_000),
        [.., b'M'] => (&text[..text.len() - 1], 1_000_000),
        [.., b'G'] => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let digits = digits.replace('_', "");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number; write it like 200, 1_000, 250k or 1M".to_owned());
    }
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| format!("more than the largest number, {}", u64::MAX))
}

/// The number of items.
pub(crate) fn items(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("write 1 or more; omit --items to see only rates".to_owned()),
        items => Ok(items),
    }
}

/// Calls per item.
pub(super) fn calls(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("write 1 or more: an item without calls is not limited".to_owned()),
        calls @ 1..=CALLS_MAX => Ok(calls),
        _ => Err(format!("more than the maximum of {CALLS_MAX} calls per item")),
    }
}

/// `tokens=3750`.
pub(super) fn unit_cost(text: &str) -> Result<UnitCost, String> {
    let (unit, amount) = text.split_once('=').ok_or("write it like tokens=3750")?;
    let (unit, amount) = (unit.trim().to_owned(), number(amount.trim())?);
    if unit.is_empty() {
        return Err("the unit is missing; write it like tokens=3750".to_owned());
    }
    if amount > AMOUNT_MAX {
        return Err(format!("more than the largest amount, {AMOUNT_MAX}"));
    }
    Ok(UnitCost { unit, amount })
}

/// The duration of one call: `250ms`, `1.5s`. At most the lifetime of a slot.
pub(crate) fn latency(text: &str) -> Result<Span, String> {
    match span(text)? {
        latency if latency < PERIOD_MIN => {
            Err(format!("shorter than {PERIOD_MIN}; write it like 250ms or 1.5s"))
        }
        latency if latency > PERIOD_MAX => {
            Err(format!("longer than {PERIOD_MAX}; write it like 250ms or 1.5s"))
        }
        latency => Ok(latency),
    }
}

/// The retention of jobs: `7d`.
pub(super) fn retention(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span::ZERO => Err("write a retention above zero".to_owned()),
        retention => Ok(retention),
    }
}

/// A duration as limits write it, or with a decimal point.
fn span(text: &str) -> Result<Span, String> {
    let wrong = || "not a duration; write it like 250ms, 1.5s, 10m, 2h or 7d".to_owned();
    let text = text.trim();
    let Some((whole, rest)) = text.split_once('.') else { return read_span(text).map_err(|_| wrong()) };
    let places = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, word) = rest.split_at(places);
    if whole.is_empty() || !(1..=6).contains(&places) {
        return Err(wrong());
    }
    let whole_part = read_span(&format!("{whole}{word}")).map_err(|_| wrong())?;
    let units = read_span(&format!("{digits}{word}")).map_err(|_| wrong())?.as_micros();
    let divisor = (0..places).fold(1, |divisor: u64, _| divisor * 10);
    Ok(whole_part.plus(Span::from_micros(units.div_ceil(divisor))))
}

/// A time in RFC 3339.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    let moment: jiff::Timestamp =
        text.parse().map_err(|_| "not a time with an offset; write it like 2026-11-15T08:00:00+01:00")?;
    let micros = u64::try_from(moment.as_microsecond()).map_err(|_| "before 1970")?;
    match Timestamp::from_micros(micros) {
        Timestamp::MAX => Err("after 2255, the latest time that Tollway supports".to_owned()),
        moment => Ok(moment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_underscores_and_suffixes() {
        for (text, expected) in [("7", 7), ("1_000_000", 1_000_000), ("250k", 250_000), ("1M", 1_000_000)] {
            assert_eq!(items(text), Ok(expected));
        }
        for text in
            ["", "k", "-5", "+5", "1.5M", "1 000", "0x10", "99999999999999999999", "1000000000000G", "é"]
        {
            assert!(items(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_may_have_a_decimal_point() {
        assert_eq!(latency("1.5s"), Ok(Span::from_millis(1_500)));
        assert_eq!(latency("0.25 s"), Ok(Span::from_millis(250)));
        assert_eq!(latency("2m"), Ok(Span::from_mins(2)));
        for text in ["1.s", ".5s", "1.5", "1.5.5s", "-1s", "1.5 parsecs", "0s", "0.0s", "367d", "1.é"] {
            assert!(latency(text).is_err(), "{text}");
        }
    }
}
