//! What is in force for a consumer: now, and in any hour.

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollway_consumers::{Active, ConsumerId, Gate, Hour, HourError, write_date};

use super::six::{ActiveNumbers, LimitTexts, SixCounters, number};
use crate::http::{Problem, Response, json};

/// A consumer's limits in force, and what was counted under them.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CallLimitsAnswer {
    #[serde(flatten)]
    limits: LimitTexts,
    /// What was counted, whatever the store is; a period without a counter is left out.
    redis_call_limit: SixCounters,
}

/// A consumer's limits in one hour.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ActiveAnswer {
    /// The records that were added up. None: the defaults of [consumers] are in force.
    considered_rate_limit_ids: Vec<String>,
    /// Where the hour begins, in UTC.
    #[schemars(extend("format" = "date-time"))]
    active_at_date: String,
    #[serde(flatten)]
    limits: ActiveNumbers,
}

pub(super) async fn call_limits(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let active = gate.active(consumer).await?;
    let counters = gate.counters(consumer, active.limits).await?;
    let answer = CallLimitsAnswer {
        limits: LimitTexts::new(|period| number(&active.limits, period)),
        redis_call_limit: SixCounters::of(&counters),
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn active_now(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    Ok(answer(&*gate.active(consumer).await?))
}

pub(super) async fn active_in(gate: &Gate, consumer: &ConsumerId, hour: &str) -> Result<Response, Problem> {
    let hour: Hour = hour.parse().map_err(|error: HourError| Problem::bad_request(error.to_string()))?;
    Ok(answer(&gate.active_in(consumer, hour).await?))
}

fn answer(active: &Active) -> Response {
    let answer = ActiveAnswer {
        considered_rate_limit_ids: active.considered.iter().map(ToString::to_string).collect(),
        active_at_date: write_date(active.hour.first()),
        limits: ActiveNumbers::of(&active.limits),
    };
    json(StatusCode::OK, &answer)
}
