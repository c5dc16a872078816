//! The management of consumers over HTTP: its routes, their OpenAPI descriptions and their handlers.

use hyper::body::Incoming;
use hyper::{Method, Request};
use schemars::SchemaGenerator;
use tollway_consumers::{ConsumerId, RecordId};

use super::limits::{self, ActiveAnswer, BlockedBody, CallLimitsAnswer, CountersAnswer, RateLimitingAnswer};
use super::records::{self, RecordAnswer, RecordBody, RecordsAnswer};
use crate::connection::Caller;
use crate::http::openapi::{Description, schema};
use crate::http::route::{Access, Operation, Route, administration};
use crate::http::{Problem, Response, read};
use crate::worker::Worker;

/// An operation of consumer management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Management {
    RateLimiting,
    CallLimits,
    Records,
    CreateRecord,
    ChangeRecord,
    DeleteRecord,
    ActiveNow,
    ActiveInHour,
    Counters,
    ResetCounters,
    Blocked,
    SetBlocked,
}

// The paths that existing clients of the Open Bank Project API use.
const RATE_LIMITING: &str = "/obp/v3.1.0/management/rate-limiting";
const CALL_LIMITS: &str = "/obp/v6.0.0/management/consumers/{consumer_id}/consumer/call-limits";
const RECORDS: &str = "/obp/v6.0.0/management/consumers/{consumer_id}/consumer/rate-limits";
const RECORD: &str = "/obp/v6.0.0/management/consumers/{consumer_id}/consumer/rate-limits/{rate_limiting_id}";
const ACTIVE: &str = "/obp/v6.0.0/management/consumers/{consumer_id}/active-rate-limits";
const ACTIVE_IN_HOUR: &str = "/obp/v6.0.0/management/consumers/{consumer_id}/active-rate-limits/{hour}";
const COUNTERS: &str = "/obp/v6.0.0/management/consumers/{consumer_id}/call-counters";
const BLOCKED: &str = "/obp/v6.0.0/management/consumers/{consumer_id}/blocked";

pub(crate) static ROUTES: [Route; 12] = [
    route(Method::GET, RATE_LIMITING, Management::RateLimiting, Access::Read),
    route(Method::GET, CALL_LIMITS, Management::CallLimits, Access::Read),
    route(Method::GET, RECORDS, Management::Records, Access::Read),
    route(Method::POST, RECORDS, Management::CreateRecord, Access::Write),
    route(Method::PUT, RECORD, Management::ChangeRecord, Access::Write),
    route(Method::DELETE, RECORD, Management::DeleteRecord, Access::Write),
    route(Method::GET, ACTIVE, Management::ActiveNow, Access::Read),
    route(Method::GET, ACTIVE_IN_HOUR, Management::ActiveInHour, Access::Read),
    route(Method::GET, COUNTERS, Management::Counters, Access::Read),
    route(Method::DELETE, COUNTERS, Management::ResetCounters, Access::Write),
    route(Method::GET, BLOCKED, Management::Blocked, Access::Read),
    route(Method::PUT, BLOCKED, Management::SetBlocked, Access::Write),
];

const fn route(method: Method, path: &'static str, what: Management, access: Access) -> Route {
    administration(method, path, Operation::Manage(what), access)
}

/// The OpenAPI description of an operation.
pub(crate) fn describe(what: Management, schemas: &mut SchemaGenerator) -> Description {
    match what {
        Management::RateLimiting => Description::new("Whether consumers are limited, and by what.")
            .answering(200, "The state.", schema::<RateLimitingAnswer>(schemas)),
        Management::CallLimits => Description::new("A consumer's limits in force, and its counters.")
            .answering(200, "Limits as strings, and counters.", schema::<CallLimitsAnswer>(schemas)),
        Management::Records => Description::new("The records of a consumer.").answering(
            200,
            "All records, sorted by start.",
            schema::<RecordsAnswer>(schemas),
        ),
        Management::CreateRecord => Description::new("Creates a record for a consumer.")
            .asking(schema::<RecordBody>(schemas))
            .answering(201, "The record.", schema::<RecordAnswer>(schemas)),
        Management::ChangeRecord => Description::new("Changes a record.")
            .asking(schema::<RecordBody>(schemas))
            .answering(200, "The record.", schema::<RecordAnswer>(schemas)),
        Management::DeleteRecord => Description::new("Deletes a record.").empty(204, "Deleted."),
        Management::ActiveNow => Description::new("The limits of a consumer in this hour.").answering(
            200,
            "The sums of its records.",
            schema::<ActiveAnswer>(schemas),
        ),
        Management::ActiveInHour => Description::new("The limits of a consumer in one hour, in UTC.")
            .answering(200, "The sums of its records.", schema::<ActiveAnswer>(schemas)),
        Management::Counters => Description::new("The counters of a consumer.").answering(
            200,
            "The existing counters.",
            schema::<CountersAnswer>(schemas),
        ),
        Management::ResetCounters => {
            Description::new("Resets the counters of a consumer.").empty(204, "Reset.")
        }
        Management::Blocked => Description::new("Whether a consumer is blocked.").answering(
            200,
            "The state.",
            schema::<BlockedBody>(schemas),
        ),
        Management::SetBlocked => Description::new("Blocks or unblocks a consumer.")
            .asking(schema::<BlockedBody>(schemas))
            .answering(200, "The new state.", schema::<BlockedBody>(schemas)),
    }
}

/// Runs an operation. The path's parameters are a consumer and then a record or an hour.
pub(crate) async fn manage(
    what: Management,
    worker: &Worker,
    caller: &Caller,
    parameters: Vec<String>,
    request: Request<Incoming>,
) -> Result<Response, Problem> {
    let consumers = worker.state.consumers().ok_or_else(Problem::no_consumers)?;
    let gate = &consumers.gate;
    let [consumer, of_it] = [0, 1].map(|place| parameters.get(place).map_or("", String::as_str));
    let consumer = ConsumerId::new(consumer).map_err(|error| Problem::bad_request(error.to_string()));
    match what {
        Management::RateLimiting => Ok(limits::rate_limiting(worker, gate).await),
        Management::CallLimits => limits::call_limits(gate, &consumer?).await,
        Management::ActiveNow => limits::active_now(gate, &consumer?).await,
        Management::ActiveInHour => limits::active_in(gate, &consumer?, of_it).await,
        Management::Records => records::list(gate, &consumer?).await,
        Management::CreateRecord => {
            let consumer = consumer?;
            records::create(gate, consumer, &read(caller, request).await?).await
        }
        Management::ChangeRecord => {
            let (consumer, id) = (consumer?, record_id(of_it)?);
            records::change(gate, consumer, id, &read(caller, request).await?).await
        }
        Management::DeleteRecord => records::delete(gate, &consumer?, record_id(of_it)?).await,
        Management::Counters => limits::counters(gate, &consumer?).await,
        Management::ResetCounters => limits::reset_counters(gate, &consumer?).await,
        Management::Blocked => limits::blocked(gate, &consumer?).await,
        Management::SetBlocked => {
            let consumer = consumer?;
            limits::set_blocked(gate, &consumer, &read(caller, request).await?).await
        }
    }
}

fn record_id(text: &str) -> Result<RecordId, Problem> {
    text.parse().map_err(|error: tollway_consumers::RecordIdError| Problem::bad_request(error.to_string()))
}
