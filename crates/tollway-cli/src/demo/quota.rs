//! What the vendor allows, and its minutes: windows that begin at multiples of the epoch.

use std::time::Duration;

use tollway::{Span, Timestamp};

/// So many requests in each of its minutes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    pub(super) limit: u64,
    pub(super) minute: Span,
}

impl Quota {
    /// Which minute this is, counted from the epoch.
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

    /// How close to a minute's ends nothing is granted: a twentieth, the most that is used of an edge.
    pub(super) fn edge(self) -> Span {
        self.percent_of_minute(5)
    }

    /// How long the vendor takes to answer: so long that this many workers could make about twice the calls that it
    /// allows. Then a minute fills slowly enough to be watched, and there is more to do than may be done.
    pub(super) fn latency(self, workers: usize) -> Duration {
        let workers = u64::try_from(workers).unwrap_or(u64::MAX);
        let twice = Span::from_micros(self.minute.as_micros().saturating_mul(workers) / (self.limit * 2));
        twice.min(self.edge()).into()
    }

    /// The limit as the workers' policy says it.
    pub(super) fn limit_text(self) -> String {
        format!("{} requests / {}", self.limit, self.minute_text())
    }

    /// The minute's length, as arguments and limits take it.
    pub(super) fn minute_text(self) -> String {
        format!("{} ms", self.minute.as_micros() / 1_000)
    }
}
