//! Six of a kind, one for each period, under the names that they have in JSON.

use schemars::JsonSchema;
use serde::Serialize;
use tollway::core::Period;
use tollway_consumers::{CallLimits, Counter};

/// An amount as a text, up to the largest there is, `tollway_consumers::AMOUNT_MAX`.
const AMOUNT: &str = "^(-1|[0-9]{1,15}|10{15})$";

/// Six limits as texts: `"-1"` and `"0"` are none.
#[derive(Serialize, JsonSchema)]
pub(super) struct LimitTexts {
    #[schemars(regex(pattern = AMOUNT))]
    per_second_call_limit: String,
    #[schemars(regex(pattern = AMOUNT))]
    per_minute_call_limit: String,
    #[schemars(regex(pattern = AMOUNT))]
    per_hour_call_limit: String,
    #[schemars(regex(pattern = AMOUNT))]
    per_day_call_limit: String,
    #[schemars(regex(pattern = AMOUNT))]
    per_week_call_limit: String,
    #[schemars(regex(pattern = AMOUNT))]
    per_month_call_limit: String,
}

impl LimitTexts {
    pub(super) fn new(amount: impl Fn(Period) -> i64) -> Self {
        let text = |period| amount(period).to_string();
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

/// Six limits in force as numbers; -1 is none.
#[derive(Serialize, JsonSchema)]
pub(super) struct ActiveNumbers {
    active_per_second_rate_limit: i64,
    active_per_minute_rate_limit: i64,
    active_per_hour_rate_limit: i64,
    active_per_day_rate_limit: i64,
    active_per_week_rate_limit: i64,
    active_per_month_rate_limit: i64,
}

impl ActiveNumbers {
    pub(super) fn of(limits: &CallLimits) -> Self {
        Self {
            active_per_second_rate_limit: number(limits, Period::Second),
            active_per_minute_rate_limit: number(limits, Period::Minute),
            active_per_hour_rate_limit: number(limits, Period::Hour),
            active_per_day_rate_limit: number(limits, Period::Day),
            active_per_week_rate_limit: number(limits, Period::Week),
            active_per_month_rate_limit: number(limits, Period::Month),
        }
    }
}

/// The limit of a period; -1 is none.
pub(super) fn number(limits: &CallLimits, period: Period) -> i64 {
    limits.of(period).map_or(-1, |amount| i64::try_from(amount.get()).unwrap_or(i64::MAX))
}

/// What was counted; a period without a counter is left out.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct SixCounters {
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<CounterAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_minute: Option<CounterAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_hour: Option<CounterAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_day: Option<CounterAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_week: Option<CounterAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_month: Option<CounterAnswer>,
}

#[derive(Serialize, JsonSchema)]
struct CounterAnswer {
    calls_made: u64,
    /// Rounded up, so that a client that waits this long does not come back too early.
    reset_in_seconds: u64,
}

impl SixCounters {
    pub(super) fn of(counters: &[Counter]) -> Self {
        let mut six = Self::default();
        for Counter { period, calls_made, resets_in } in counters {
            let reset_in_seconds = resets_in.as_micros().div_ceil(1_000_000);
            let place = match period {
                Period::Second => &mut six.per_second,
                Period::Minute => &mut six.per_minute,
                Period::Hour => &mut six.per_hour,
                Period::Day => &mut six.per_day,
                Period::Week => &mut six.per_week,
                Period::Month => &mut six.per_month,
            };
            *place = Some(CounterAnswer { calls_made: *calls_made, reset_in_seconds });
        }
        six
    }
}
