//! Whether a consumer may call at all: a flag of its own, whatever its limits (C3).

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollway_consumers::{ConsumerId, Gate};

use crate::http::{Problem, Response, json};

/// Whether a consumer is blocked: the question and the answer.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockedBody {
    /// Whether every call of it is refused.
    blocked: bool,
}

pub(super) async fn look(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let kept = gate.records().consumer(consumer).await?;
    Ok(json(StatusCode::OK, &BlockedBody { blocked: kept.blocked }))
}

pub(super) async fn set(gate: &Gate, consumer: &ConsumerId, body: &[u8]) -> Result<Response, Problem> {
    let question: BlockedBody = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    gate.records().set_blocked(consumer, question.blocked).await?;
    tracing::info!(blocked = question.blocked, "a consumer was blocked, or is so no longer");
    Ok(json(StatusCode::OK, &question))
}
