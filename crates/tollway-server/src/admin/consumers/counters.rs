//! What was counted for a consumer: looked at, and made new (C9).

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollway_consumers::{ConsumerId, Gate};

use super::six::SixCounters;
use crate::http::{Problem, Response, json, no_content};

/// What was counted for a consumer under its limits of now.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CountersAnswer {
    /// A period without a counter is left out.
    call_counters: SixCounters,
}

pub(super) async fn look(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let active = gate.active(consumer).await?;
    let counters = gate.counters(consumer, active.limits).await?;
    Ok(json(StatusCode::OK, &CountersAnswer { call_counters: SixCounters::of(&counters) }))
}

pub(super) async fn reset(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    gate.reset(consumer).await?;
    tracing::info!("the counters of a consumer were made new");
    Ok(no_content(StatusCode::NO_CONTENT))
}
