//! How many calls each period allows, as numbers or null.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use tollway::core::Period;
use tollway_consumers::AMOUNT_MAX;

/// How many calls a period allows.
#[derive(Clone, Copy, Serialize, JsonSchema)]
struct CallAmount(#[schemars(range(min = 1, max = AMOUNT_MAX))] i64);

/// How many calls each period allows; null is no limit.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PeriodLimits {
    per_second: Option<CallAmount>,
    per_minute: Option<CallAmount>,
    per_hour: Option<CallAmount>,
    per_day: Option<CallAmount>,
    per_week: Option<CallAmount>,
    per_month: Option<CallAmount>,
}

impl PeriodLimits {
    /// Amounts below 1 are no limit.
    pub(super) fn new(amount: impl Fn(Period) -> i64) -> Self {
        let calls = |period| Some(amount(period)).filter(|amount| *amount > 0).map(CallAmount);
        Self {
            per_second: calls(Period::Second),
            per_minute: calls(Period::Minute),
            per_hour: calls(Period::Hour),
            per_day: calls(Period::Day),
            per_week: calls(Period::Week),
            per_month: calls(Period::Month),
        }
    }

    /// The amounts of a record, the shortest period first; -1 is no limit.
    pub(super) fn amounts(self) -> [i64; 6] {
        let Self { per_second, per_minute, per_hour, per_day, per_week, per_month } = self;
        let six = [per_second, per_minute, per_hour, per_day, per_week, per_month];
        six.map(|calls| calls.map_or(-1, |CallAmount(amount)| amount))
    }
}

impl<'de> Deserialize<'de> for CallAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(CallAmountVisitor)
    }
}

struct CallAmountVisitor;

impl Visitor<'_> for CallAmountVisitor {
    type Value = CallAmount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number of calls from 1 to {AMOUNT_MAX}, or null for no limit")
    }

    fn visit_u64<E: Error>(self, amount: u64) -> Result<CallAmount, E> {
        match i64::try_from(amount) {
            Ok(amount @ 1..=AMOUNT_MAX) => Ok(CallAmount(amount)),
            _ => Err(E::invalid_value(Unexpected::Unsigned(amount), &self)),
        }
    }

    fn visit_i64<E: Error>(self, amount: i64) -> Result<CallAmount, E> {
        Err(E::invalid_value(Unexpected::Signed(amount), &self))
    }
}
