//! How long a vendor asks to wait.

use std::time::Duration;

use jiff::Timestamp;

use crate::durations::{self, Decimal};
use crate::observation::{QuotaReset, RefusalKind, VendorQuota, WAIT_MAX, clean};
use crate::response::ResponseField::Header;
use crate::response::{ParsedResponse, ResponseField, find_words};
use crate::times;

/// A wait that is told by one field of a response. The first row that makes sense decides.
pub(crate) struct WaitRow {
    pub(crate) field: ResponseField,
    pub(crate) format: WaitFormat,
    /// Whether it is wrong when a daily quota is used up.
    pub(crate) wrong_if_daily: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum WaitFormat {
    /// A duration or a point in time, in any notation.
    Duration,
    Milliseconds,
    /// A duration in a sentence, behind these words.
    Behind(&'static str),
    /// So many seconds, if the text contains these words.
    SecondsIf(&'static str, u64),
}

/// `Retry-After` comes first, for every vendor.
const RETRY_AFTER: [WaitRow; 2] = [
    WaitRow { field: Header("retry-after-ms"), format: WaitFormat::Milliseconds, wrong_if_daily: false },
    WaitRow { field: Header("retry-after"), format: WaitFormat::Duration, wrong_if_daily: false },
];

/// What `Retry-After` tells. Zero tells nothing.
pub(crate) fn retry_after(parsed: &ParsedResponse<'_>) -> Option<Duration> {
    first(&RETRY_AFTER, parsed, |_| true)
}

/// What the vendor's rows tell.
pub(crate) fn by_rows(
    rows: &[WaitRow],
    parsed: &ParsedResponse<'_>,
    refusal: Option<RefusalKind>,
) -> Option<Duration> {
    let is_daily = refusal == Some(RefusalKind::DailyQuota);
    first(rows, parsed, |row| !(is_daily && row.wrong_if_daily))
}

fn first(rows: &[WaitRow], parsed: &ParsedResponse<'_>, fits: impl Fn(&WaitRow) -> bool) -> Option<Duration> {
    let rows = rows.iter().filter(|row| fits(row));
    rows.filter_map(|row| row.told(parsed)).find(|wait| !wait.is_zero())
}

/// The time until the used up quotas come back: of several, the last counts. Quotas that passed say nothing about it.
///
/// A bucket refills before it is full, so the time until then is not a wait.
pub(crate) fn until_reset(quotas: &[VendorQuota], refusal: RefusalKind) -> Option<Duration> {
    let of_quotas = matches!(refusal, RefusalKind::Rate | RefusalKind::DailyQuota);
    let exhausted = quotas.iter().filter(|quota| of_quotas && quota.is_exhausted());
    let ends = exhausted.filter_map(|quota| match quota.reset? {
        QuotaReset::WindowEnds(after) => Some(after),
        QuotaReset::BucketFull(_) => None,
    });
    ends.max().filter(|wait| !wait.is_zero())
}

/// A wait, capped by the kind of refusal.
pub(crate) fn capped(wait: Duration, refusal: Option<RefusalKind>) -> Duration {
    wait.min(refusal.map_or(WAIT_MAX, RefusalKind::wait_max))
}

impl WaitRow {
    /// Of several texts, the longest wait.
    fn told(&self, parsed: &ParsedResponse<'_>) -> Option<Duration> {
        let texts = parsed.texts(self.field);
        let waits = texts.iter().filter_map(|text| {
            let wait = self.format.parse(text, parsed.sent);
            if wait.is_none() && self.format.is_all_of_the_text() {
                tracing::debug!(value = ?clean(text), "ignored a wait that makes no sense");
            }
            wait
        });
        waits.max()
    }
}

impl WaitFormat {
    fn is_all_of_the_text(self) -> bool {
        matches!(self, Self::Duration | Self::Milliseconds)
    }

    fn parse(self, text: &str, sent: Option<Timestamp>) -> Option<Duration> {
        match self {
            Self::Duration => times::until(text, sent).or_else(|| too_long(text)),
            Self::Milliseconds => {
                let number = Decimal::parse(text)?;
                number.milliseconds().or(Some(durations::DURATION_MAX))
            }
            Self::Behind(words) => durations::in_sentence(text.get(find_words(text, words)?..)?),
            Self::SecondsIf(words, seconds) => find_words(text, words).map(|_| Duration::from_secs(seconds)),
        }
    }
}

/// A number that is too large for a duration is still a request to wait, and is capped.
fn too_long(text: &str) -> Option<Duration> {
    Decimal::parse(text).filter(|number| number.seconds().is_none()).map(|_| durations::DURATION_MAX)
}
