//! What a simulated vendor says about a decision, in the headers and bodies of a real one. The dialects are rows of a
//! table; `tollway-dialects` reads what is written here.

mod bodies;
mod headers;
mod platform_bodies;
mod ratelimit_fields;
mod table;
mod vendor_table;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;
use tollway_core::{Span, Timestamp};
use tollway_dialects::RefusalKind;

use crate::{Outcome, QuotaState, Ruling, Unit};
use table::GENERAL;
use vendor_table::VENDORS;

/// A vendor's way to tell its limits: which headers, in which notation, and what a refusal looks like.
///
/// All dialects are in a table; get one [`by_name`](Self::by_name).
pub struct VendorDialect {
    name: &'static str,
    /// One line for a list of dialects.
    about: &'static str,
    /// The dialect of `tollway-dialects` that reads it.
    read_by: &'static str,
    /// How it refuses; none for conventions, which no vendor has alone.
    refusals: &'static [VendorRefusal],
    /// Headers of every answer.
    fixed: &'static [(&'static str, &'static str)],
    quotas: QuotaHeaders,
    wait: WaitHeaders,
    status: StatusCode,
    /// Headers of a refusal by a quota, and of one by concurrency.
    refusal: Option<(&'static str, &'static str, &'static str)>,
    content_type: &'static str,
    body: RefusalBody,
    /// A call that fails although the quotas had room.
    failure: (StatusCode, fn() -> Value),
    /// The body of a success, around its content.
    success: fn(&Ruling, Value) -> Value,
    /// Whether tokens of the answer count against quotas of tokens.
    counts_output: bool,
}

/// A way in which a vendor refuses: what a client has to make of it, and a row of the guide's table of vendors.
#[derive(Clone, Copy, Debug)]
pub struct VendorRefusal {
    /// Its status, and what else tells it.
    pub words: &'static str,
    /// What it is about.
    pub kind: RefusalKind,
    /// Whether it tells how long to wait.
    pub tells_wait: bool,
}

/// The body of a refusal.
enum RefusalBody {
    Nothing,
    Json(fn(&Refusal<'_>) -> Value),
    Xml(fn(&Refusal<'_>) -> String),
}

/// How quotas are told.
enum QuotaHeaders {
    None,
    /// One set of headers for each unit.
    Rows(&'static [QuotaRow]),
    /// `used/limit` of the quota of calls.
    FillLevel(&'static str),
    /// In a way of its own.
    Written(fn(&Ruling, &mut HeaderMap)),
}

/// The headers of one quota.
struct QuotaRow {
    unit: Unit,
    limit: &'static str,
    remaining: &'static str,
    used: Option<&'static str>,
    reset: &'static str,
    format: ResetFormat,
}

#[derive(Clone, Copy)]
enum ResetFormat {
    /// Whole seconds from now.
    Seconds,
    /// Seconds since 1970, a second early, as GitHub does.
    EpochSecondEarly,
    /// `2026-03-02T10:00:01Z`
    Date,
    /// `6m0s`, `12ms`
    GoDuration,
}

/// How a refusal tells its wait.
#[derive(Clone, Copy)]
enum WaitHeaders {
    None,
    /// `Retry-After` in whole seconds.
    Seconds,
    /// The same, unless the headers show the quota that refused: its reset is the wait.
    SecondsIfNotShown,
    /// `Retry-After: 2.5`
    Tenths,
    /// `Retry-After-Ms`, and `Retry-After` in whole seconds.
    Milliseconds,
}

/// A refusal, for the functions that write bodies.
struct Refusal<'r> {
    ruling: &'r Ruling,
    status: StatusCode,
    wait: Span,
    /// Whether the headers show the quota that refused.
    shown: bool,
}

/// An answer without the content of a success: status, headers, and the body of a refusal or an error.
#[derive(Clone, Debug)]
pub struct VendorAnswer {
    /// The status.
    pub status: StatusCode,
    /// All headers, with a `Date`.
    pub headers: HeaderMap,
    /// The body, JSON or XML, unless the call was accepted.
    pub body: Option<String>,
}

impl VendorDialect {
    /// The dialect with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::all().find(|dialect| dialect.name == name)
    }

    /// All dialects.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        GENERAL.iter().chain(&VENDORS)
    }

    /// `Retry-After`, and nothing else.
    pub(super) fn http() -> &'static Self {
        &GENERAL[0]
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it sends, in one line.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// The name of the dialect in `tollway-dialects` that reads it.
    pub fn read_by(&self) -> &'static str {
        self.read_by
    }

    /// The ways in which it refuses.
    pub fn refusals(&self) -> &'static [VendorRefusal] {
        self.refusals
    }

    /// Whether tokens of the answer count against quotas of tokens. Gemini counts those of the prompt only.
    pub fn counts_output(&self) -> bool {
        self.counts_output
    }

    /// Puts a decision into words.
    pub fn answer(&self, ruling: &Ruling) -> VendorAnswer {
        let mut headers = HeaderMap::new();
        set(&mut headers, header::DATE.as_str(), &http_date(ruling.at));
        for (name, value) in self.fixed {
            set(&mut headers, name, value);
        }
        self.write_quotas(ruling, &mut headers);
        let (status, body) = match ruling.outcome {
            Outcome::Accepted => (StatusCode::OK, None),
            Outcome::Failed => (self.failure.0, Some((self.failure.1)().to_string())),
            Outcome::Refused => {
                let refusal = self.refusal(ruling);
                self.write_wait(&refusal, &mut headers);
                let body = match self.body {
                    RefusalBody::Nothing => None,
                    RefusalBody::Json(body) => Some(body(&refusal).to_string()),
                    RefusalBody::Xml(body) => Some(body(&refusal)),
                };
                if body.is_some() {
                    set(&mut headers, header::CONTENT_TYPE.as_str(), self.content_type);
                }
                (self.status, body)
            }
        };
        VendorAnswer { status, headers, body }
    }

    /// The body of a success with this content. Most vendors tell quotas in headers, and send the content alone.
    pub fn success(&self, ruling: &Ruling, content: Value) -> Value {
        (self.success)(ruling, content)
    }

    fn refusal<'r>(&self, ruling: &'r Ruling) -> Refusal<'r> {
        let shows = |quota: &QuotaState| match &self.quotas {
            QuotaHeaders::None => false,
            QuotaHeaders::Rows(rows) => rows.iter().any(|row| row.unit == quota.unit),
            QuotaHeaders::FillLevel(_) | QuotaHeaders::Written(_) => quota.unit == Unit::Calls,
        };
        let wait = ruling.wait().unwrap_or_default();
        Refusal { ruling, status: self.status, wait, shown: ruling.refused_by().is_some_and(shows) }
    }

