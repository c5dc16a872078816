//! The text of a limit: its default name, its identity and its canonical form.

use std::fmt;

use super::parse::unit_of;
use super::{Algorithm, Calendar, Limit, Zone};
use crate::algorithm::{AlgorithmRules, with_rules};
use crate::fingerprint::Fingerprint;
use crate::{Name, Span};

/// `requests_per_minute`, `tokens_per_5_minutes`, `concurrent`.
pub(super) fn default_name(unit: &Name, algorithm: &Algorithm) -> Name {
    let text = match with_rules!(algorithm, rules => rules.own_name()) {
        Some(name) => name.to_owned(),
        None => format!("{unit}_per_{}", period_words(algorithm).replace(' ', "_")),
    };
    // Only a unit near the length bound is too long with the period appended; then the unit alone is the name.
    Name::new(&text).unwrap_or_else(|_| unit.clone())
}

/// The hash that ties a meter to its limit. It is stored, so it must never change within a version of the keys.
pub(super) fn identity(name: &Name, unit: &Name, algorithm: &Algorithm) -> u32 {
    let zone = algorithm.calendar().and_then(Calendar::zone).map_or("", Zone::name);
    let (word, own_name) = with_rules!(algorithm, rules => (rules.word(), rules.own_name()));
    let period = if own_name.is_some() { String::new() } else { period_words(algorithm) };
    let parts = [name.as_str(), unit.as_str(), word, &period, zone];
    // 32 bits tell a few limits apart, and a policy refuses two with the same identity. Never 0.
    parts.iter().fold(Fingerprint::new(), |print, part| print.text(part)).half().max(1)
}

pub(super) fn write_limit(limit: &Limit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if *limit.name() != default_name(limit.unit(), limit.algorithm()) {
        write!(f, "{}: ", limit.name())?;
    }
    let (amount, algorithm) = (limit.amount(), limit.algorithm());
    let rate = format!("{amount} {} / {}", unit_of(amount, limit.unit().as_str()), written_period(algorithm));
    with_rules!(algorithm, rules => rules.write(amount, &rate, f))
}

fn period_words(algorithm: &Algorithm) -> String {
    match algorithm.calendar() {
        Some(Calendar::Day(_)) => "day".to_owned(),
        Some(Calendar::Week(_)) => "week".to_owned(),
        Some(Calendar::Month(_)) => "month".to_owned(),
        Some(Calendar::Every(_)) | None => {
            span_words(with_rules!(algorithm, rules => rules.period()).unwrap_or_default())
        }
    }
}

/// The period in a form that parses back: a window of whole days that is no calendar day is written in hours.
fn written_period(algorithm: &Algorithm) -> String {
    let whole_days = |period: &Span| period.as_micros().is_multiple_of(Span::from_days(1).as_micros());
    match algorithm.calendar() {
        Some(Calendar::Every(period)) if whole_days(period) => {
            let hours = period.as_micros().checked_div(Span::from_hours(1).as_micros()).unwrap_or(0);
            format!("{hours} hours")
        }
        Some(_) | None => period_words(algorithm),
    }
}

/// The largest word that fits exactly: `minute`, `5 minutes`, `1500 ms`; 30 days are a month, 7 a week.
fn span_words(span: Span) -> String {
    const WORDS: [(Span, &str); 7] = [
        (Span::from_days(30), "month"),
        (Span::from_days(7), "week"),
        (Span::from_days(1), "day"),
        (Span::from_hours(1), "hour"),
        (Span::from_mins(1), "minute"),
        (Span::from_secs(1), "second"),
        (Span::from_millis(1), "ms"),
    ];
    for (size, word) in WORDS {
        let count = span.as_micros().checked_div(size.as_micros()).unwrap_or(0);
        if count > 0 && size.times(count) == span {
            return match (count, word) {
                (count, "ms") => format!("{count} ms"),
                (1, word) => word.to_owned(),
                (count, word) => format!("{count} {word}s"),
            };
        }
    }
    format!("{span}")
}
