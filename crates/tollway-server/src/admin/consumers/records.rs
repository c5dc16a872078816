//! Records of a consumer: listed, made, changed and deleted.

use hyper::StatusCode;
use tollway_consumers::{ConsumerId, Gate, RecordId};

use super::record::{RecordAnswer, RecordBody, RecordsAnswer};
use crate::http::{Problem, Response, json, no_content};

pub(super) async fn list(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let kept = gate.records().consumer(consumer).await?;
    let limits = kept.records.iter().map(RecordAnswer::of).collect();
    Ok(json(StatusCode::OK, &RecordsAnswer { limits }))
}

pub(super) async fn create(gate: &Gate, consumer: ConsumerId, body: &[u8]) -> Result<Response, Problem> {
    let draft = RecordBody::draft(body, consumer)?;
    let record = gate.records().create(draft).await?;
    tracing::info!(record = %record.id, "a record of a consumer was made");
    Ok(json(StatusCode::CREATED, &RecordAnswer::of(&record)))
}

pub(super) async fn change(
    gate: &Gate,
    consumer: ConsumerId,
    id: RecordId,
    body: &[u8],
) -> Result<Response, Problem> {
    let draft = RecordBody::draft(body, consumer)?;
    let record = gate.records().change(id, draft).await?;
    tracing::info!(record = %record.id, "a record of a consumer was changed");
    Ok(json(StatusCode::OK, &RecordAnswer::of(&record)))
}

pub(super) async fn delete(gate: &Gate, consumer: &ConsumerId, id: RecordId) -> Result<Response, Problem> {
    gate.records().delete(consumer, id).await?;
    tracing::info!(record = %id, "a record of a consumer was deleted");
    Ok(no_content(StatusCode::NO_CONTENT))
}
