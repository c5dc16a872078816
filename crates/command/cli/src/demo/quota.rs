//! The vendor's quota, and its minutes: windows aligned to the Unix epoch.

use std::time::Duration;

use tollway::{Span, Timestamp};

/// The longest delay, on a busy machine, between a worker's last check and the arrival of its call.
pub(super) const EDGE_MIN: Span = Span::from_millis(250);

/// The longest edge that a policy may have is this part of its minute.
pub(super) const MINUTE_IN_EDGES: u64 = 20;

/// A number of requests per minute, which may change from one minute to the next.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    pub(super) minute: Span,
    /// The limit at the start.
    pub(super) limit: u64,
    /// The first minute of each later limit, in order.
    changes: Vec<(u64, u64)>,
}

impl Quota {
    pub(super) fn new(limit: u64, minute: Span) -> Self {
        Self { minute, limit, changes: Vec::new() }
    }

    /// Changes the limit from this minute on.
    pub(super) fn change(&mut self, from: u64, limit: u64) {
        self.changes.push((from, limit));
    }

    pub(super) fn limit_in(&self, minute: u64) -> u64 {
        let latest = self.changes.iter().rev().find(|(from, _)| *from <= minute);
        latest.map_or(self.limit, |(_, limit)| *limit)
    }

    /// The first minute of the latest limit, if it has changed.
    pub(super) fn last_change(&self) -> Option<u64> {
        self.changes.last().map(|(from, _)| *from)
    }

    /// What the vendor allows while its limit is lowered.
    pub(super) fn lowered(&self) -> u64 {
        (self.limit / 2).max(1)
    }

    /// The number of this minute since the epoch.
    pub(super) fn minute_at(&self, at: Timestamp) -> u64 {
        at.as_micros() / self.minute.as_micros()
    }

    pub(super) fn begin_of(&self, minute: u64) -> Timestamp {
        Timestamp::EPOCH.plus(self.minute.times(minute))
    }

    pub(super) fn left_of_minute(&self, at: Timestamp) -> Span {
        self.begin_of(self.minute_at(at) + 1).since(at)
    }

    /// A part of a minute.
    pub(super) fn percent_of_minute(&self, percent: u64) -> Span {
        Span::from_micros(self.minute.as_micros() / 100 * percent)
    }

    /// The `edge` of the policy: a twentieth of the minute, the maximum.
    pub(super) fn edge(&self) -> Span {
        Span::from_micros(self.minute.as_micros() / MINUTE_IN_EDGES)
    }

    /// The vendor's response time: with it, this many workers could make about twice the allowed calls. So a minute fills
    /// slowly enough to watch, and demand exceeds the quota.
    pub(super) fn latency(&self, workers: u64) -> Duration {
        let twice = Span::from_micros(self.minute.as_micros().saturating_mul(workers) / (self.limit * 2));
        twice.min(self.edge()).into()
    }
}
