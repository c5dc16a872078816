//! The management of consumers over HTTP: its routes, how OpenAPI describes them, and what each does.

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

/// What is done with consumers.
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

// The paths of consumers, as systems know them that did this before.
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

/// What it is for programs.
pub(crate) fn describe(what: Management, schemas: &mut SchemaGenerator) -> Description {
    match what {
        Management::RateLimiting => Description::new("Whether consumers are limited, and by what.")
            .answering(200, "Whether.", schema::<RateLimitingAnswer>(schemas)),
        Management::CallLimits => Description::new("A consumer's limits in force, and what was counted.")
            .answering(200, "Limits as texts, and counters.", schema::<CallLimitsAnswer>(schemas)),
        Management::Records => Description::new("The records of a consumer.").answering(
            200,
            "All of them, by where they begin.",
            schema::<RecordsAnswer>(schemas),
        ),
        Management::CreateRecord => Description::new("Makes a record for a consumer.")
            .asking(schema::<RecordBody>(schemas))
            .answering(201, "The record.", schema::<RecordAnswer>(schemas)),
        Management::ChangeRecord => Description::new("Makes a record say something else.")
            .asking(schema::<RecordBody>(schemas))
            .answering(200, "The record.", schema::<RecordAnswer>(schemas)),
        Management::DeleteRecord => Description::new("Removes a record.").empty(204, "It is gone."),
        Management::ActiveNow => Description::new("The limits of a consumer in this hour.").answering(
            200,
            "The sums of its records.",
            schema::<ActiveAnswer>(schemas),
        ),
        Management::ActiveInHour => Description::new("The limits of a consumer in an hour of UTC.")
            .answering(200, "The sums of its records.", schema::<ActiveAnswer>(schemas)),
        Management::Counters => Description::new("What was counted for a consumer.").answering(
            200,
            "The counters there are.",
            schema::<CountersAnswer>(schemas),
        ),
        Management::ResetCounters => {
            Description::new("Makes the counters of a consumer new.").empty(204, "They are.")
        }
        Management::Blocked => Description::new("Whether a consumer is blocked.").answering(
            200,
            "Whether.",
            schema::<BlockedBody>(schemas),
        ),
        Management::SetBlocked => Description::new("Blocks a consumer, or no longer.")
            .asking(schema::<BlockedBody>(schemas))
            .answering(200, "It is so.", schema::<BlockedBody>(schemas)),
    }
}

/// Does it. The parameters are what stands in the path: a consumer, and of it a record or an hour.
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