    fn write_quotas(&self, ruling: &Ruling, headers: &mut HeaderMap) {
        match &self.quotas {
            QuotaHeaders::None => {}
            QuotaHeaders::Rows(rows) => {
                for row in *rows {
                    if let Some(quota) = most_restrictive(ruling, |quota| quota.unit == row.unit) {
                        row.write(quota, ruling.at, headers);
                    }
                }
            }
            QuotaHeaders::FillLevel(name) => {
                if let Some(quota) = most_restrictive(ruling, |quota| quota.unit == Unit::Calls) {
                    set(headers, name, &format!("{}/{}", used(quota), quota.shape.limit()));
                }
            }
            QuotaHeaders::Written(write) => write(ruling, headers),
        }
    }

    fn write_wait(&self, refusal: &Refusal<'_>, headers: &mut HeaderMap) {
        let seconds = whole_seconds(refusal.wait).to_string();
        let retry_after = header::RETRY_AFTER.as_str();
        match self.wait {
            WaitHeaders::Seconds => set(headers, retry_after, &seconds),
            WaitHeaders::SecondsIfNotShown if !refusal.shown => set(headers, retry_after, &seconds),
            WaitHeaders::None | WaitHeaders::SecondsIfNotShown => {}
            WaitHeaders::Tenths => {
                let tenths = refusal.wait.as_micros().div_ceil(100_000);
                set(headers, retry_after, &format!("{}.{}", tenths / 10, tenths % 10));
            }
            WaitHeaders::Milliseconds => {
                set(headers, "retry-after-ms", &whole_milliseconds(refusal.wait).to_string());
                set(headers, retry_after, &seconds);
            }
        }
        if let Some((name, by_quota, by_concurrency)) = self.refusal {
            let reason = if refusal.ruling.is_concurrency() { by_concurrency } else { by_quota };
            set(headers, name, reason);
        }
    }
}

impl QuotaRow {
    fn write(&self, quota: &QuotaState, at: Timestamp, headers: &mut HeaderMap) {
        set(headers, self.limit, &quota.shape.limit().to_string());
        set(headers, self.remaining, &quota.left.to_string());
        if let Some(name) = self.used {
            set(headers, name, &used(quota).to_string());
        }
        let full_at = at.plus(quota.full_in);
        let epoch_second = full_at.as_micros().div_ceil(1_000_000);
        let reset = match self.format {
            ResetFormat::Seconds => whole_seconds(quota.full_in).to_string(),
            ResetFormat::EpochSecondEarly => epoch_second.saturating_sub(1).to_string(),
            ResetFormat::Date => Timestamp::from_secs(epoch_second).to_string(),
            ResetFormat::GoDuration => go_duration(quota.full_in),
        };
        set(headers, self.reset, &reset);
    }
}

impl fmt::Debug for VendorDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VendorDialect").field(&self.name).finish()
    }
}

/// Of several quotas, the one that a header with room for one shows: the one that refused, else the fullest.
fn most_restrictive(ruling: &Ruling, is_meant: impl Fn(&QuotaState) -> bool) -> Option<&QuotaState> {
    let share_left = |quota: &QuotaState| quota.left.saturating_mul(1_000_000) / quota.shape.limit().max(1);
    let refused_by = ruling.refused_by().filter(|quota| is_meant(quota));
    let meant = ruling.quotas.iter().filter(|quota| is_meant(quota));
    refused_by.or_else(|| meant.min_by_key(|quota| share_left(quota)))
}

fn used(quota: &QuotaState) -> u64 {
    quota.shape.limit().saturating_sub(quota.left)
}

/// Every value is made of text and numbers of this crate; one that is no header value would be left out.
fn set(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

fn whole_seconds(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000_000)
}

fn whole_milliseconds(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000)
}

/// `12ms`, `1.25s`, `6m0s`, `1h2m3s`, as Go prints durations. Rounded up to milliseconds.
fn go_duration(span: Span) -> String {
    let millis = whole_milliseconds(span);
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let seconds = format!("{}.{:03}", rest / 1_000, rest % 1_000);
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    match (minutes / 60, minutes % 60) {
        (0, 0) if (1..1_000).contains(&rest) => format!("{rest}ms"),
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `Mon, 02 Mar 2026 10:00:00 GMT`
fn http_date(at: Timestamp) -> String {
    let second = i64::try_from(at.as_micros() / 1_000_000).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
