//! The work of every contender, independent of the libraries' syntax.

/// More than a run can take from one key, so that every take is granted.
const PLENTY: u32 = 1_000_000_000;
const HOUR_SECONDS: u32 = 3_600;
const DAY_SECONDS: u32 = 24 * HOUR_SECONDS;

/// A bucket of `burst` that refills by `amount` per period. The refill is slow, so that a key stays in use between two
/// visits and is never dropped and recreated.
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
    /// Seven limits per key, all of which always grant. Only ours.
    SevenLimits,
    /// One limit per key, used up.
    Exhausted,
    /// One limit per key on a unit other than requests, whose cost the take names. Only ours, like the following.
    NamedCost,
    /// One limit per key; every take has its own id.
    WithId,
    /// Two policies of one limit each, all or nothing.
    TwoPolicies,
    /// One limit per key; every take is for a new key.
    NewSubject,
}

impl Work {
    pub(crate) fn quotas(self) -> Vec<Quota> {
        let plenty = |hours| Quota { amount: 10_000, period_seconds: hours * HOUR_SECONDS, burst: PLENTY };
        match self {
            Self::OneLimit | Self::NamedCost | Self::WithId | Self::TwoPolicies => vec![plenty(1)],
            // A full bucket refills within a tenth of a second, so that the number of known keys stays bounded.
            Self::NewSubject => vec![Quota { amount: 100, period_seconds: 1, burst: 10 }],
            Self::SixLimits => (1..=6).map(plenty).collect(),
            Self::SevenLimits => (1..=7).map(plenty).collect(),
            Self::Exhausted => vec![Quota { amount: 10, period_seconds: DAY_SECONDS, burst: 10 }],
        }
    }

    pub(crate) fn grants(self) -> bool {
        self != Self::Exhausted
    }

    /// How often a key must be visited before the measurement: until it exists, or until it is used up.
    pub(crate) fn visits_before(self) -> u32 {
        // Twice the burst, because throttlecrab grants more than that.
        if self.grants() { 1 } else { 2 * self.quotas()[0].burst }
    }

    /// As in case names.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OneLimit => "granted",
            Self::SixLimits => "granted by six limits",
            Self::SevenLimits => "granted by seven limits",
            Self::Exhausted => "denied",
            Self::NamedCost => "granted with a named cost",
            Self::WithId => "granted with an id",
            Self::TwoPolicies => "granted by two policies",
            Self::NewSubject => "granted to a new subject",
        }
    }
}

/// The time source of a contender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// The library's default.
    Machine,
    /// A fixed time, for counting instructions: real clocks calibrate themselves for a varying time.
    Fixed,
}
