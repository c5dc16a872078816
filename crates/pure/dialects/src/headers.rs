//! Quotas in headers, read by rows of a table.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use smallvec::SmallVec;

use crate::durations::{DURATION_MAX, Decimal, count};
use crate::observation::{QUOTAS_MAX, QuotaReset, QuotaUnit, VendorQuota, clean};
use crate::times;

/// The most quotas in one header.
const LIST_MAX: usize = 8;

/// The most lines of one header.
const LINES_MAX: usize = 16;

/// A quota, and the headers that tell of it. Those with several windows come first: a single number belongs to one of them.
pub(crate) struct QuotaRows {
    pub(crate) name: Option<&'static str>,
    pub(crate) unit: QuotaUnit,
    /// The window in seconds, if the vendor's pages name it and its headers do not.
    pub(crate) window: Option<u64>,
    /// Whether the reset is the time until a bucket is full.
    pub(crate) until_full: bool,
    pub(crate) headers: &'static [HeaderRow],
}

/// One header: its name, what it says of the quota, and how.
pub(crate) struct HeaderRow {
    pub(crate) header: &'static str,
    pub(crate) field: QuotaField,
    pub(crate) format: ValueFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaField {
    Limit,
    Remaining,
    Used,
    Reset,
    Window,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueFormat {
    /// A number, or a list of numbers with or without windows: `50`; `1, 15000`; `100, 100;window=60`.
    Numbers,
    /// Numbers with their windows in seconds: `20:1,100:120`.
    Pairs,
    /// `32/40`, and `api-usage=10018/100000`: used and limit, whatever the field.
    UsedOfLimit,
    /// A duration or a point in time, in any notation, or a list of them.
    Time,
    /// The same, and the vendor is a second late.
    TimePlusSecond,
    /// A duration in milliseconds.
    Milliseconds,
    /// Text.
    Text,
    /// This word means that nothing is left.
    ExhaustedIf(&'static str),
}

/// What the headers say of a quota so far.
#[derive(Clone, Copy, Default)]
struct QuotaDraft {
    limit: Option<u64>,
    window: Option<Duration>,
    remaining: Option<u64>,
    used: Option<u64>,
    reset: Option<Duration>,
}

/// The quotas of one `QuotaRows`: several, if its headers are lists.
#[derive(Default)]
struct QuotaDrafts {
    drafts: SmallVec<[QuotaDraft; 2]>,
    /// The one that a single number belongs to.
    current: usize,
    name: Option<String>,
}

/// All lines of a header as one text. `None` if there is none, or if it is blank or not text.
pub(crate) fn joined<'h>(headers: &'h HeaderMap, header: &str) -> Option<Cow<'h, str>> {
    let mut lines = headers.get_all(header).iter().take(LINES_MAX).filter_map(|line| line.to_str().ok());
    let first = lines.next()?;
    let text = lines.fold(Cow::Borrowed(first), |text, line| Cow::Owned(format!("{text}, {line}")));
    (!text.trim().is_empty()).then_some(text)
}

/// Adds the quotas that the rows find.
pub(crate) fn read(
    rows: &QuotaRows,
    headers: &HeaderMap,
    sent: Option<Timestamp>,
    quotas: &mut Vec<VendorQuota>,
) {
    let mut found = QuotaDrafts::default();
    for row in rows.headers {
        let Some(text) = joined(headers, row.header) else { continue };
        if found.add(row, &text, sent).is_none() {
            tracing::debug!(header = row.header, value = ?clean(&text), "ignored a header that makes no sense");
        }
    }
    let name = found.name.or_else(|| rows.name.map(str::to_owned));
    for draft in found.drafts {
        let used_up = || Some(draft.limit?.saturating_sub(draft.used?));
        let quota = VendorQuota {
            name: name.clone(),
            unit: rows.unit,
            limit: draft.limit,
            window: draft.window.or(rows.window.map(Duration::from_secs)),
            remaining: draft.remaining.or_else(used_up),
            reset: draft.reset.map(if rows.until_full {
                QuotaReset::BucketFull
            } else {
                QuotaReset::WindowEnds
            }),
        };
        let says_something = quota.limit.is_some() || quota.remaining.is_some() || quota.reset.is_some();
        if says_something && quotas.len() < QUOTAS_MAX {
            quotas.push(quota);
        }
    }
}

impl QuotaDrafts {
    /// Adds what one header says. `None` if it makes no sense; then nothing of it is used.
    fn add(&mut self, row: &HeaderRow, text: &str, sent: Option<Timestamp>) -> Option<()> {
        match row.format {
            ValueFormat::Numbers => self.add_numbers(row.field, text),
            ValueFormat::Pairs => self.add_pairs(row.field, text),
            ValueFormat::UsedOfLimit => {
                let (used, limit) = used_of_limit(text)?;
                let draft = self.current();
                (draft.used, draft.limit) = (Some(used), Some(limit));
                Some(())
            }
            ValueFormat::Time => self.add_resets(text, |part| times::until(part, sent)),
            ValueFormat::TimePlusSecond => {
                self.add_resets(text, |part| Some(times::until(part, sent)? + Duration::from_secs(1)))
            }
            ValueFormat::Milliseconds => {
                let length = Decimal::parse(text)?.milliseconds()?;
                match row.field {
                    QuotaField::Window => self.current().window = Some(length).filter(|l| !l.is_zero()),
                    _ => self.current().reset = Some(length),
                }
                Some(())
            }
            ValueFormat::Text => {
                self.name = clean(text);
                Some(())
            }
            ValueFormat::ExhaustedIf(word) => {
                if text.trim().eq_ignore_ascii_case(word) {
                    self.current().remaining = Some(0);
                }
                Some(())
            }
        }
    }

