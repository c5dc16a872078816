//! Response headers that show the remaining quota (`X-Rate-Limit-*`, `X-RateLimit-*`, the IETF's `RateLimit` and
//! `RateLimit-Policy`, `Retry-After`), and the body of a denial.
//!
//! ```
//! use tollway_core::{Decision, Limit, PermitId, Reading, Timestamp};
//! use tollway_inbound::headers::{HeaderChoice, LimitStatus, write};
//!
//! let limit: Limit = "1000 requests / hour".parse()?;
//! let at = Timestamp::from_secs;
//! let reading = Reading { capacity: 1_000, used: 268, remaining: 732, resets_at: at(3_600), as_of: at(753), grants: 0 };
//! let statuses = [LimitStatus { policy: None, limit: &limit, reading, refuses: false, choice: HeaderChoice::ALL }];
//! let decision = Decision::granted_now(PermitId(1), at(753));
//! let mut lines = Vec::new();
//! write(&statuses, &decision, |name, value| lines.push(format!("{name}: {value}")));
//! assert_eq!(lines, [
//!     "x-rate-limit-limit: 1000",
//!     "x-rate-limit-remaining: 732",
//!     "x-rate-limit-reset: 2847",
//!     "x-ratelimit-limit: 1000",
//!     "x-ratelimit-remaining: 732",
//!     "x-ratelimit-reset: 3600",
//!     r#"ratelimit-policy: "requests_per_hour";q=1000;w=3600"#,
//!     r#"ratelimit: "requests_per_hour";r=732;t=2847"#,
//! ]);
//! # Ok::<(), tollway_core::LimitTextError>(())
//! ```

mod body;
mod limit_status;
mod message;
mod structured;

use std::fmt;

use tollway_core::{Decision, Span};

pub use body::TooManyRequests;
pub use limit_status::{LimitStatus, PolicyView, Rank, most_restrictive};
pub use message::{CallerKind, too_many_requests};

/// A comma-separated list of shadow policies that would have denied a granted request. For the service behind the limit, not
/// for the client.
pub const WOULD_DENY: &str = "x-tollway-would-deny";

/// Which headers an answer has besides `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderChoice {
    /// `X-Rate-Limit-Limit`, `-Remaining` and `-Reset`: the numbers of the most restrictive limit. `-Reset` is how many
    /// seconds are left until nothing is used.
    pub x_rate_limit: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`: the same, but `-Reset` is a Unix time in seconds, as in the APIs of
    /// GitHub and many others.
    pub x_ratelimit: bool,
    /// `RateLimit` and `RateLimit-Policy`: structured fields of every limit, as in
    /// draft-ietf-httpapi-ratelimit-headers-11.
    pub ratelimit: bool,
}

impl HeaderChoice {
    /// All of them.
    pub const ALL: Self = Self { x_rate_limit: true, x_ratelimit: true, ratelimit: true };
    /// None of them.
    pub const NONE: Self = Self { x_rate_limit: false, x_ratelimit: false, ratelimit: false };
    /// All but `X-RateLimit-*`: proxies such as Envoy write those themselves, with seconds in `-Reset`.
    pub const FOR_PROXIES: Self = Self { x_ratelimit: false, ..Self::ALL };
}

/// The value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderValue {
    /// A whole number.
    Number(u64),
    /// Visible ASCII.
    Text(String),
}

impl fmt::Display for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Passes every header of a decision to `put`, with its lower-case name. A denial has `Retry-After`.
pub fn write(
    statuses: &[LimitStatus<'_>],
    decision: &Decision,
    mut put: impl FnMut(&'static str, HeaderValue),
) {
    let now = decision.now;
    let retry_after = decision.denial().map(|_| decision.wait());
    if let Some(status) = most_restrictive(statuses.iter().filter(|status| status.choice.x_rate_limit)) {
        let reading = &status.reading;
        put("x-rate-limit-limit", HeaderValue::Number(reading.capacity));
        put("x-rate-limit-remaining", HeaderValue::Number(reading.remaining));
        put("x-rate-limit-reset", HeaderValue::Number(whole_seconds(reading.resets_at.since(now))));
    }
    if let Some(status) = most_restrictive(statuses.iter().filter(|status| status.choice.x_ratelimit)) {
        let reading = &status.reading;
        put("x-ratelimit-limit", HeaderValue::Number(reading.capacity));
        put("x-ratelimit-remaining", HeaderValue::Number(reading.remaining));
        put("x-ratelimit-reset", HeaderValue::Number(reading.resets_at.as_micros().div_ceil(1_000_000)));
    }
    let structured = || statuses.iter().filter(|status| status.choice.ratelimit);
    if structured().next().is_some() {
        put("ratelimit-policy", HeaderValue::Text(structured::policies(structured())));
        put("ratelimit", HeaderValue::Text(structured::limits(structured(), now, retry_after)));
    }
    if let Some(retry_after) = retry_after {
        // Never 0: the client would retry at once.
        put("retry-after", HeaderValue::Number(whole_seconds(retry_after).max(1)));
    }
}

/// Rounded up, so that a client that waits this long does not retry too early.
fn whole_seconds(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000_000)
}

/// Milliseconds, rounded up for the same reason.
pub fn whole_ms(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000)
}
