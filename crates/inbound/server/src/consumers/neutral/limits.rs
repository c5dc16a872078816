//! Limits and usage in our own JSON.

use schemars::JsonSchema;
use serde::Serialize;
use tollway::Timestamp;
use tollway_consumers::{Active, CallLimits, ConsumerId, Counter, RecordDate, write_date};

use super::period_limits::PeriodLimits;
use crate::consumers::management_json::LimitingState;

/// Whether consumers are limited, and by what.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConsumersState {
    /// The master switch: `enabled` of [consumers].
    enabled: bool,
    /// The store: `redis`, `memory`, `file`, `postgres` or `dynamodb`.
    store: String,
    /// Whether the store answers.
    store_available: bool,
    /// Whether consumers are limited now: limits are enabled, and the store answers.
    limiting: bool,
}

impl ConsumersState {
    pub(super) fn of(state: &LimitingState) -> Self {
        let &LimitingState { enabled, technology, available } = state;
        let store = technology.to_lowercase();
        Self { enabled, store, store_available: available, limiting: enabled && available }
    }
}

/// The limits of a consumer in one hour: the sums of its records.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConsumerLimits {
    consumer_id: String,
    /// The start of the hour, in UTC.
    #[schemars(extend("format" = "date-time"))]
    hour: String,
    /// The records that were added up. If empty, the defaults of [consumers] are in force.
    record_ids: Vec<String>,
    /// Whether all its calls are denied now, whatever its limits.
    blocked: bool,
    limits: PeriodLimits,
}

impl ConsumerLimits {
    pub(super) fn of(consumer: &ConsumerId, active: &Active) -> Self {
        let amount = |amount: std::num::NonZeroU64| amount.get().cast_signed();
        Self {
            consumer_id: consumer.to_string(),
            hour: write_date(active.hour.first()),
            record_ids: active.considered.iter().map(ToString::to_string).collect(),
            blocked: active.blocked,
            limits: PeriodLimits::new(|period| active.limits.of(period).map_or(-1, amount)),
        }
    }
}

/// What a consumer has used of its limits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConsumerUsage {
    consumer_id: String,
    /// The periods that are limited, the shortest first.
    limits: Vec<PeriodUsage>,
}

#[derive(Serialize, JsonSchema)]
struct PeriodUsage {
    /// `per_second` to `per_month`.
    name: String,
    /// How many calls the period allows.
    amount: u64,
    /// How many were made.
    used: u64,
    remaining: u64,
    /// How long until it resets, rounded up; 0 if nothing is used.
    reset_ms: u64,
    /// When it resets, rounded up to a millisecond; null if nothing is used.
    #[schemars(extend("format" = "date-time"))]
    resets_at: Option<String>,
}

impl ConsumerUsage {
    pub(super) fn of(consumer: &ConsumerId, limits: &CallLimits, counters: &[Counter]) -> Self {
        let usage = limits.limited().map(|(period, amount)| {
            let counter = counters.iter().find(|counter| counter.period == period);
            let (amount, used) = (amount.get(), counter.map_or(0, |counter| counter.calls_made));
            PeriodUsage {
                name: format!("per_{period}"),
                amount,
                used,
                remaining: amount.saturating_sub(used),
                reset_ms: counter.map_or(0, |counter| counter.resets_in.as_micros().div_ceil(1_000)),
                resets_at: counter.map(|counter| write_date(rounded_up(counter.resets_at))),
            }
        });
        Self { consumer_id: consumer.to_string(), limits: usage.collect() }
    }
}

/// To a millisecond, so that a client that waits until then does not retry too early.
fn rounded_up(moment: Timestamp) -> RecordDate {
    RecordDate::from_micros(moment.as_micros().next_multiple_of(1_000))
}
