//! The six amounts of a record as written, and the six limits that result.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollway_core::Period;
use tollway_core::bounds::AMOUNT_MAX as LIMIT_AMOUNT_MAX;

use crate::quote::quote;

/// The largest amount of a record, and where sums of them saturate: the largest that a limit can have.
pub const AMOUNT_MAX: i64 = LIMIT_AMOUNT_MAX.cast_signed();

/// How many calls each period allows: positive, or -1 or 0 for "no statement about this period".
///
/// In JSON it is six strings, `{"per_second_call_limit": "10", "per_minute_call_limit": "-1", ...}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "AmountTexts", into = "AmountTexts")]
pub struct Amounts([i64; 6]);

/// An invalid amount: its period, and the problem.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("per_{period}_call_limit {problem}")]
pub struct AmountError {
    /// The period.
    pub period: Period,
    /// The problem.
    pub problem: AmountProblem,
}

tollway_core::debug_as_display!(AmountError);

/// Why a value is not an amount. The text follows the name of its field.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountProblem {
    /// The field is missing.
    #[error("is missing: write \"-1\" where there is no limit")]
    Missing,
    /// Not a string with a whole number.
    #[error("is {0}: write a whole number as a text, such as \"100\" or \"-1\"")]
    NotANumber(String),
    /// A negative number other than -1.
    #[error("is {0}: write -1 where there is no limit, or a number of calls")]
    BelowNone(i64),
    /// More than a limit can count.
    #[error("is {0}: at most {AMOUNT_MAX} calls can be counted")]
    TooLarge(String),
}

tollway_core::debug_as_display!(AmountProblem);

impl Amounts {
    /// No period is limited.
    pub const NONE: Self = Self([-1; 6]);

    /// Checks six amounts, the shortest period first.
    pub fn new(amounts: [i64; 6]) -> Result<Self, AmountError> {
        for (period, amount) in Period::ALL.into_iter().zip(amounts) {
            check(amount).map_err(|problem| AmountError { period, problem })?;
        }
        Ok(Self(amounts))
    }

    /// The amount of a period: -1, 0, or that many calls.
    pub fn of(&self, period: Period) -> i64 {
        self.0[period as usize]
    }

    /// All six, the shortest period first.
    pub fn all(&self) -> [i64; 6] {
        self.0
    }
}

impl Default for Amounts {
    fn default() -> Self {
        Self::NONE
    }
}

/// Reads one amount as records have it in JSON.
pub fn read_amount(text: &str) -> Result<i64, AmountProblem> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AmountProblem::NotANumber(quote(text)));
    }
    // Only digits: a number too large for i64.
    let amount = text.parse().map_err(|_| AmountProblem::TooLarge(quote(text)))?;
    check(amount)?;
    Ok(amount)
}

fn check(amount: i64) -> Result<(), AmountProblem> {
    match amount {
        ..-1 => Err(AmountProblem::BelowNone(amount)),
        -1..=AMOUNT_MAX => Ok(()),
        _ => Err(AmountProblem::TooLarge(amount.to_string())),
    }
}

/// Amounts in JSON. Any value is accepted at first, so that the error can name the field.
#[derive(Serialize, Deserialize)]
struct AmountTexts {
    #[serde(default)]
    per_second_call_limit: Value,
    #[serde(default)]
    per_minute_call_limit: Value,
    #[serde(default)]
    per_hour_call_limit: Value,
    #[serde(default)]
    per_day_call_limit: Value,
    #[serde(default)]
    per_week_call_limit: Value,
    #[serde(default)]
    per_month_call_limit: Value,
}

impl TryFrom<AmountTexts> for Amounts {
    type Error = AmountError;

    fn try_from(texts: AmountTexts) -> Result<Self, AmountError> {
        let texts = [
            texts.per_second_call_limit,
            texts.per_minute_call_limit,
            texts.per_hour_call_limit,
            texts.per_day_call_limit,
            texts.per_week_call_limit,
            texts.per_month_call_limit,
        ];
        let mut amounts = [0; 6];
        for ((period, text), amount) in Period::ALL.into_iter().zip(&texts).zip(&mut amounts) {
            let read = match text {
                Value::Null => Err(AmountProblem::Missing),
                Value::String(text) => read_amount(text),
                other => Err(AmountProblem::NotANumber(quote(&other.to_string()))),
            };
            *amount = read.map_err(|problem| AmountError { period, problem })?;
        }
        Ok(Self(amounts))
    }
}

impl From<Amounts> for AmountTexts {
    fn from(amounts: Amounts) -> Self {
        let text = |period| Value::String(amounts.of(period).to_string());
        Self {
            per_second_call_limit: text(Period::Second),
            per_minute_call_limit: text(Period::Minute),
            per_hour_call_limit: text(Period::Hour),
            per_day_call_limit: text(Period::Day),
            per_week_call_limit: text(Period::Week),
            per_month_call_limit: text(Period::Month),
        }
    }
}

/// How many calls each period allows; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallLimits([Option<NonZeroU64>; 6]);

impl CallLimits {
    /// No limit in any period.
    pub const UNLIMITED: Self = Self([None; 6]);

