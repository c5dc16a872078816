//! The routes of consumer management and their OpenAPI descriptions, in two shapes: the paths and JSON that the Open Bank
//! Project documents, and neutral ones.

use hyper::Method;
use schemars::SchemaGenerator;

use super::documented::Documented;
use super::management::BlockedBody;
use super::management_json::ManagementJson;
use super::neutral::Neutral;
use crate::http::openapi::{Description, schema};
use crate::http::route::{Access, Endpoint, Route, administration};

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

/// The JSON that a route speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonShape {
    /// As the Open Bank Project documents it.
    Documented,
    /// Our own: numbers are numbers.
    Neutral,
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

// The neutral ones.
const V1: &str = "/v1/consumers";
const V1_RECORDS: &str = "/v1/consumers/{consumer_id}/records";
const V1_RECORD: &str = "/v1/consumers/{consumer_id}/records/{record_id}";
const V1_LIMITS: &str = "/v1/consumers/{consumer_id}/limits";
const V1_LIMITS_AT: &str = "/v1/consumers/{consumer_id}/limits/{time}";
const V1_USAGE: &str = "/v1/consumers/{consumer_id}/usage";
const V1_BLOCKED: &str = "/v1/consumers/{consumer_id}/blocked";

pub(crate) static ROUTES: [Route; 23] = [
    documented(Method::GET, RATE_LIMITING, Management::RateLimiting, Access::Read),
    documented(Method::GET, CALL_LIMITS, Management::CallLimits, Access::Read),
    documented(Method::GET, RECORDS, Management::Records, Access::Read),
    documented(Method::POST, RECORDS, Management::CreateRecord, Access::Write),
    documented(Method::PUT, RECORD, Management::ChangeRecord, Access::Write),
    documented(Method::DELETE, RECORD, Management::DeleteRecord, Access::Write),
    documented(Method::GET, ACTIVE, Management::ActiveNow, Access::Read),
    documented(Method::GET, ACTIVE_IN_HOUR, Management::ActiveInHour, Access::Read),
    documented(Method::GET, COUNTERS, Management::Counters, Access::Read),
    documented(Method::DELETE, COUNTERS, Management::ResetCounters, Access::Write),
    documented(Method::GET, BLOCKED, Management::Blocked, Access::Read),
    documented(Method::PUT, BLOCKED, Management::SetBlocked, Access::Write),
    neutral(Method::GET, V1, Management::RateLimiting, Access::Read),
    neutral(Method::GET, V1_RECORDS, Management::Records, Access::Read),
    neutral(Method::POST, V1_RECORDS, Management::CreateRecord, Access::Write),
    neutral(Method::PUT, V1_RECORD, Management::ChangeRecord, Access::Write),
    neutral(Method::DELETE, V1_RECORD, Management::DeleteRecord, Access::Write),
    neutral(Method::GET, V1_LIMITS, Management::ActiveNow, Access::Read),
    neutral(Method::GET, V1_LIMITS_AT, Management::ActiveInHour, Access::Read),
    neutral(Method::GET, V1_USAGE, Management::CallLimits, Access::Read),
    neutral(Method::DELETE, V1_USAGE, Management::ResetCounters, Access::Write),
    neutral(Method::GET, V1_BLOCKED, Management::Blocked, Access::Read),
    neutral(Method::PUT, V1_BLOCKED, Management::SetBlocked, Access::Write),
];

const fn documented(method: Method, path: &'static str, what: Management, access: Access) -> Route {
    administration(method, path, Endpoint::Manage(what, JsonShape::Documented), access)
}

const fn neutral(method: Method, path: &'static str, what: Management, access: Access) -> Route {
    administration(method, path, Endpoint::Manage(what, JsonShape::Neutral), access)
}

/// The OpenAPI description of an operation.
pub(crate) fn describe(what: Management, shape: JsonShape, schemas: &mut SchemaGenerator) -> Description {
    match shape {
        JsonShape::Documented => describe_as::<Documented>(what, schemas),
        JsonShape::Neutral => describe_as::<Neutral>(what, schemas),
    }
}

fn describe_as<S: ManagementJson>(what: Management, schemas: &mut SchemaGenerator) -> Description {
    match what {
        Management::RateLimiting => Description::new("Whether consumers are limited, and by what.")
            .answering(200, "The state.", schema::<S::LimitingState>(schemas)),
        Management::CallLimits => Description::new("A consumer's limits in force, and its counters.")
            .answering(200, "Limits and counters.", schema::<S::CallLimits>(schemas)),
        Management::Records => Description::new("The records of a consumer.").answering(
            200,
            "All records, sorted by start.",
            schema::<S::Records>(schemas),
        ),
        Management::CreateRecord => Description::new("Creates a record for a consumer.")
            .asking(schema::<S::RecordBody>(schemas))
            .answering(201, "The record.", schema::<S::Record>(schemas)),
        Management::ChangeRecord => Description::new("Changes a record.")
            .asking(schema::<S::RecordBody>(schemas))
            .answering(200, "The record.", schema::<S::Record>(schemas)),
        Management::DeleteRecord => Description::new("Deletes a record.").empty(204, "Deleted."),
        Management::ActiveNow => Description::new("The limits of a consumer in this hour.").answering(
            200,
            "The sums of its records.",
            schema::<S::Active>(schemas),
        ),
        Management::ActiveInHour => Description::new("The limits of a consumer in one hour, in UTC.")
            .answering(200, "The sums of its records.", schema::<S::Active>(schemas)),
        Management::Counters => Description::new("The counters of a consumer.").answering(
            200,
            "The existing counters.",
            schema::<S::Counters>(schemas),
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
