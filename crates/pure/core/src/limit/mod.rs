//! A limit: one rule, such as `200 requests / minute`, checked when it is built.

mod booked;
mod calendar;
mod draft;
mod kinds;
mod parse;
mod table;
mod words;

use std::fmt;

pub use calendar::{Calendar, UnknownZone, Zone};
pub use draft::read_span;
pub use parse::LimitTextError;
pub use table::{AmountText, LimitTable, LimitTableError};

use crate::algorithm::{AlgorithmRules, Refill, check_amount, with_rules};
use crate::bounds::{AMOUNT_MAX, PERIOD_MAX, PERIOD_MIN, SLOTS_MAX};
use crate::{Name, Span};

/// How a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A fixed window aligned to the epoch or to a calendar.
    Window(Calendar),
    /// A fixed window that starts at the first take.
    FromFirstCall(Span),
    /// Two epoch-aligned windows, the earlier one weighted by how much of it the sliding window still covers.
    Sliding(Span),
    /// Continuous refill of the amount per period, up to the burst.
    Bucket {
        /// The time in which the whole amount refills.
        period: Span,
        /// The most that can accumulate.
        burst: u64,
    },
    /// A bucket with burst 1: evenly spaced calls.
    Paced(Span),
    /// A rate that is learned from a vendor's answers; it starts at the amount per period. Each call counts one.
    Adaptive(Span),
    /// Slots held from grant until `done`.
    Concurrency {
        /// How long a slot lives without `renew`.
        expires: Span,
    },
}

/// One rule: an amount of a unit per period, with an algorithm.
///
/// A limit that exists is valid: every constructor checks the bounds.
///
/// ```
/// use tollway_core::Limit;
///
/// let limit: Limit = "250k tokens / minute bucket burst 500k".parse()?;
/// assert_eq!(limit.name().as_str(), "tokens_per_minute");
/// assert_eq!(limit.capacity(), 500_000);
/// assert_eq!(limit.to_string(), "250000 tokens / minute bucket burst 500000");
/// # Ok::<(), tollway_core::LimitTextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    name: Name,
    unit: Name,
    amount: u64,
    algorithm: Algorithm,
    identity: u32,
    capacity: u64,
    /// Of a bucket.
    refill: Option<Refill>,
}

/// Why numbers are not a valid limit.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Nothing would ever be granted.
    #[error(
        "the amount is 0, so nothing would ever be granted; to block a caller, deny it before the limiter"
    )]
    ZeroAmount,
    /// Above [`AMOUNT_MAX`].
    #[error("{0} is more than the largest amount, {AMOUNT_MAX}")]
    AmountTooLarge(u64),
    /// Above [`SLOTS_MAX`].
    #[error("{0} slots are more than the {SLOTS_MAX} a concurrency limit may have")]
    TooManySlots(u64),
    /// A burst below 1.
    #[error("the burst is 0, so nothing would ever be granted")]
    ZeroBurst,
    /// Outside [`PERIOD_MIN`] and [`PERIOD_MAX`].
    #[error("a period of {0} is outside {PERIOD_MIN} to {PERIOD_MAX}")]
    PeriodOutOfRange(Span),
}

crate::debug_as_display!(LimitError);

impl Limit {
    /// Checks the numbers and builds the limit under its default name.
    pub fn new(amount: u64, unit: Name, algorithm: Algorithm) -> Result<Self, LimitError> {
        check_amount(amount)?;
        with_rules!(&algorithm, rules => rules.check(amount))?;
        let name = words::default_name(&unit, &algorithm);
        let identity = words::identity(&name, &unit, &algorithm);
        let capacity = with_rules!(&algorithm, rules => rules.capacity(amount));
        let refill = with_rules!(&algorithm, rules => rules.refill(amount));
        Ok(Self { name, unit, amount, algorithm, identity, capacity, refill })
    }

    /// The same limit under another name (and so, another meter).
    #[must_use]
    pub fn named(mut self, name: Name) -> Self {
        self.identity = words::identity(&name, &self.unit, &self.algorithm);
        self.name = name;
        self
    }

    /// The same limit with another amount; a bucket whose burst was its amount keeps it so. The meter stays.
    pub fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        self.with_amounts(amount, None)
    }

    /// The same limit with another amount and, if it is a bucket, another burst. The meter stays.
    pub fn with_amounts(&self, amount: u64, burst: Option<u64>) -> Result<Self, LimitError> {
        let follows = self.burst().filter(|burst| *burst == self.amount).map(|_| amount);
        let algorithm = self.algorithm.with_burst(burst.or(follows));
        Ok(Self::new(amount, self.unit.clone(), algorithm)?.named(self.name.clone()))
    }

    /// Reads an amount by itself: `200`, `1_000`, `250k`, `5M`.
    pub fn read_amount(text: &str) -> Result<u64, String> {
        draft::read_amount(text)
    }

    /// Its name, unique in its policy.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What it counts.
    pub fn unit(&self) -> &Name {
        &self.unit
    }

    /// How much per period, or how many slots.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// How it counts.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The word for how it counts: `window`, `from first call`, `sliding`, `bucket`, `paced`, `adaptive` or `concurrent`.
    pub fn algorithm_word(&self) -> &'static str {
        with_rules!(&self.algorithm, rules => rules.word())
    }

    /// The most it could ever grant at once: the burst of a bucket, one of a paced or an adaptive limit, else the amount.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A hash of name, unit, algorithm, period and zone, without amount and burst. It ties a meter to its limit.
    pub fn identity(&self) -> u32 {
        self.identity
    }

    /// Its nominal period: a month is 30 days. Slots have no period.
    pub fn period(&self) -> Option<Span> {
        with_rules!(&self.algorithm, rules => rules.period())
    }

    /// The longest time a take can count in this limit.
    pub fn longest_memory(&self) -> Span {
        with_rules!(&self.algorithm, rules => rules.longest_memory(self))
    }

    /// The whole units that a bucket refills in this time, rounded up.
    pub(crate) fn refilled_in(&self, elapsed: Span) -> u64 {
        self.refill.map_or(0, |refill| refill.refilled_in(elapsed))
    }

    /// How long an empty bucket takes to fill, rounded up; zero for limits that do not refill.
    pub fn refill_time(&self) -> Span {
        self.refill.map_or(Span::ZERO, |refill| refill.full_time())
    }

    /// The rate of an adaptive limit before anything is learned, in millionths of a call a second.
    pub fn starts_at(&self) -> Option<u64> {
        self.period()
            .filter(|_| self.is_adaptive())
            .map(|period| crate::algorithm::start_rate(self.amount, period))
    }

    /// How its bucket refills, if it has one.
    #[inline]
    pub(crate) fn refill(&self) -> Option<&Refill> {
        self.refill.as_ref()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        words::write_limit(self, f)
    }
}
