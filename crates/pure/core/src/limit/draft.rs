//! A limit being parsed: its parts as written in a text or a table, and how they become a limit.

use super::{Algorithm, Calendar, Limit, LimitError, Zone};
use crate::bounds::SLOT_EXPIRES_DEFAULT;
use crate::{Name, Span};

/// The part of a limit an error is about. The parser maps it to a word of the text or a key of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Amount,
    Unit,
    Period,
    Algorithm,
    Burst,
    Zone,
    Expires,
}

/// A word for a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeriodWord {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
}

impl PeriodWord {
    /// The words, longest first, with their abbreviations.
    pub(super) const KNOWN: [(&'static str, Self); 20] = [
        ("millisecond", Self::Millisecond),
        ("ms", Self::Millisecond),
        ("second", Self::Second),
        ("sec", Self::Second),
        ("s", Self::Second),
        ("minute", Self::Minute),
        ("min", Self::Minute),
        ("m", Self::Minute),
        ("hour", Self::Hour),
        ("hr", Self::Hour),
        ("h", Self::Hour),
        ("day", Self::Day),
        ("d", Self::Day),
        ("week", Self::Week),
        ("w", Self::Week),
        ("month", Self::Month),
        ("mo", Self::Month),
        ("mins", Self::Minute),
        ("secs", Self::Second),
        ("hrs", Self::Hour),
    ];

    pub(super) fn read(word: &str) -> Option<Self> {
        let known =
            |word: &str| Self::KNOWN.iter().find(|(text, _)| *text == word).map(|(_, period)| *period);
        // `M` is a million where amounts are read, and a month elsewhere in the field: it is no length of time here.
        if word == "M" {
            return None;
        }
        let word = word.to_lowercase();
        known(&word).or_else(|| known(word.strip_suffix('s')?))
    }

    /// Its length as a duration; a month has 30 days.
    pub(super) fn span(self) -> Span {
        match self {
            Self::Millisecond => Span::from_millis(1),
            Self::Second => Span::from_secs(1),
            Self::Minute => Span::from_mins(1),
            Self::Hour => Span::from_hours(1),
            Self::Day => Span::from_days(1),
            Self::Week => Span::from_days(7),
            Self::Month => Span::from_days(30),
        }
    }
}

/// The algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Window,
    FromFirstCall,
    Sliding,
    Bucket,
    Paced,
    Adaptive,
    Concurrency,
}

impl Kind {
    /// The word of each.
    pub(super) const KNOWN: [(&'static str, Self); 7] = [
        ("window", Self::Window),
        ("from first call", Self::FromFirstCall),
        ("sliding", Self::Sliding),
        ("bucket", Self::Bucket),
        ("paced", Self::Paced),
        ("adaptive", Self::Adaptive),
        ("concurrent", Self::Concurrency),
    ];
}

/// The parts as written.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) name: Option<Name>,
    pub(super) amount: u64,
    pub(super) unit: Option<Name>,
    /// The number before the period: the 5 of `5 minutes`.
    pub(super) count: Option<u64>,
    pub(super) period: Option<PeriodWord>,
    pub(super) kind: Kind,
    pub(super) burst: Option<u64>,
    pub(super) zone: Option<Zone>,
    pub(super) expires: Option<Span>,
}

/// What is wrong, and with which part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DraftError {
    pub(super) part: Part,
    pub(super) message: String,
}

impl Draft {
    /// Builds the limit.
    pub(super) fn build(self) -> Result<Limit, DraftError> {
        self.refuse_misplaced_options()?;
        let unit = match self.unit.clone() {
            Some(unit) => unit,
            None => Name::new("requests").map_err(|cause| error(Part::Unit, cause))?,
        };
        let limit = Limit::new(self.amount, unit, self.algorithm()?).map_err(|cause| {
            let part = match cause {
                LimitError::ZeroBurst => Part::Burst,
                LimitError::AmountTooLarge(amount) if Some(amount) == self.burst => Part::Burst,
                LimitError::PeriodOutOfRange(_) if self.kind == Kind::Concurrency => Part::Expires,
                LimitError::PeriodOutOfRange(_) => Part::Period,
                _ => Part::Amount,
            };
            error(part, cause)
        })?;
        Ok(match self.name {
            Some(name) => limit.named(name),
            None => limit,
        })
    }

