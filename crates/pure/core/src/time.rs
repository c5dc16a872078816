//! Timestamps and spans: whole microseconds, with saturating arithmetic.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bounds::COUNT_MAX;
use crate::uptime::Uptime;

/// A point in time: microseconds since the Unix epoch.
///
/// Arithmetic saturates, so no timestamp a caller can build makes the engine overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch. A fresh meter is as of here.
    pub const EPOCH: Self = Self(0);
    /// The last timestamp. Used as "never".
    pub const MAX: Self = Self(COUNT_MAX);

    /// The timestamp this many microseconds after the epoch, at most [`Timestamp::MAX`].
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros > COUNT_MAX { COUNT_MAX } else { micros })
    }

    /// The timestamp this many milliseconds after the epoch, at most [`Timestamp::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_micros(millis.saturating_mul(1_000))
    }

    /// The timestamp this many seconds after the epoch, at most [`Timestamp::MAX`].
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_micros(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// This long after, at most [`Timestamp::MAX`].
    pub const fn plus(self, span: Span) -> Self {
        Self::from_micros(self.0.saturating_add(span.0))
    }

    /// This long before, at least the epoch.
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The time since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    /// In UTC, as in RFC 3339: `2026-11-15T05:33:00Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.0).ok().and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok()) {
            Some(time) => write!(f, "{time}"),
            None => write!(f, "{} us after 1970", self.0),
        }
    }
}

/// A length of time in whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than anything the engine measures.
    pub const MAX: Self = Self(COUNT_MAX);

    /// This many microseconds, at most [`Span::MAX`].
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros > COUNT_MAX { COUNT_MAX } else { micros })
    }

    /// This many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_micros(millis.saturating_mul(1_000))
    }

    /// This many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_millis(secs.saturating_mul(1_000))
    }

    /// This many minutes.
    pub const fn from_mins(mins: u64) -> Self {
        Self::from_secs(mins.saturating_mul(60))
    }

    /// This many hours.
    pub const fn from_hours(hours: u64) -> Self {
        Self::from_mins(hours.saturating_mul(60))
    }

    /// This many days of 24 hours.
    pub const fn from_days(days: u64) -> Self {
        Self::from_hours(days.saturating_mul(24))
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This many times as long.
    pub const fn times(self, n: u64) -> Self {
        Self::from_micros(self.0.saturating_mul(n))
    }

    /// This many times as long, at most `most`.
    pub(crate) const fn times_up_to(self, n: u64, most: Self) -> Self {
        let times = self.0.saturating_mul(n);
        if times < most.0 { Self(times) } else { most }
    }

    /// The sum of both.
    pub const fn plus(self, other: Self) -> Self {
        Self::from_micros(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for Span {
    /// Rounds up to whole microseconds and saturates.
    fn from(duration: Duration) -> Self {
        let micros = duration.as_nanos().div_ceil(1_000);
        Self::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Duration::from_micros(span.0)
    }
}

impl fmt::Display for Span {
    /// The largest unit that is exact: `10m`, `250ms`, `36h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] =
            [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
        for (size, name) in UNITS {
            if let (Some(count @ 1..), Some(0)) = (self.0.checked_div(size), self.0.checked_rem(size)) {
                return write!(f, "{count}{name}");
            }
        }
        write!(f, "{}us", self.0)
    }
}

/// A clock. The engine never reads it; its caller does.
pub trait Clock: Send + Sync + 'static {
    /// The current time. Readings may repeat and should not go back; accounts tolerate it if they do.
    fn now(&self) -> Timestamp;

    /// How long the machine has been running, which no change of its date moves. `None`: not known.
    fn uptime(&self) -> Option<Uptime> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Span::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::EPOCH.minus(Span::from_secs(1)), Timestamp::EPOCH);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::MAX), Span::ZERO);
        assert_eq!(Span::from_days(u64::MAX), Span::MAX);
    }

    #[test]
    fn spans_read_as_people_write_them() {
        let shown: Vec<String> =
            [Span::from_mins(10), Span::from_millis(1_500), Span::from_hours(36), Span::ZERO]
                .iter()
                .map(Span::to_string)
                .collect();
        assert_eq!(shown, ["10m", "1500ms", "36h", "0us"]);
    }

    #[test]
    fn timestamps_read_as_people_write_them() {
        assert_eq!(Timestamp::from_secs(1_794_720_780).to_string(), "2026-11-15T05:33:00Z");
    }

    #[test]
    fn a_duration_is_never_rounded_down() {
        assert_eq!(Span::from(Duration::from_nanos(1)), Span::from_micros(1));
        assert_eq!(Span::from(Duration::MAX), Span::MAX);
    }
}
