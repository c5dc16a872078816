//! What a response says: a refusal, a wait, and quotas.

use std::fmt;
use std::time::Duration;

/// The longest wait that a vendor can ask for. A longer one is a mistake, or a client that never comes back.
pub const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// The longest wait after a daily quota: a day, and an hour for the day on which clocks go back.
pub const DAILY_WAIT_MAX: Duration = Duration::from_secs(25 * 3_600);

/// A quota with a window this long or longer is a daily quota; a monthly one is treated alike.
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// The most quotas of one response. Vendors send up to eight.
pub(crate) const QUOTAS_MAX: usize = 16;

/// The longest name or reason that is kept.
const NAME_CHARS_MAX: usize = 128;

/// What one response says about the vendor's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Why the vendor refused the call. `None` if it did not, or if the error is not about limits.
    pub refusal: Option<RefusalKind>,
    /// The time to wait before the next call: at most [`WAIT_MAX`], or [`DAILY_WAIT_MAX`] after a daily quota.
    ///
    /// Only errors and refusals have one. A wait of zero says nothing, and is `None`.
    pub wait: Option<Duration>,
    /// The vendor's own word for the limit that refused, such as `endpoint-concurrency` or `jira-burst-based`.
    pub reason: Option<String>,
    /// What is said of each quota.
    pub quotas: Vec<VendorQuota>,
}

/// Why a vendor refused a call. Only [`Rate`](Self::Rate) is a reason to call less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// Too many calls, tokens or points in a short time.
    Rate,
    /// Too many calls at the same time.
    Concurrency,
    /// A quota of a day or longer is used up.
    DailyQuota,
    /// The vendor is overloaded. The rate of this caller is not the cause.
    Overload,
    /// The account has no quota at all: no plan, no credit. Waiting does not help.
    NoAccess,
    /// Another call holds a lock on the same object.
    Lock,
}

/// What a response says of one quota. All that is not said is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorQuota {
    /// The vendor's name for it, if there is one.
    pub name: Option<String>,
    /// What it counts.
    pub unit: QuotaUnit,
    /// The most units in a window, or the size of the bucket.
    pub limit: Option<u64>,
    /// The length of the window, or the time in which an empty bucket becomes full.
    pub window: Option<Duration>,
    /// The units that are left.
    pub remaining: Option<u64>,
    /// When units come back.
    pub reset: Option<QuotaReset>,
}

/// What a quota counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuotaUnit {
    /// Calls.
    #[default]
    Requests,
    /// Tokens of a language model, in and out.
    Tokens,
    /// Tokens of the prompt.
    InputTokens,
    /// Tokens of the answer.
    OutputTokens,
    /// Points, of which a call costs one or more.
    Points,
    /// Bytes of content.
    Bytes,
    /// Calls at the same time.
    ConcurrentRequests,
}

/// When the units of a quota come back, as a duration after the response was sent.
///
/// A vendor's date is compared with the `Date` of the same response, so the clocks of both sides do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaReset {
    /// The window ends, and units come back, all at once or more of them.
    WindowEnds(Duration),
    /// The bucket is full. Some units come back earlier, so this is not the time to wait.
    BucketFull(Duration),
}

impl RefusalKind {
    /// The longest wait after a refusal of this kind.
    pub fn wait_max(self) -> Duration {
        match self {
            Self::DailyQuota => DAILY_WAIT_MAX,
            Self::Rate | Self::Concurrency | Self::Overload | Self::NoAccess | Self::Lock => WAIT_MAX,
        }
    }

    /// Its name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::DailyQuota => "daily_quota",
            Self::Overload => "overload",
            Self::NoAccess => "no_access",
            Self::Lock => "lock",
        }
    }
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl QuotaUnit {
    /// Its name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::Points => "points",
            Self::Bytes => "bytes",
            Self::ConcurrentRequests => "concurrent_requests",
        }
    }
}

impl fmt::Display for QuotaUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl QuotaReset {
    /// The duration, whatever happens at its end.
    pub fn after(self) -> Duration {
        match self {
            Self::WindowEnds(after) | Self::BucketFull(after) => after,
        }
    }
}

impl VendorQuota {
    /// Whether nothing is left.
    pub fn is_exhausted(&self) -> bool {
        self.remaining == Some(0)
    }

    pub(crate) fn is_daily(&self) -> bool {
        self.window.is_some_and(|window| window >= DAY)
    }
}

/// A vendor's text, short and without control characters: it ends up in logs.
pub(crate) fn clean(text: &str) -> Option<String> {
    let text: String =
        text.trim().chars().filter(|character| !character.is_control()).take(NAME_CHARS_MAX).collect();
    (!text.is_empty()).then_some(text)
}
