//! What differs between algorithms: a trait that each implements in its own file, and the one match that finds it.

use std::fmt;

use super::state::{State, StateKind};
use super::{Advance, Correction, Debited, Refill, Room};
use crate::bounds::{AMOUNT_MAX, PERIOD_MAX, PERIOD_MIN};
use crate::{Limit, LimitError, PermitId, Span, Timestamp};

/// One algorithm: what a limit of it says of itself, and how its meters count.
///
/// The methods of meters get the limit, and the meter's state as of `as_of`.
pub(crate) trait AlgorithmRules: Copy {
    /// What a meter keeps.
    type State: StateKind;

    /// Its word in the text of a limit.
    fn word(self) -> &'static str;

    /// The nominal period, if it has one: a month is 30 days.
    fn period(self) -> Option<Span>;

    /// The name of a limit that is not named for its unit and period. The period is not part of its identity then.
    fn own_name(self) -> Option<&'static str> {
        None
    }

    /// Whether a limit of this amount can be.
    fn check(self, _amount: u64) -> Result<(), LimitError> {
        self.period().map_or(Ok(()), check_period)
    }

    /// The most that a limit of this amount grants at once.
    fn capacity(self, amount: u64) -> u64 {
        amount
    }

    /// How the bucket of a limit of this amount refills, if it has one.
    fn refill(self, _amount: u64) -> Option<Refill> {
        None
    }

    /// The longest time a take can count.
    fn longest_memory(self, limit: &Limit) -> Span;

    /// Whether a take can be booked ahead: the limit can tell when there is room.
    fn books_ahead(self) -> bool;

    /// Writes the limit, in a form that parses back. `rate` is its amount, unit and period.
    fn write(self, _amount: u64, rate: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{rate} {}", self.word())
    }

    /// A fresh state: nothing taken.
    fn fresh(self) -> State;

    /// Advances to `to`.
    fn advance(self, limit: &Limit, state: &mut Self::State, as_of: Timestamp, to: Timestamp);

    /// The earliest time from `from` on at which the amount fits, without a take before.
    fn earliest(
        self,
        limit: &Limit,
        state: &Self::State,
        room: Room,
        as_of: Timestamp,
        from: Timestamp,
    ) -> Timestamp;

    /// Advances and takes the room's amount.
    fn debit(
        self,
        limit: &Limit,
        state: &mut Self::State,
        room: Room,
        span: Advance,
        permit: PermitId,
    ) -> Debited;

    /// Corrects a permit's debit. Returns whether it still could.
    fn settle(self, limit: &Limit, state: &mut Self::State, correction: Correction, as_of: Timestamp)
    -> bool;

    /// Whether a permit booked at `booked_at` may still begin at `now`.
    fn still_good(
        self,
        _state: &Self::State,
        _permit: PermitId,
        _booked_at: Timestamp,
        _now: Timestamp,
        _edge: Span,
    ) -> bool {
        true
    }

    /// The usage at `at`, rounded up.
    fn used(self, limit: &Limit, state: &Self::State, as_of: Timestamp, at: Timestamp) -> u64;

    /// When the meter equals a fresh one, without another take.
    fn fresh_at(self, limit: &Limit, state: &Self::State, as_of: Timestamp) -> Timestamp;

    /// When the limit resets.
    fn resets_at(self, limit: &Limit, state: &Self::State, as_of: Timestamp, _at: Timestamp) -> Timestamp {
        self.fresh_at(limit, state, as_of)
    }

    /// The state of a meter, unless it is of another kind.
    #[inline]
    fn of(self, state: &State) -> Option<&Self::State> {
        Self::State::of(state)
    }

    /// The same, to change it.
    #[inline]
    fn of_mut(self, state: &mut State) -> Option<&mut Self::State> {
        Self::State::of_mut(state)
    }
}

pub(crate) fn check_amount(amount: u64) -> Result<(), LimitError> {
    match amount {
        0 => Err(LimitError::ZeroAmount),
        1..=AMOUNT_MAX => Ok(()),
        _ => Err(LimitError::AmountTooLarge(amount)),
    }
}

pub(super) fn check_period(period: Span) -> Result<(), LimitError> {
    if period < PERIOD_MIN || period > PERIOD_MAX {
        return Err(LimitError::PeriodOutOfRange(period));
    }
    Ok(())
}

/// Evaluates an expression with the [`AlgorithmRules`] of an algorithm, compiled once for each: a call through a table
/// would cost the inner loop of every grant.
macro_rules! with_rules {
    ($algorithm:expr, $rules:ident => $result:expr) => {
        match $algorithm {
            $crate::Algorithm::Window(calendar) => {
                let $rules = $crate::algorithm::WindowRules(calendar);
                $result
            }
            $crate::Algorithm::FromFirstCall(period) => {
                let $rules = $crate::algorithm::FromFirstCallRules(*period);
                $result
            }
            $crate::Algorithm::Sliding(period) => {
                let $rules = $crate::algorithm::SlidingRules(*period);
                $result
            }
            $crate::Algorithm::Bucket { period, burst } => {
                let $rules = $crate::algorithm::BucketRules { period: *period, burst: Some(*burst) };
                $result
            }
            $crate::Algorithm::Paced(period) => {
                let $rules = $crate::algorithm::BucketRules { period: *period, burst: None };
                $result
            }
            $crate::Algorithm::Adaptive(period) => {
                let $rules = $crate::algorithm::AdaptiveRules(*period);
                $result
            }
            $crate::Algorithm::Concurrency { expires } => {
                let $rules = $crate::algorithm::SlotRules { expires: *expires };
                $result
            }
        }
    };
}

pub(crate) use with_rules;
