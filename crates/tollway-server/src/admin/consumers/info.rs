//! Whether consumers are limited at all.

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollway_consumers::Gate;

use crate::admin::store;
use crate::http::{Response, json};
use crate::worker::Worker;

/// Whether consumers are limited, and by what.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RateLimitingAnswer {
    /// The master switch: `enabled` of [consumers].
    enabled: bool,
    /// What counts: `REDIS`, `MEMORY`, `FILE`, `POSTGRES` or `DYNAMODB`.
    technology: &'static str,
    /// Whether it answers.
    service_available: bool,
    /// Whether consumers are limited now: it is switched on, and what counts answers.
    currently_active: bool,
}

pub(super) async fn answer(worker: &Worker, gate: &Gate) -> Response {
    let (enabled, service_available) = (gate.is_enabled(), store::answers(&worker.state.limiter).await);
    let technology = worker.state.store.technology;
    let currently_active = enabled && service_available;
    json(StatusCode::OK, &RateLimitingAnswer { enabled, technology, service_available, currently_active })
}
