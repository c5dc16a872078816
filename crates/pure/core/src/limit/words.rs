//! The text of a limit: its default name, its identity and its canonical form.

use std::fmt;

use super::parse::unit_of;
use super::{Algorithm, Calendar, Limit};
use crate::bounds::SLOT_EXPIRES_DEFAULT;
use crate::fingerprint::Fingerprint;
use crate::{Name, Span};

/// `requests_per_minute`, `tokens_per_5_minutes`, `concurrent`.
pub(super) fn default_name(unit: &Name, algorithm: &Algorithm) -> Name {
    let text = match algorithm {
        Algorithm::Concurrency { .. } => "concurrent".to_owned(),
        Algorithm::Adaptive(_) => "rate".to_owned(),
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_) => format!("{unit}_per_{}", period_words(algorithm).replace(' ', "_")),
    };
    // Only a unit near the length bound is too long with the period appended; then the unit alone is the name.
    Name::new(&text).unwrap_or_else(|_| unit.clone())
}

/// The hash that ties a meter to its limit. It is stored, so it must never change within a version of the keys.
pub(super) fn identity(name: &Name, unit: &Name, algorithm: &Algorithm) -> u32 {
    let zone = match algorithm {
        Algorithm::Window(Calendar::Day(zone) | Calendar::Week(zone) | Calendar::Month(zone)) => zone.name(),
        Algorithm::Window(Calendar::Every(_))
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_)
        | Algorithm::Concurrency { .. } => "",
    };
    // Neither the expiry of slots nor the rate at which learning starts is part of it: changing one must not drop the
    // slots in use, or what was learned.
    let period = match algorithm {
        Algorithm::Concurrency { .. } | Algorithm::Adaptive(_) => String::new(),
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_) => period_words(algorithm),
    };
    let parts = [name.as_str(), unit.as_str(), algorithm_word(algorithm), &period, zone];
    // 32 bits tell a few limits apart, and a policy refuses two with the same identity. Never 0.
    parts.iter().fold(Fingerprint::new(), |print, part| print.text(part)).half().max(1)
}

pub(super) fn write_limit(limit: &Limit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if *limit.name() != default_name(limit.unit(), limit.algorithm()) {
        write!(f, "{}: ", limit.name())?;
    }
    let (amount, algorithm) = (limit.amount(), limit.algorithm());
    let unit = unit_of(amount, limit.unit().as_str());
    let rate = || format!("{amount} {unit} / {}", written_period(algorithm));
    match algorithm {
        Algorithm::Window(Calendar::Day(zone) | Calendar::Week(zone) | Calendar::Month(zone))
            if zone.name() != "UTC" =>
        {
            write!(f, "{} in {zone}", rate())
        }
        Algorithm::Window(_) => f.write_str(&rate()),
        Algorithm::Bucket { burst, .. } if *burst != amount => write!(f, "{} bucket burst {burst}", rate()),
        Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_) => write!(f, "{} {}", rate(), algorithm_word(algorithm)),
        Algorithm::Concurrency { expires: SLOT_EXPIRES_DEFAULT } => write!(f, "{amount} concurrent"),
        Algorithm::Concurrency { expires } => write!(f, "{amount} concurrent expires {expires}"),
    }
}

pub(super) fn algorithm_word(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Window(_) => "window",
        Algorithm::FromFirstCall(_) => "from first call",
        Algorithm::Sliding(_) => "sliding",
        Algorithm::Bucket { .. } => "bucket",
        Algorithm::Paced(_) => "paced",
        Algorithm::Adaptive(_) => "adaptive",
        Algorithm::Concurrency { .. } => "concurrent",
    }
}

fn period_words(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Window(Calendar::Day(_)) => "day".to_owned(),
        Algorithm::Window(Calendar::Week(_)) => "week".to_owned(),
        Algorithm::Window(Calendar::Month(_)) => "month".to_owned(),
        Algorithm::Window(Calendar::Every(period))
        | Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period)
        | Algorithm::Bucket { period, .. }
        | Algorithm::Paced(period)
        | Algorithm::Adaptive(period)
        | Algorithm::Concurrency { expires: period } => span_words(*period),
    }
}

/// The period in a form that parses back: a window of whole days that is no calendar day is written in hours.
fn written_period(algorithm: &Algorithm) -> String {
    let whole_days = |period: &Span| period.as_micros().is_multiple_of(Span::from_days(1).as_micros());
    match algorithm {
        Algorithm::Window(Calendar::Every(period)) if whole_days(period) => {
            let hours = period.as_micros().checked_div(Span::from_hours(1).as_micros()).unwrap_or(0);
            format!("{hours} hours")
        }
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_)
        | Algorithm::Concurrency { .. } => period_words(algorithm),
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
