//! Reads a rate from a vendor's text: "about 3 requests a second", "100 rpm", "1,000 calls per 10 minutes".

use tollway::Span;
use tollway::config::Millionths;

use super::apis::per_second;

const PERIODS: [(&str, Span); 13] = [
    ("second", Span::from_secs(1)),
    ("seconds", Span::from_secs(1)),
    ("sec", Span::from_secs(1)),
    ("s", Span::from_secs(1)),
    ("minute", Span::from_mins(1)),
    ("minutes", Span::from_mins(1)),
    ("min", Span::from_mins(1)),
    ("hour", Span::from_hours(1)),
    ("hours", Span::from_hours(1)),
    ("hr", Span::from_hours(1)),
    ("day", Span::from_days(1)),
    ("days", Span::from_days(1)),
    ("month", Span::from_days(30)),
];

const SHORT: [(&str, Span); 5] = [
    ("rps", Span::from_secs(1)),
    ("qps", Span::from_secs(1)),
    ("rpm", Span::from_mins(1)),
    ("rph", Span::from_hours(1)),
    ("rpd", Span::from_days(1)),
];

const CALLS: [&str; 11] = [
    "request",
    "requests",
    "req",
    "reqs",
    "call",
    "calls",
    "query",
    "queries",
    "operation",
    "operations",
    "hits",
];

/// Longer numbers are not rates.
const DIGITS_MAX: usize = 12;

/// The slowest call rate in the text, if any.
pub(super) fn rate(text: &str) -> Option<Millionths> {
    let words = words(text);
    (0..words.len()).filter_map(|start| rate_at(words.get(start..)?)).min()
}

/// `NUMBER [requests] (a | per | / | each | every) [NUMBER] PERIOD`, or `NUMBER rps`, at the start of the words.
fn rate_at(words: &[String]) -> Option<Millionths> {
    let (first, mut rest) = words.split_first()?;
    let amount = number(first)?;
    if let Some((_, period)) = rest.first().and_then(|word| SHORT.iter().find(|(short, _)| short == word)) {
        return scaled(amount, 1, *period);
    }
    if let [call, behind @ ..] = rest
        && CALLS.contains(&call.as_str())
    {
        rest = behind;
    }
    let [link, rest @ ..] = rest else { return None };
    if !["a", "an", "per", "/", "each", "every", "in"].contains(&link.as_str()) {
        return None;
    }
    let (periods, word) = match rest {
        [periods, word, ..] if number(periods).is_some() => (whole(periods)?, word),
        [word, ..] => (1, word),
        [] => return None,
    };
    let (_, period) = PERIODS.iter().find(|(name, _)| name == word)?;
    scaled(amount, periods, *period)
}

/// Never 0: a rate too slow to represent is `None`.
fn scaled(amount: Millionths, periods: u64, period: Span) -> Option<Millionths> {
    let rate = per_second(amount.count(), period.times(periods)).count() / Millionths::ONE;
    (rate > 0).then(|| Millionths::new(rate))
}

/// Words, numbers and slashes, in lower case. A number keeps its decimal point and loses its commas.
fn words(text: &str) -> Vec<String> {
    let spaced = text.to_lowercase().replace('/', " / ");
    let trimmed = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/').to_owned();
    spaced.split_whitespace().map(trimmed).filter(|word| !word.is_empty()).collect()
}

fn whole(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| (1..=1_000_000).contains(number))
}

/// `3`, `2.5`, `1,000`, `10k`.
fn number(word: &str) -> Option<Millionths> {
    let (digits, thousands) = match word.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => (word, 1),
    };
    let digits = digits.replace(',', "");
    let (units, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let numeric = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if units.is_empty()
        || !numeric(units)
        || !numeric(fraction)
        || units.len() > DIGITS_MAX
        || fraction.len() > 6
    {
        return None;
    }
    let millionths: u64 = format!("{units}{fraction:0<6}").parse().ok()?;
    millionths.checked_mul(thousands).filter(|count| *count > 0).map(Millionths::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_rates_in_vendor_texts() {
        for (text, expected) in [
            ("about 3 requests a second per integration", "3"),
            ("Approx. 3 requests/second on average.", "3"),
            ("5 req/sec", "5"),
            ("2.5 per second", "2.5"),
            ("at most 120 calls per minute", "2"),
            ("1,800 requests / hour", "0.5"),
            ("3.6k requests an hour", "1"),
            ("100 requests per 10 seconds, 600 requests per minute", "10"),
            ("10 rps, bursts of 50", "10"),
            ("(60 RPM)", "1"),
            ("864 a day", "0.01"),
        ] {
            assert_eq!(rate(text).map(|rate| rate.to_string()).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_have_no_rate() {
        for text in [
            "",
            "unknown",
            "ask support",
            "250k tokens per minute",
            "3 integrations",
            "0 requests a second",
            "1.2.3 a second",
            "since 2024",
            "99999999999999999999 requests a second",
            "3 requests a fortnight",
            "3 per 0 seconds",
        ] {
            assert_eq!(rate(text), None, "{text}");
        }
    }
}
