//! What every contender is asked to do, in terms that each library can be told in its own words.

/// More than a run can take from one key, so that whatever should be granted is.
const PLENTY: u32 = 1_000_000_000;
const HOUR_SECONDS: u32 = 3_600;
const DAY_SECONDS: u32 = 24 * HOUR_SECONDS;

/// A bucket of `burst` that refills by `amount` per period. The refill is slow, so that a key stays in use between two
/// visits: none is forgotten and made anew.
#[derive(Clone, Copy)]
pub(crate) struct Quota {
    pub(crate) amount: u32,
    pub(crate) period_seconds: u32,
    pub(crate) burst: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// One limit per key, which always grants.
    OneLimit,
    /// Six limits per key, all of which always grant.
    SixLimits,
    /// One limit per key, of which nothing is left.
    Exhausted,
}

impl Work {
    pub(crate) fn quotas(self) -> Vec<Quota> {
        let plenty = |hours| Quota { amount: 10_000, period_seconds: hours * HOUR_SECONDS, burst: PLENTY };
        match self {
            Self::OneLimit => vec![plenty(1)],
            Self::SixLimits => (1..=6).map(plenty).collect(),
            Self::Exhausted => vec![Quota { amount: 10, period_seconds: DAY_SECONDS, burst: 10 }],
        }
    }

    pub(crate) fn grants(self) -> bool {
        self != Self::Exhausted
    }

    /// How often a key must be visited before it is measured: until it exists, or until nothing is left of it.
    pub(crate) fn visits_before(self) -> u32 {
        // Twice the burst, because throttlecrab grants more than that.
        if self.grants() { 1 } else { 2 * self.quotas()[0].burst }
    }

    /// As in the names of cases.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OneLimit => "granted",
            Self::SixLimits => "granted by six limits",
            Self::Exhausted => "denied",
        }
    }
}

/// Where a contender gets its time from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// From what the library reads by default.
    Machine,
    /// It stands still, so that instructions can be counted: clocks calibrate themselves for a while that varies.
    Fixed,
}
