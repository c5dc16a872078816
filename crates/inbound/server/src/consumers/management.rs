//! The management of consumers over HTTP: each operation once, whatever the shape of its JSON.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollway_consumers::{ConsumerId, Gate, RecordId, RecordIdError};

use super::documented::Documented;
use super::management_json::{LimitingState, ManagementJson};
use super::neutral::Neutral;
use super::routes::{JsonShape, Management};
use crate::admin::Actor;
use crate::admin::store::answers as store_answers;
use crate::connection::Caller;
use crate::http::{Problem, Response, json, no_content, read};
use crate::worker::Worker;

/// Whether a consumer is blocked, as request and as response.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockedBody {
    /// Whether all its calls are denied.
    blocked: bool,
}

/// Runs an operation. The path's parameters are a consumer and then a record or an hour.
pub(crate) async fn manage(
    what: Management,
    shape: JsonShape,
    worker: &Worker,
    caller: &Caller,
    actor: &Actor,
    parameters: Vec<String>,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    match shape {
        JsonShape::Documented => run::<Documented>(what, worker, caller, actor, parameters, request).await,
        JsonShape::Neutral => run::<Neutral>(what, worker, caller, actor, parameters, request).await,
    }
}

async fn run<S: ManagementJson>(
    what: Management,
    worker: &Worker,
    caller: &Caller,
    actor: &Actor,
    parameters: Vec<String>,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let consumers = worker.state.consumers().ok_or_else(Problem::no_consumers)?;
    let gate = &consumers.gate;
    let [consumer, of_it] = [0, 1].map(|place| parameters.get(place).map_or("", String::as_str));
    let consumer = ConsumerId::new(consumer).map_err(|error| Problem::bad_request(error.to_string()));
    // Records and store may take their time, and the head of a request has up to 16 KiB.
    let has_body =
        matches!(what, Management::CreateRecord | Management::ChangeRecord | Management::SetBlocked);
    let request = has_body.then_some(request);
    let body = async || match request {
        Some(request) => read(caller, request).await,
        None => Ok(Bytes::new()),
    };
    match what {
        Management::RateLimiting => Ok(limiting_state::<S>(worker, gate).await),
        Management::Records => records::<S>(gate, &consumer?).await,
        Management::CreateRecord => create::<S>(gate, actor, consumer?, &body().await?).await,
        Management::ChangeRecord => {
            let (consumer, id) = (consumer?, record_id(of_it)?);
            change::<S>(gate, actor, consumer, id, &body().await?).await
        }
        Management::DeleteRecord => delete::<S>(gate, actor, &consumer?, record_id(of_it)?).await,
        Management::ActiveNow => active_now::<S>(gate, &consumer?).await,
        Management::ActiveInHour => active_in::<S>(gate, &consumer?, of_it).await,
        Management::CallLimits => call_limits::<S>(gate, &consumer?).await,
        Management::Counters => counters::<S>(gate, &consumer?).await,
        Management::ResetCounters => reset_counters::<S>(gate, actor, &consumer?).await,
        Management::Blocked => blocked(gate, &consumer?).await,
        Management::SetBlocked => {
            let consumer = consumer?;
            set_blocked(gate, actor, &consumer, &body().await?).await
        }
    }
}

async fn limiting_state<S: ManagementJson>(worker: &Worker, gate: &Gate) -> Response {
    let available = store_answers(&worker.state.limiter).await;
    let technology = worker.state.store.technology;
    let state = LimitingState { enabled: gate.is_enabled(), technology, available };
    json(StatusCode::OK, &S::limiting_state(&state))
}

async fn records<S: ManagementJson>(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let kept = gate.records().consumer(consumer).await?;
    Ok(json(StatusCode::OK, &S::records(consumer, &kept.records)))
}

async fn create<S: ManagementJson>(
    gate: &Gate,
    actor: &Actor,
    consumer: ConsumerId,
    body: &[u8],
) -> Result<Response, Problem> {
    let record = gate.records().create(S::draft(body, consumer)?).await?;
    let (id, consumer, to) = (record.id, &record.draft.consumer, logged(&S::record(&record)));
    tracing::info!(by = %actor, ?consumer, record = %id, to, "a record of a consumer was created");
    Ok(json(StatusCode::CREATED, &S::record(&record)))
}