    fn add_numbers(&mut self, field: QuotaField, text: &str) -> Option<()> {
        let mut numbers: SmallVec<[(u64, Option<Duration>); 2]> =
            text.split(',').take(LIST_MAX).map(number_with_window).collect::<Option<_>>()?;
        if let [(number, _)] = numbers[..] {
            self.current().set(field, number);
            return Some(());
        }
        // `100, 100;window=60, 10000;window=86400`: the first is the limit in force, repeated with its window.
        let in_force = numbers.first().filter(|(_, window)| window.is_none()).map(|(number, _)| *number);
        if let Some(in_force) = in_force.filter(|_| numbers.iter().any(|(_, window)| window.is_some())) {
            numbers.remove(0);
            self.current = numbers.iter().position(|(number, _)| *number == in_force).unwrap_or(0);
        }
        for (place, (number, window)) in numbers.into_iter().enumerate() {
            let draft = self.at(place);
            draft.set(field, number);
            draft.window = window.or(draft.window);
        }
        Some(())
    }

    fn add_pairs(&mut self, field: QuotaField, text: &str) -> Option<()> {
        let pair = |text: &str| {
            let (number, seconds) = text.split_once(':')?;
            Some((count(number)?, seconds_of_window(seconds)?))
        };
        let pairs: SmallVec<[(u64, Duration); 2]> =
            text.split(',').take(LIST_MAX).map(pair).collect::<Option<_>>()?;
        for (number, window) in pairs {
            let place = self.drafts.iter().position(|draft| draft.window == Some(window));
            let draft = self.at(place.unwrap_or(self.drafts.len()));
            draft.window = Some(window);
            draft.set(field, number);
        }
        Some(())
    }

    fn add_resets(&mut self, text: &str, parse: impl Fn(&str) -> Option<Duration>) -> Option<()> {
        // A date has a comma too.
        if let Some(reset) = parse(text) {
            self.current().reset = Some(reset);
            return Some(());
        }
        let resets: SmallVec<[Duration; 2]> =
            text.split(',').take(LIST_MAX).map(parse).collect::<Option<_>>()?;
        for (place, reset) in resets.into_iter().enumerate() {
            self.at(place).reset = Some(reset);
        }
        Some(())
    }

    fn current(&mut self) -> &mut QuotaDraft {
        self.at(self.current)
    }

    fn at(&mut self, place: usize) -> &mut QuotaDraft {
        if self.drafts.len() <= place {
            self.drafts.resize(place + 1, QuotaDraft::default());
        }
        &mut self.drafts[place]
    }
}

impl QuotaDraft {
    fn set(&mut self, field: QuotaField, number: u64) {
        match field {
            // A limit of 0 in a header is a default of the server's, not a limit.
            QuotaField::Limit => self.limit = Some(number).filter(|limit| *limit > 0),
            QuotaField::Remaining => self.remaining = Some(number),
            QuotaField::Used => self.used = Some(number),
            QuotaField::Reset | QuotaField::Window | QuotaField::Name => {}
        }
    }
}

/// `15000;w=2592000`, `100;window=60`, or a number alone. Other parameters are ignored.
fn number_with_window(text: &str) -> Option<(u64, Option<Duration>)> {
    let mut parts = text.split(';');
    let number = count(parts.next()?)?;
    let window = parts.filter_map(|part| part.split_once('=')).find_map(|(key, value)| {
        matches!(key.trim(), "w" | "window").then(|| seconds_of_window(value)).flatten()
    });
    Some((number, window))
}

fn seconds_of_window(text: &str) -> Option<Duration> {
    count(text).map(Duration::from_secs).filter(|window| !window.is_zero() && *window <= DURATION_MAX)
}

/// `32/40`, or `api-usage=10018/100000; per-app-api-usage=17/250(...)`, of which the first counts.
fn used_of_limit(text: &str) -> Option<(u64, u64)> {
    let first = text.split([';', ',']).next()?;
    let (used, limit) = first.rsplit('=').next()?.split_once('/')?;
    Some((count(used)?, count(limit).filter(|limit| *limit > 0)?))
}