    fn refuse_misplaced_options(&self) -> Result<(), DraftError> {
        if self.burst.is_some() && self.kind != Kind::Bucket {
            return Err(error(Part::Burst, "a burst belongs to a bucket: write `bucket burst N`"));
        }
        if self.expires.is_some() && self.kind != Kind::Concurrency {
            return Err(error(
                Part::Expires,
                "`expires` belongs to a concurrency limit: write `N concurrent expires 60s`",
            ));
        }
        let calendar = matches!(self.period, Some(PeriodWord::Day | PeriodWord::Week | PeriodWord::Month));
        if self.zone.is_some() && !(calendar && self.kind == Kind::Window) {
            return Err(error(Part::Zone, "a zone only applies to a window of a day, a week or a month"));
        }
        if calendar && self.kind == Kind::Window && self.count.is_some_and(|count| count != 1) {
            let message = "a calendar window is one day, one week or one month; for a longer one \
                           write `from first call`, `sliding` or `bucket`";
            return Err(error(Part::Period, message));
        }
        Ok(())
    }

    fn algorithm(&self) -> Result<Algorithm, DraftError> {
        if self.kind == Kind::Concurrency {
            return Ok(Algorithm::Concurrency { expires: self.expires.unwrap_or(SLOT_EXPIRES_DEFAULT) });
        }
        let word = self
            .period
            .ok_or_else(|| error(Part::Period, "a period is missing, as in `200 requests / minute`"))?;
        let period = word.span().times(self.count.unwrap_or(1));
        let zone = || self.zone.clone().unwrap_or(Zone::UTC);
        Ok(match (self.kind, word) {
            (Kind::Window, PeriodWord::Day) => Algorithm::Window(Calendar::Day(zone())),
            (Kind::Window, PeriodWord::Week) => Algorithm::Window(Calendar::Week(zone())),
            (Kind::Window, PeriodWord::Month) => Algorithm::Window(Calendar::Month(zone())),
            (Kind::Window, _) => Algorithm::Window(Calendar::Every(period)),
            (Kind::FromFirstCall, _) => Algorithm::FromFirstCall(period),
            (Kind::Sliding, _) => Algorithm::Sliding(period),
            (Kind::Bucket, _) => Algorithm::Bucket { period, burst: self.burst.unwrap_or(self.amount) },
            (Kind::Paced, _) => Algorithm::Paced(period),
            (Kind::Adaptive, _) => Algorithm::Adaptive(period),
            (Kind::Concurrency, _) => Algorithm::Concurrency { expires: SLOT_EXPIRES_DEFAULT },
        })
    }
}

pub(super) fn error(part: Part, message: impl ToString) -> DraftError {
    DraftError { part, message: message.to_string() }
}

/// Reads `200`, `1_000`, `250k`, `5M`, `1G`.
pub(super) fn read_amount(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (text.get(..at), 1_000),
        Some((at, 'M')) => (text.get(..at), 1_000_000),
        Some((at, 'G')) => (text.get(..at), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let digits = digits.unwrap_or_default().replace('_', "");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is not an amount (write it like 200, 1_000, 250k or 5M)"));
    }
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| format!("{text} is more than the largest amount, {}", crate::bounds::AMOUNT_MAX))
}

/// Reads a length of time: `60s`, `10m`, `250ms`, `2 hours`.
pub fn read_span(text: &str) -> Result<Span, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, word) = text.split_at_checked(digits).unwrap_or_default();
    match (count.parse::<u64>(), PeriodWord::read(word.trim())) {
        (Ok(count), Some(word)) if word != PeriodWord::Month => Ok(word.span().times(count)),
        (Ok(count), None) if word.trim() == "M" => {
            Err(format!("{text:?} is not a length of time: {count}m are minutes, and a month is 30d"))
        }
        _ => Err(format!("{text:?} is not a length of time (write it like 250ms, 30s, 10m, 2h or 7d)")),
    }
}
