//! Limits and counters in the documented JSON.

use schemars::JsonSchema;
use serde::Serialize;
use tollway::core::Period;
use tollway_consumers::{Active, CallLimits, Counter, write_date};

use crate::consumers::management_json::LimitingState;

/// Whether consumers are limited, and by what.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RateLimitingAnswer {
    /// The master switch: `enabled` of [consumers].
    enabled: bool,
    /// The store: `REDIS`, `MEMORY`, `FILE`, `POSTGRES` or `DYNAMODB`.
    technology: &'static str,
    /// Whether the store answers.
    service_available: bool,
    /// Whether consumers are limited now: limits are enabled, and the store answers.
    currently_active: bool,
}

impl RateLimitingAnswer {
    pub(super) fn of(state: &LimitingState) -> Self {
        let &LimitingState { enabled, technology, available } = state;
        Self { enabled, technology, service_available: available, currently_active: enabled && available }
    }
}

/// A consumer's limits in force, and their counters.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CallLimitsAnswer {
    #[serde(flatten)]
    limits: LimitTexts,
    /// The counters, whatever the store is; a period without a counter is left out.
    redis_call_limit: SixCounters,
}

impl CallLimitsAnswer {
    pub(super) fn of(limits: &CallLimits, counters: &[Counter]) -> Self {
        let texts = LimitTexts::new(|period| number(limits, period));
        Self { limits: texts, redis_call_limit: SixCounters::of(counters) }
    }
}

/// A consumer's limits in one hour.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ActiveAnswer {
    /// The records that were added up. If empty, the defaults of [consumers] are in force.
    considered_rate_limit_ids: Vec<String>,
    /// The start of the hour, in UTC.
    #[schemars(extend("format" = "date-time"))]
    active_at_date: String,
    #[serde(flatten)]
    limits: ActiveNumbers,
}

impl ActiveAnswer {
    pub(super) fn of(active: &Active) -> Self {
        Self {
            considered_rate_limit_ids: active.considered.iter().map(ToString::to_string).collect(),
            active_at_date: write_date(active.hour.first()),
            limits: ActiveNumbers::of(&active.limits),
        }
    }
}

/// The counters of a consumer under its current limits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CountersAnswer {
    /// A period without a counter is left out.
    call_counters: SixCounters,
}

impl CountersAnswer {
    pub(super) fn of(counters: &[Counter]) -> Self {
        Self { call_counters: SixCounters::of(counters) }
    }
}

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
struct ActiveNumbers {
    active_per_second_rate_limit: i64,
    active_per_minute_rate_limit: i64,
    active_per_hour_rate_limit: i64,
    active_per_day_rate_limit: i64,
    active_per_week_rate_limit: i64,
    active_per_month_rate_limit: i64,
}

impl ActiveNumbers {
    fn of(limits: &CallLimits) -> Self {
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
fn number(limits: &CallLimits, period: Period) -> i64 {
    limits.of(period).map_or(-1, |amount| i64::try_from(amount.get()).unwrap_or(i64::MAX))
}

/// Counters by period; a period without a counter is left out.
#[derive(Default, Serialize, JsonSchema)]
struct SixCounters {
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
    /// Rounded up, so that a client that waits this long does not retry too early.
    reset_in_seconds: u64,
}

impl SixCounters {
    fn of(counters: &[Counter]) -> Self {
        let mut six = Self::default();
        for Counter { period, calls_made, resets_in, .. } in counters {
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