    /// Sums amounts period by period. Only positive amounts count; a period without one is unlimited.
    pub fn sum<'a>(amounts: impl IntoIterator<Item = &'a Amounts>) -> Self {
        let mut sums = [0_i64; 6];
        for amounts in amounts {
            for (sum, amount) in sums.iter_mut().zip(amounts.0) {
                // The sum is at most twice the bound before it is capped, so it cannot overflow.
                *sum = (*sum + amount.max(0)).min(AMOUNT_MAX);
            }
        }
        Self(sums.map(|sum| NonZeroU64::new(sum.unsigned_abs())))
    }

    /// How many calls a period allows; `None` is unlimited.
    pub fn of(&self, period: Period) -> Option<NonZeroU64> {
        self.0[period as usize]
    }

    /// The periods that are limited, the shortest first.
    pub fn limited(&self) -> impl Iterator<Item = (Period, NonZeroU64)> + '_ {
        Period::ALL.into_iter().filter_map(|period| Some((period, self.of(period)?)))
    }

    /// Whether no period is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::UNLIMITED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(second: &str) -> Result<Amounts, String> {
        let json = format!(
            r#"{{"per_second_call_limit": {second}, "per_minute_call_limit": "100", "per_hour_call_limit": "0",
                 "per_day_call_limit": "-1", "per_week_call_limit": "-1", "per_month_call_limit": "200000"}}"#
        );
        serde_json::from_str(&json).map_err(|error| error.to_string())
    }

    fn minutes(amounts: &[i64]) -> Option<u64> {
        let amounts: Vec<Amounts> =
            amounts.iter().map(|&minute| Amounts::new([-1, minute, -1, -1, -1, -1]).unwrap()).collect();
        CallLimits::sum(&amounts).of(Period::Minute).map(NonZeroU64::get)
    }

    /// C8: limits are strings in JSON.
    #[test]
    fn amounts_are_strings_in_json() {
        let amounts = read("\"10\"").unwrap();
        assert_eq!(amounts.all(), [10, 100, 0, -1, -1, 200_000]);
        let json = serde_json::to_value(amounts).unwrap();
        assert_eq!(json["per_second_call_limit"], "10");
        assert_eq!(json["per_day_call_limit"], "-1");
        assert_eq!(serde_json::from_value::<Amounts>(json).unwrap(), amounts);
    }

    #[test]
    fn a_wrong_amount_is_named_with_its_field() {
        for (written, reason) in [
            ("\"-2\"", "per_second_call_limit is -2: write -1"),
            ("\"ten\"", "per_second_call_limit is \"ten\": write a whole number"),
            ("\"1.5\"", "per_second_call_limit is \"1.5\": write a whole number"),
            ("\"+5\"", "per_second_call_limit is \"+5\": write a whole number"),
            ("\" 5\"", "per_second_call_limit is \" 5\": write a whole number"),
            ("\"-\"", "per_second_call_limit is \"-\": write a whole number"),
            ("\"\"", "per_second_call_limit is \"\": write a whole number"),
            ("100", "write a whole number as a text"),
            ("null", "per_second_call_limit is missing"),
            ("\"1000000000000001\"", "at most 1000000000000000 calls"),
            ("\"99999999999999999999\"", "at most 1000000000000000 calls"),
        ] {
            let error = read(written).unwrap_err();
            assert!(error.contains(reason), "{written}: {error}");
        }
        let missing = serde_json::from_str::<Amounts>("{}").unwrap_err().to_string();
        assert!(missing.contains("per_second_call_limit is missing"), "{missing}");
        let error = Amounts::new([0, 0, 0, 0, -7, 0]).unwrap_err();
        assert_eq!((error.period, error.problem), (Period::Week, AmountProblem::BelowNone(-7)));
    }

    /// C3, the documented example: 100 and 50 per minute make 150.
    #[test]
    fn aggregation_example_100_plus_50_is_150() {
        assert_eq!(minutes(&[100, 50]), Some(150));
    }

    /// C3: -1 and 0 are ignored; if none is positive, the period is unlimited.
    #[test]
    fn only_positive_amounts_count() {
        assert_eq!(minutes(&[100, -1]), Some(100));
        assert_eq!(minutes(&[0, 100]), Some(100));
        assert_eq!(minutes(&[-1, -1]), None);
        assert_eq!(minutes(&[0, -1]), None);
        assert_eq!(minutes(&[]), None);
    }

    #[test]
    fn sums_saturate_at_the_largest_limit() {
        assert_eq!(minutes(&[AMOUNT_MAX, AMOUNT_MAX, AMOUNT_MAX]), Some(LIMIT_AMOUNT_MAX));
    }

    #[test]
    fn limited_periods_come_shortest_first() {
        let amounts = Amounts::new([-1, -1, 7, -1, 0, 9]).unwrap();
        let limits = CallLimits::sum([&amounts]);
        let limited: Vec<(Period, u64)> = limits.limited().map(|(period, n)| (period, n.get())).collect();
        assert_eq!(limited, [(Period::Hour, 7), (Period::Month, 9)]);
        assert!(!limits.is_unlimited() && CallLimits::sum([&Amounts::NONE]).is_unlimited());
    }
}
