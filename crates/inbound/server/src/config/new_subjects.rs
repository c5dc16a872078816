//! `new_subjects`: how many new subjects a client network may bring.

use tollway::Span;
use tollway_config::Section;

use crate::new_subjects::NewSubjectsRate;

const EXAMPLE: &str = "write it like `new_subjects = \"100 / second\"`, or \"off\"";

/// The most in a period: more than a store makes.
const AMOUNT_MAX: u64 = 1_000_000;

/// Reads `"100 / second"`, or `"off"` for no bound. `None` if it is not set, or wrong.
#[allow(clippy::option_option, reason = "not set, or set to no bound")]
pub(super) fn read(section: &mut Section<'_>) -> Option<Option<NewSubjectsRate>> {
    let text = section.string("new_subjects", "100 / second")?;
    if *text.get_ref() == "off" {
        return Some(None);
    }
    let rate = rate_of(text.get_ref());
    if rate.is_none() {
        let message = format!("{:?} is not a rate of new subjects", text.get_ref());
        section.problem("new_subjects", message, EXAMPLE);
    }
    rate.map(Some)
}

fn rate_of(text: &str) -> Option<NewSubjectsRate> {
    let (amount, period) = text.split_once('/')?;
    let amount = amount.trim().parse().ok().filter(|amount| (1..=AMOUNT_MAX).contains(amount))?;
    let period = match period.trim() {
        "second" => Span::from_secs(1),
        "minute" => Span::from_mins(1),
        "hour" => Span::from_hours(1),
        _ => return None,
    };
    Some(NewSubjectsRate { amount, period })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let rate = |text| rate_of(text).map(|rate| (rate.amount, rate.period));
        assert_eq!(rate("100 / second"), Some((100, Span::from_secs(1))));
        assert_eq!(rate("5/minute"), Some((5, Span::from_mins(1))));
        for wrong in ["", "100", "0 / second", "100 / day", "-1 / second", "1000001 / hour"] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }
}
