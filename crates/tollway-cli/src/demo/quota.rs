//! The vendor's quota, and its minutes: windows aligned to the Unix epoch.

use std::time::Duration;

use tollway::{Span, Timestamp};

/// The longest delay, on a busy machine, between a worker's last check and the arrival of its call.
pub(super) const EDGE_MIN: Span = Span::from_millis(250);

/// The longest edge that a policy may have is this part of its minute.
pub(super) const MINUTE_IN_EDGES: u64 = 20;

/// A number of requests per minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    pub(super) limit: u64,
    pub(super) minute: Span,
}

impl Quota {
    /// The number of this minute since the epoch.
    pub(super) fn minute_at(self, at: Timestamp) -> u64 {
        at.as_micros() / self.minute.as_micros()
    }

    pub(super) fn begin_of(self, minute: u64) -> Timestamp {
        Timestamp::EPOCH.plus(self.minute.times(minute))
    }

    pub(super) fn left_of_minute(self, at: Timestamp) -> Span {
        self.begin_of(self.minute_at(at) + 1).since(at)
    }

    /// A part of a minute.
    pub(super) fn percent_of_minute(self, percent: u64) -> Span {
        Span::from_micros(self.minute.as_micros() / 100 * percent)
    }

    /// The `edge` of the workers' policy: a twentieth of the minute, the maximum.
    pub(super) fn edge(self) -> Span {
        Span::from_micros(self.minute.as_micros() / MINUTE_IN_EDGES)
    }

    /// The vendor's response time: with it, this many workers could make about twice the allowed calls. So a minute fills
    /// slowly enough to watch, and demand exceeds the quota.
    pub(super) fn latency(self, workers: usize) -> Duration {
        let workers = u64::try_from(workers).unwrap_or(u64::MAX);
        let twice = Span::from_micros(self.minute.as_micros().saturating_mul(workers) / (self.limit * 2));
        twice.min(self.edge()).into()
    }

    /// The limit of the workers' policy.
    pub(super) fn limit_text(self) -> String {
        format!("{} requests / {}", self.limit, self.minute_text())
    }

    /// The minute's length, for arguments and limits.
    pub(super) fn minute_text(self) -> String {
        format!("{} ms", self.minute.as_micros() / 1_000)
    }
}
