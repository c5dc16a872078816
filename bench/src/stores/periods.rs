//! The limits of a subject: windows from the first call, high enough to grant every take of a run.

/// More than a run takes from one subject.
pub(super) const PLENTY: u64 = 1_000_000_000;

const HOUR_SECONDS: u64 = 3_600;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

/// The window of one limit.
#[derive(Clone, Copy)]
pub(super) struct Period {
    pub(super) name: &'static str,
    pub(super) seconds: u64,
}

/// The usual limits of an API. A month is 30 days.
pub(super) const SIX: [Period; 6] = [
    Period { name: "second", seconds: 1 },
    Period { name: "minute", seconds: 60 },
    Period { name: "hour", seconds: HOUR_SECONDS },
    Period { name: "day", seconds: DAY_SECONDS },
    Period { name: "week", seconds: 7 * DAY_SECONDS },
    Period { name: "month", seconds: 30 * DAY_SECONDS },
];

/// One daily limit.
pub(super) const ONE: [Period; 1] = [Period { name: "day", seconds: DAY_SECONDS }];

impl Period {
    /// The key of this period's counter, for entrants with one key per period.
    pub(super) fn counter_of(&self, subject: &str) -> String {
        format!("{subject}:{}", self.name)
    }
}
