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
    /// One limit per key of a unit other than requests, whose cost the take names. Ours only, as are the rest.
    NamedCost,
    /// One limit per key; every take has an id of its own.
    WithId,
    /// Two policies of one limit each, all or nothing.
    TwoPolicies,
    /// One limit per key; every take is for a key that is not known yet.
    NewSubject,
}

impl Work {
    pub(crate) fn quotas(self) -> Vec<Quota> {
        let plenty = |hours| Quota { amount: 10_000, period_seconds: hours * HOUR_SECONDS, burst: PLENTY };
        match self {
            Self::OneLimit | Self::NamedCost | Self::WithId | Self::TwoPolicies => vec![plenty(1)],
            // As good as new after a tenth of a second: the keys that are known stay within bounds.
            Self::NewSubject => vec![Quota { amount: 10, period_seconds: 1, burst: 10 }],
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
            Self::NamedCost => "granted with a named cost",
            Self::WithId => "granted with an id",
            Self::TwoPolicies => "granted by two policies",
            Self::NewSubject => "granted to a new subject",
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