async fn change<S: ManagementJson>(
    gate: &Gate,
    actor: &Actor,
    consumer: ConsumerId,
    id: RecordId,
    body: &[u8],
) -> Result<Response, Problem> {
    let draft = S::draft(body, consumer.clone())?;
    let from = kept_record::<S>(gate, &consumer, id).await?;
    let record = gate.records().change(id, draft).await?;
    let to = logged(&S::record(&record));
    tracing::info!(by = %actor, ?consumer, record = %id, from, to, "a record of a consumer was changed");
    Ok(json(StatusCode::OK, &S::record(&record)))
}

async fn delete<S: ManagementJson>(
    gate: &Gate,
    actor: &Actor,
    consumer: &ConsumerId,
    id: RecordId,
) -> Result<Response, Problem> {
    let from = kept_record::<S>(gate, consumer, id).await?;
    gate.records().delete(consumer, id).await?;
    tracing::info!(by = %actor, ?consumer, record = %id, from, "a record of a consumer was deleted");
    Ok(no_content(StatusCode::NO_CONTENT))
}

/// A record before its change, for the log; empty if there is none.
async fn kept_record<S: ManagementJson>(
    gate: &Gate,
    consumer: &ConsumerId,
    id: RecordId,
) -> Result<String, Problem> {
    let kept = gate.records().consumer(consumer).await?;
    let record = kept.records.iter().find(|record| record.id == id);
    Ok(record.map(|record| logged(&S::record(record))).unwrap_or_default())
}

/// A state before or after a change, as JSON on one line.
fn logged(state: &impl Serialize) -> String {
    serde_json::to_string(state).unwrap_or_default()
}

async fn active_now<S: ManagementJson>(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    Ok(json(StatusCode::OK, &S::active(consumer, &*gate.active(consumer).await?)))
}

async fn active_in<S: ManagementJson>(
    gate: &Gate,
    consumer: &ConsumerId,
    hour: &str,
) -> Result<Response, Problem> {
    let active = gate.active_in(consumer, S::hour(hour)?).await?;
    Ok(json(StatusCode::OK, &S::active(consumer, &active)))
}

async fn call_limits<S: ManagementJson>(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let active = gate.active(consumer).await?;
    let counters = gate.counters(consumer, active.limits).await?;
    Ok(json(StatusCode::OK, &S::call_limits(consumer, &active.limits, &counters)))
}

async fn counters<S: ManagementJson>(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let active = gate.active(consumer).await?;
    let counters = gate.counters(consumer, active.limits).await?;
    Ok(json(StatusCode::OK, &S::counters(consumer, &active.limits, &counters)))
}

async fn reset_counters<S: ManagementJson>(
    gate: &Gate,
    actor: &Actor,
    consumer: &ConsumerId,
) -> Result<Response, Problem> {
    let active = gate.active(consumer).await?;
    let counters = gate.counters(consumer, active.limits).await;
    let from = counters.map(|counters| logged(&S::counters(consumer, &active.limits, &counters)));
    gate.reset(consumer).await?;
    let from = from.unwrap_or_else(|_| "unknown".to_owned());
    tracing::info!(by = %actor, ?consumer, from, to = 0, "the counters of a consumer were reset");
    Ok(no_content(StatusCode::NO_CONTENT))
}

async fn blocked(gate: &Gate, consumer: &ConsumerId) -> Result<Response, Problem> {
    let kept = gate.records().consumer(consumer).await?;
    Ok(json(StatusCode::OK, &BlockedBody { blocked: kept.blocked }))
}

async fn set_blocked(
    gate: &Gate,
    actor: &Actor,
    consumer: &ConsumerId,
    body: &[u8],
) -> Result<Response, Problem> {
    let question: BlockedBody = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    let from = gate.records().consumer(consumer).await?.blocked;
    gate.records().set_blocked(consumer, question.blocked).await?;
    let to = question.blocked;
    tracing::info!(by = %actor, ?consumer, from, to, "a consumer was blocked or unblocked");
    Ok(json(StatusCode::OK, &question))
}

fn record_id(text: &str) -> Result<RecordId, Problem> {
    text.parse().map_err(|error: RecordIdError| Problem::bad_request(error.to_string()))
}
